(* What the corpus cannot show: files, locks, and runs of kaun-board. *)

open Toyspec

let failed = ref 0
let ran = ref 0

let test name body =
  incr ran;
  try body () with error -> incr failed; Printf.eprintf "%s: %s\n%!" name (Printexc.to_string error)

let start = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"run\"}\n"
let stop = "{\"kind\":\"run_end\",\"t\":9.0,\"reason\":\"completed\"}\n"
let ignore_record (_ : Reader.record) = ()

let temporary () =
  let path = Filename.temp_file "toyspec" "" in
  Sys.remove path;
  Unix.mkdir path 0o777;
  path

let contents path =
  let channel = open_in_bin path in
  Fun.protect ~finally:(fun () -> close_in channel) (fun () -> really_input_string channel (in_channel_length channel))

let put path text =
  let channel = open_out_bin path in
  Fun.protect ~finally:(fun () -> close_out channel) (fun () -> output_string channel text)

let refuses f = match f () with exception Writer.Refused _ -> true | _ -> false

let () =
  test "every cut is accounted for, and torn" (fun () ->
      let stream = start ^ stop in
      for cut = 0 to String.length stream - 1 do
        let report = Reader.read_string (String.sub stream 0 cut) ignore_record in
        assert (report.state = Torn && report.committed + report.fragment + report.gap_bytes = cut)
      done);
  test "a mode refuses what it says" (fun () ->
      let damaged = start ^ "{\n" ^ stop in
      assert ((Reader.read_string ~mode:Salvage damaged ignore_record).records = 2);
      assert (List.map (fun (gap : Reader.gap) -> gap.reason) (Reader.read_string ~mode:Prefix damaged ignore_record).gaps = [ "invalid-json"; "stopped" ]);
      match Reader.read_string damaged ignore_record with
      | exception Reader.Refused_stream { line = 2; reason = "invalid-json"; _ } -> ()
      | _ -> assert false);
  test "numbers read back" (fun () ->
      for _ = 1 to 20_000 do
        let x = Int64.float_of_bits (Random.int64 Int64.max_int) in
        if Float.is_finite x then assert (float_of_string (Numbers.binary64_text x) = x);
        let x = Int32.float_of_bits (Random.int32 Int32.max_int) in
        if Float.is_finite x then assert (Numbers.to_binary32 (float_of_string (Numbers.binary32_text x)) = x)
      done);
  test "records that no reader accepts are refused" (fun () ->
      List.iter
        (fun members -> match Canonical.encode "toy/v1" (`Assoc members) with exception Canonical.Refused _ -> () | _ -> assert false)
        [ [ ("kind", `String "step"); ("t", `Int 1) ]; [ ("t", `Int 1) ];
          [ ("kind", `String "step"); ("t", `Int (-1)); ("step", `Int 1) ];
          [ ("kind", `String "step"); ("t", `Int 1); ("step", `Float 1.5) ] ]);
  test "a writer ends with run_end, and t does not decrease" (fun () ->
      let directory = temporary () in
      let now = ref 10. in
      let w = Writer.open_run ~clock:(fun () -> !now) directory in
      now := 12.;
      Writer.write w (`Assoc [ ("kind", `String "run_start"); ("schema", `String "toy/v1"); ("run_id", `String "run") ]);
      now := 11.;
      Writer.write w (`Assoc [ ("kind", `String "step"); ("step", `Int 1); ("loss", `Float nan) ]);
      Writer.write w (`Assoc [ ("kind", `String "run_end"); ("reason", `String "completed") ]);
      assert (refuses (fun () -> Writer.write w (`Assoc [ ("kind", `String "note"); ("text", `String "late") ])));
      Writer.close w;
      assert ((Reader.read_file ~mode:Strict directory ignore_record).records = 3);
      assert (List.nth (String.split_on_char '\n' (contents (Filename.concat directory "events.jsonl"))) 1
              = "{\"kind\":\"step\",\"t\":2.0,\"step\":1,\"loss\":null}"));
  test "a fragment is set aside, and streams are refused" (fun () ->
      let directory = temporary () in
      let path = Filename.concat directory "events.jsonl" in
      put path (start ^ "{\"kind\":\"st");
      Writer.close (Writer.open_run ~exist:Resume directory);
      assert (contents path = start && contents (Printf.sprintf "%s.torn-%d" path (String.length start)) = "{\"kind\":\"st");
      List.iter
        (fun stream ->
          put path stream;
          assert (refuses (fun () -> ignore (Writer.open_run ~exist:Resume directory)) && contents path = stream))
        [ start ^ stop; start ^ "{\n" ];
      assert (refuses (fun () -> ignore (Writer.open_run ~exist:Fail directory)));
      Writer.close (Writer.open_run directory);
      assert (Sys.file_exists (path ^ ".prev")));
  test "a run of kaun-board is created, loaded, and read as it grows" (fun () ->
      let base = temporary () in
      let run = Kaun.create ~base ~experiment:"mnist" ~tags:[ "a" ] ~config:[ ("lr", `Float 0.1) ] () in
      assert (Option.map (fun (r : Kaun.run) -> r.manifest) (Kaun.latest base) = Some run.manifest);
      let path = Filename.concat run.directory "events.jsonl" in
      let events = Kaun.open_events run.directory in
      assert (Kaun.read_events events = []);
      let w = Writer.append path "kaun/v1" in
      let scalar : Kaun.scalar = { step = 1; wall_time = 5.; tag = "loss"; value = 0.5; minimize = true; epoch = Some 2 } in
      Writer.write w (Kaun.json_of_scalar scalar);
      Writer.close w;
      assert (Kaun.read_events events = [ scalar ]);
      let line = contents path in
      put path (line ^ "nonsense\r\n\n{\"type\":\"other\"}\n" ^ String.sub line 0 20);
      assert (Kaun.read_events events = [] && List.map snd (Kaun.skipped events) = [ "invalid-json" ]);
      put path (line ^ "nonsense\r\n\n{\"type\":\"other\"}\n" ^ line);
      assert (Kaun.read_events events = [ scalar ]);
      put path line;
      assert (Kaun.read_events events = [ scalar ]);
      Sys.remove path;
      assert (Kaun.read_events events = []));
  Printf.printf "%d passed, %d failed\n" (!ran - !failed) !failed;
  exit (min 1 !failed)
