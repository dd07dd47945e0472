(* What the corpus cannot show: files, locks, problems, and runs of kaun-board. *)

let () =
  match Sys.argv with
  | [| _; "--limited"; directory |] -> Fault_tests.limited directory
  | _ ->
    Printexc.record_backtrace true;
    Reading_tests.run ();
    Writer_tests.run ();
    Fault_tests.run ();
    Kaun_tests.run ();
    Testing.finish ()
