(* Runs of kaun-board: manifests, streams that grow, the store and the logger. *)

open Toyspec
open Testing

let scalar ?epoch ?minimize step tag value : Kaun_scalar.t = { step; wall_time = 5.; tag; value; minimize; epoch }
let stored scalars = let store = Kaun_store.create () in Kaun_store.update store scalars; store

let events () =
  test "a run is created, loaded, and read as it grows" (fun () ->
      let base_dir = temporary () in
      let run = Kaun.create ~base_dir ~experiment:"mnist" ~tags:[ "a" ] ~config:[ ("lr", `Float 0.1) ] () in
      assert (Option.map (fun (r : Kaun.run) -> r.manifest) (Kaun.latest base_dir) = Some run.manifest);
      let path = Filename.concat run.directory "events.jsonl" in
      let events = Kaun_events.open_events run.directory in
      assert (Kaun_events.read_events events = []);
      let w = Writer.append path "kaun/v1" in
      let first = scalar ~minimize:true ~epoch:2 1 "loss" 0.5 in
      Writer.write w (Kaun_scalar.to_json first);
      Writer.close w;
      assert (Kaun_events.read_events events = [ first ]);
      let line = contents path in
      put path (line ^ "nonsense\r\n\n{\"type\":\"other\"}\n" ^ String.sub line 0 20);
      assert (Kaun_events.read_events events = [] && List.map snd (Kaun_events.skipped events) = [ "invalid-json" ]);
      put path (line ^ "nonsense\r\n\n{\"type\":\"other\"}\n" ^ line);
      assert (Kaun_events.read_events events = [ first ]);
      put path line;
      assert (Kaun_events.read_events events = [ first ]);
      Sys.remove path;
      assert (Kaun_events.read_events events = [] && Kaun_events.last_mtime events = None);
      Unix.mkdir path 0o777;
      assert (Kaun_events.read_events events = []);
      Unix.rmdir path;
      put path line;
      Kaun_events.close_events events;
      assert (Kaun_events.read_events events = []));
  test "optional keys of the wrong type are absent, and fractions are cut off" (fun () ->
      let read line = Kaun_scalar.of_json (Yojson.Safe.from_string line) in
      assert (read "{\"type\":\"scalar\",\"step\":2.9,\"tag\":\"a\",\"value\":1,\"epoch\":null,\"wall_time\":\"x\",\"minimize\":1}"
              = Some { (scalar 2 "a" 1.) with wall_time = 0. });
      assert (read "{\"type\":\"scalar\",\"step\":\"2\",\"tag\":\"a\",\"value\":1}" = None);
      assert (read "{\"type\":\"scalar\",\"step\":2,\"tag\":\"a\"}" = None));
  test "minimize is written only where it is given" (fun () ->
      assert (Canonical.encode "kaun/v1" (Kaun_scalar.to_json (scalar 1 "a" 1.))
              = "{\"type\":\"scalar\",\"step\":1,\"wall_time\":5.0,\"tag\":\"a\",\"value\":1.0}\n"));
  test "runs are where the environment says" (fun () ->
      Unix.putenv "RAVEN_RUNS_DIR" "/a";
      assert (Kaun.base () = "/a");
      Unix.putenv "RAVEN_RUNS_DIR" "";
      Unix.putenv "XDG_CACHE_HOME" "/b";
      assert (Kaun.base () = "/b/raven/runs"));
  test "an experiment has any name" (fun () ->
      let base_dir = temporary () in
      let run = Kaun.create ~base_dir ~experiment:"../a b/\xc3\xa9" () in
      assert (run.manifest.experiment = Some "../a b/\xc3\xa9" && Run_ids.is_safe run.manifest.run_id);
      assert (names base_dir = [ run.manifest.run_id ] && Kaun.latest base_dir = Some run))

let store () =
  test "the latest of a tag has the largest step, then epoch, and is the first of equals" (fun () ->
      let latest scalars = List.assoc "x" (Kaun_store.latest_metrics (stored scalars)) in
      let a = scalar 2 "x" 1. and b = scalar 2 "x" 2. and c = scalar ~epoch:0 2 "x" 3. and d = scalar ~epoch:9 1 "x" 4. in
      assert (latest [ a; b ] = a && latest [ a; c; d ] = c && latest [ d; a ] = a));
  test "the best of a tag goes by minimize, else by its name" (fun () ->
      let best tag scalars = Option.map (fun (s : Kaun_scalar.t) -> s.value) (Kaun_store.best_for_tag (stored scalars) tag) in
      let of_tag ?minimize tag = [ scalar 1 tag 2.; scalar ?minimize 2 tag 1.; scalar 3 tag nan; scalar 4 tag 3. ] in
      assert (best "Val/LOSS" (of_tag "Val/LOSS") = Some 1. && best "error_rate" (of_tag "error_rate") = Some 1. && best "acc" (of_tag "acc") = Some 3.);
      assert (best "acc" (of_tag ~minimize:true "acc") = Some 1. && best "loss" (of_tag ~minimize:false "loss") = Some 3.);
      assert (best "acc" [ scalar 1 "acc" nan ] = None && best "other" [] = None));
  test "the store lists tags in order, keeps history, and is cleared" (fun () ->
      let scalars = [ scalar ~epoch:1 1 "b" 1.; scalar 1 "a" 2.; scalar ~epoch:3 2 "b" 3. ] in
      let store = stored scalars in
      assert (List.map fst (Kaun_store.latest_metrics store) = [ "a"; "b" ] && List.map fst (Kaun_store.best_metrics store) = [ "a"; "b" ]);
      assert (List.map (fun (s : Kaun_scalar.t) -> s.value) (Kaun_store.history_for_tag store "b") = [ 1.; 3. ]);
      assert (Kaun_store.latest_epoch store = Some 3);
      Kaun_store.clear store;
      assert (Kaun_store.latest_metrics store = [] && Kaun_store.latest_epoch store = None))

let logger () =
  test "the logger writes any number of scalars for one step" (fun () ->
      let base_dir = temporary () in
      let log = Kaun_logger.create ~base_dir ~experiment:"mnist" () in
      Kaun_logger.scalars log ~step:1 ~epoch:0 [ ("loss", 0.5); ("acc", 0.9) ];
      Kaun_logger.scalars log ~step:2 [];
      let events = Kaun_events.open_events (Kaun_logger.run_dir log) in
      assert (List.map (fun (s : Kaun_scalar.t) -> (s.tag, s.value, s.epoch)) (Kaun_events.read_events events) = [ ("loss", 0.5, Some 0); ("acc", 0.9, Some 0) ]);
      (* Its own reader does not give up the lock of the logger. *)
      Kaun_events.close_events events;
      assert (refuses (fun () -> Writer.append (Filename.concat (Kaun_logger.run_dir log) "events.jsonl") "kaun/v1"));
      assert (rejects (fun () -> Kaun_logger.scalars log ~step:(-1) [ ("loss", 1.) ]));
      assert (Filename.basename (Kaun_logger.run_dir log) = Kaun_logger.run_id log);
      Kaun_logger.close log;
      Kaun_logger.scalars log ~step:3 [ ("loss", 1.) ];
      assert ((Reader.read_file (Kaun_logger.run_dir log) ignore_record).records = 2))

let run () =
  events ();
  store ();
  logger ()
