(* Writes this sample, ../kaun and ../../dialects/munin: munin of raven at d9facbc2, kaun-board of raven before 9cc2c8fc,
   OCaml 5.3.0, jsont 0.2.0, bytesrw 0.3.0, sha 1.15.4.

   In one dune workspace with packages/munin/lib, packages/kaun-board/lib/kaun-board and the three libraries, with
   (executable (name make) (libraries munin kaun_board unix)) in the file dune: dune exec --profile release ./make.exe *)

let losses = [ 1, 2.0; 2, 1.0; 3, 2. /. 3.; 4, infinity; 5, nan; 6, 1. /. 3. ]

let munin () =
  let session =
    Session.start ~root:"munin" ~experiment:"toyspec" ~name:"first try" ~tags:[ "small" ] ~notes:"warm-up"
      ~command:[ "make" ] ~cwd:"." ~hostname:"host" ~pid:1 ~git_commit:"0123456789abcdef" ~git_dirty:false
      ~params:[ "lr", `Float 0.001; "layers", `Int 2; "name", `String "tiny"; "decay", `Float nan; "flag", `Bool true ]
      ()
  in
  Session.define_metric session "val/acc" ~summary:`Max ~goal:`Maximize ();
  List.iter
    (fun (step, loss) ->
      Session.log_metrics session ~step [ "train/loss", loss; "lr", 0.001 ];
      if step mod 3 = 0 then Session.log_metric session ~step "val/acc" (float step /. 8.))
    losses;
  Session.log_table session ~step:6 ~key:"confusion" ~columns:[ "a"; "b" ] ~rows:[ [ `Int 1; `Float 0.5 ] ];
  Session.set_notes session (Some "warm-up\nand more");
  Session.add_tags session [ "again" ];
  Session.set_summary session [ "best", `Float 0.75 ];
  let path = Filename.temp_file "weights" ".bin" in
  Out_channel.with_open_bin path (fun channel -> output_string channel "weights");
  ignore (Session.log_artifact session ~name:"weights" ~kind:`checkpoint ~path ~aliases:[ "best" ] ());
  Session.finish session ()

let kaun () =
  let config = [ "lr", Jsont.Json.number 0.001; "layers", Jsont.Json.int 2 ] in
  let log = Kaun_board.Log.create ~base_dir:"kaun" ~experiment:"first" ~tags:[ "small" ] ~config () in
  List.iter
    (fun (step, loss) ->
      Kaun_board.Log.scalars log ~step ~epoch:(step / 4) [ "train/loss", loss; "lr", 0.001 ];
      if step mod 3 = 0 then Kaun_board.Log.scalars log ~step [ "val/acc", float step /. 8. ])
    losses;
  Kaun_board.Log.close log

let () =
  munin ();
  kaun ()
