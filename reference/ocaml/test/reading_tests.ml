(* Reading, and the text of records. *)

open Toyspec
open Testing

let profile_of ?(name = "log.jsonl") line = (Reader.read_string ~mode:Salvage ~name (line ^ "\n") ignore_record).profile

let values stream =
  let found = ref [] in
  ignore (Reader.read_string stream (fun record -> found := record.value :: !found));
  List.rev !found

let run () =
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
      let refused members = rejects (fun () -> Canonical.encode "toy/v1" (`Assoc members)) in
      let in_note member = refused [ ("kind", `String "note"); ("t", `Int 1); ("text", `String ""); member ] in
      assert (List.for_all refused
        [ [ ("kind", `String "step"); ("t", `Int 1) ]; [ ("t", `Int 1) ];
          [ ("kind", `String "step"); ("t", `Int (-1)); ("step", `Int 1) ];
          [ ("kind", `String "step"); ("t", `Int 1); ("step", `Float 1.5) ];
          [ ("kind", `String "step"); ("t", `Intlit "01"); ("step", `Int 1) ] ]);
      assert (List.for_all in_note
        [ ("x", `String "\xff"); ("\xff", `Int 1); ("x", `Intlit ("1" ^ String.make 400 '0')); ("x", `Intlit "007"); ("x", `Intlit "1e400");
          ("x", `Intlit ""); ("x", `Intlit "-"); ("text", `String "again"); ("x", `Assoc [ ("a", `Int 1); ("a", `Int 2) ]) ]);
      assert (not (in_note ("x", `Intlit "123456789012345678901234567890"))));
  test "integers may be written with a fraction" (fun () ->
      let step = "{\"kind\":\"step\",\"t\":1,\"step\":1.0,\"wall_us\":7.12e4,\"tokens\":1.5,\"loss\":2.0,\"x\":3.0}\n" in
      (match values (start ^ step) with
      | [ _; step ] ->
        let member = Profile.member step in
        assert (member "step" = Some (`Int 1) && member "wall_us" = Some (`Int 71200) && member "tokens" = Some (`Float 1.5));
        assert (member "loss" = Some (`Float 2.) && member "x" = Some (`Float 3.))
      | _ -> assert false);
      assert (Integers.of_float 1e300 = Some (`Intlit (Printf.sprintf "%.0f" 1e300)) && Integers.of_float (-0.) = Some (`Int 0));
      assert (values "{\"step\":1.0,\"wall_time_ms\":2.0}\n" = [ `Assoc [ ("step", `Float 1.); ("wall_time_ms", `Float 2.) ] ]));
  test "the first record decides the profile" (fun () ->
      assert (profile_of "{\"kind\":\"run_start\"}" = Some "toy/v1" && profile_of "{\"kind\":\"x\",\"t\":1}" = Some "toy/v1");
      assert (profile_of "{\"kind\":\"x\",\"t\":\"1\"}" = None && profile_of "{\"type\":\"user\"}" = None && profile_of "{\"step\":1}" = None);
      assert (profile_of "{\"type\":\"scalar\"}" = Some "kaun/v1" && profile_of "{\"step\":1,\"wall_time_ms\":2}" = Some "metrics/v1");
      assert (profile_of "" = Some "toy/v1" && profile_of "x" = None && profile_of ~name:"metrics.jsonl.gz" "x" = Some "metrics/v1"));
  test "a manifest decides where the record does not" (fun () ->
      let directory, path = bundle ~stream:"{\"type\":\"image\"}\n" () in
      let profile () = (Reader.read_file path ignore_record).profile in
      assert (profile () = None);
      put (Filename.concat directory "run.json") "{\"run_id\":\"r\"}";
      assert (profile () = Some "kaun/v1");
      put (Filename.concat directory "run.json") "{\"run_id\":\"r\",\"kind\":\"run_start\"}";
      assert (profile () = None));
  test "views are those of the run's own phase" (fun () ->
      let steps = "{\"kind\":\"step\",\"t\":1,\"step\":1.0,\"loss\":3.0}\n{\"kind\":\"step\",\"t\":2,\"step\":1,\"phase\":\"decode\",\"loss\":9.0}\n" in
      let views, report = Views.of_string (start ^ steps) in
      assert (report.state = Torn && List.assoc "loss_curve" views = Views.Numbers [ Some 3. ] && List.assoc "last_step" views = Views.Integer "1");
      assert (List.assoc "final_loss" views = Views.Number (Some 3.) && List.assoc_opt "reason" views = None))
