(* Existing streams, side files and locks. *)

open Toyspec
open Testing

let resume directory = Writer.open_run ~exist:Resume directory
let close_new directory = let w = Writer.open_run directory in Writer.write w run_start; Writer.close w
let long = "{\"kind\":\"note\",\"text\":\"" ^ String.make 200_000 'x'

let streams () =
  test "a writer ends with run_end, and t does not decrease" (fun () ->
      let directory, path = bundle () in
      let now = ref 10. in
      let w = Writer.open_run ~clock:(fun () -> !now) directory in
      now := 12.;
      Writer.write w run_start;
      now := 11.;
      Writer.write w (record [ ("kind", `String "step"); ("step", `Int 1); ("loss", `Float nan) ]);
      Writer.write w run_end;
      assert (refuses (fun () -> Writer.write w (note "late")));
      assert ((Reader.read_file ~mode:Strict directory ignore_record).records = 3);
      assert (List.nth (String.split_on_char '\n' (contents path)) 1 = "{\"kind\":\"step\",\"t\":2.0,\"step\":1,\"loss\":null}"));
  test "streams that are damaged or of another format are left alone" (fun () ->
      List.iter
        (fun stream ->
          let directory, path = bundle ~stream () in
          assert (refuses (fun () -> resume directory) && contents path = stream && names directory = [ "events.jsonl" ]))
        [ start ^ "{\n"; "{}\n"; "{\"type\":\"scalar\"}\n" ];
      let directory, path = bundle ~stream:"{}\n" () in
      assert (refuses (fun () -> Writer.open_run ~exist:Fail directory));
      assert (refuses (fun () -> Writer.append path "kaun/v1")));
  test "a run goes on after its end" (fun () ->
      let directory, path = bundle ~stream:(start ^ stop) () in
      let w = resume directory in
      assert (rejects (fun () -> Writer.write w (step 2)));
      Writer.write w (record [ ("kind", `String "run_resume"); ("from_step", `Int 0) ]);
      Writer.finish w;
      assert (List.length (String.split_on_char '\n' (contents path)) = 5));
  test "a resumed run begins with run_resume" (fun () ->
      let directory, path = bundle ~stream:(start ^ "{\"kind\":\"step\",\"t\":5.0,\"step\":1.0}\n") () in
      let w = resume directory in
      assert (rejects (fun () -> Writer.write w (step 2)));
      Writer.write w (run_resume 1);
      assert (rejects (fun () -> Writer.write w (step 1)));
      Writer.write w (step 2);
      Writer.close w;
      assert (kinds path = [ "run_start"; "step"; "run_resume"; "step" ]));
  test "a run is ended as its function is left" (fun () ->
      let ending error =
        let directory, path = bundle () in
        (try Writer.with_run directory (fun w -> Writer.write w run_start; Writer.write w (step 3); Option.iter raise error) with _ -> ());
        let last = List.nth (List.rev (String.split_on_char '\n' (contents path))) 1 in
        let member = Profile.member (Yojson.Safe.from_string last) in
        assert (member "final_step" = Some (`Int 3));
        (member "reason", member "error")
      in
      assert (ending None = (Some (`String "completed"), None) && ending (Some Sys.Break) = (Some (`String "interrupted"), None));
      assert (ending (Some (Failure "why")) = (Some (`String "errored"), Some (`String "Failure(\"why\")"))));
  test "one record is one write" (fun () ->
      let directory, _ = bundle () in
      let sizes = ref [] in
      let write d bytes offset length = sizes := length :: !sizes; Syscalls.system.write d bytes offset length in
      let w = Writer.open_run ~calls:{ Syscalls.system with write } directory in
      Writer.write w run_start;
      Writer.write w (note (String.make 300_000 'x'));
      Writer.close w;
      assert (List.length !sizes = 2 && List.hd !sizes > 300_000);
      assert ((Reader.read_file directory ignore_record).records = 2))

let side_files () =
  test "every earlier log is kept" (fun () ->
      let directory, path = bundle () in
      for i = 1 to 4 do
        put path (start ^ string_of_int i);
        close_new directory;
        Unix.unlink path
      done;
      let kept tail = contents (path ^ ".prev" ^ tail) in
      assert (List.map kept [ "-1"; "-2"; "-3"; "" ] = List.map (fun i -> start ^ string_of_int i) [ 1; 2; 3; 4 ]));
  test "an empty stream is not kept" (fun () ->
      let directory, path = bundle ~stream:"" () in
      put (path ^ ".prev") start;
      close_new directory;
      assert (contents (path ^ ".prev") = start && names directory = [ "events.jsonl"; "events.jsonl.prev" ]));
  test "a start that is refused leaves no file" (fun () ->
      let start_badly directory =
        let w = Writer.open_run directory in
        assert (rejects (fun () -> Writer.write w (record [ ("kind", `String "run_start"); ("schema", `String "toy/v1"); ("run_id", `String "a b") ])));
        Writer.close w
      in
      let directory, _ = bundle () in
      start_badly directory;
      assert (names directory = []);
      let directory, path = bundle ~stream:start () in
      put (path ^ ".prev") "older";
      start_badly directory;
      assert (contents path = start && contents (path ^ ".prev") = "older" && List.length (names directory) = 2));
  test "fragments of any length are kept, each in its own file" (fun () ->
      let directory, path = bundle () in
      let fragments = [ long; "{\"kind\":\"st"; String.uppercase_ascii long ] in
      List.iter (fun fragment -> put path (start ^ fragment); Writer.close (resume directory); assert (contents path = start)) fragments;
      let side tail = contents (Printf.sprintf "%s.torn-%d%s" path (String.length start) tail) in
      assert (List.map side [ ""; "-2"; "-3" ] = fragments));
  test "a side file that does not fit is removed, and the lock is released" (fun () ->
      let directory, path = bundle ~stream:(start ^ long) () in
      let write d bytes offset length =
        if length > 100_000 then (ignore (Unix.single_write d bytes offset 1000); raise (Unix.Unix_error (ENOSPC, "write", "")));
        Syscalls.system.write d bytes offset length
      in
      assert (fails ENOSPC path (fun () -> Writer.open_run ~exist:Resume ~calls:{ Syscalls.system with write } directory));
      assert (contents path = start ^ long && names directory = [ "events.jsonl" ]);
      Writer.close (resume directory));
  test "a cut that fails leaves no side file" (fun () ->
      let directory, path = bundle ~stream:(start ^ "{") () in
      let ftruncate _ _ = raise (Unix.Unix_error (EIO, "ftruncate", "")) in
      assert (fails EIO path (fun () -> Writer.open_run ~exist:Resume ~calls:{ Syscalls.system with ftruncate } directory));
      assert (contents path = start ^ "{" && names directory = [ "events.jsonl" ]));
  test "the side file and its directory are synced before the cut" (fun () ->
      let directory, path = bundle ~stream:(start ^ "{") () in
      let order = ref [] in
      let inode name = (Unix.stat name).st_ino in
      let fsync d = order := ("fsync", (Unix.fstat d).st_ino) :: !order; Unix.fsync d in
      let ftruncate d size = order := ("cut", (Unix.fstat d).st_ino) :: !order; Unix.ftruncate d size in
      Writer.close (Writer.open_run ~exist:Resume ~calls:{ Syscalls.system with fsync; ftruncate } directory);
      let side = Printf.sprintf "%s.torn-%d" path (String.length start) in
      assert (List.rev !order = [ ("fsync", inode side); ("fsync", inode directory); ("cut", inode path); ("fsync", inode path) ]))

let locks () =
  test "a second writer is refused, and both kinds of locks are seen and taken" (fun () ->
      let directory, path = bundle ~stream:start () in
      let opened () = Unix.openfile path [ O_RDWR ] 0 in
      let record_lock () = match Unix.lockf (opened ()) F_TLOCK 0 with () -> 0 | exception Unix.Unix_error ((EAGAIN | EACCES), _, _) -> 1 in
      let both () = if Syscalls.system.lock (opened ()) then 0 else 1 in
      let w = resume directory in
      List.iter (fun exist -> assert (refuses (fun () -> Writer.open_run ~exist directory))) [ Writer.Resume; Replace; Fail ];
      assert (in_child record_lock = 1 && in_child both = 1);
      if Sys.command "command -v flock >/dev/null" = 0 then assert (Sys.command ("flock -n " ^ Filename.quote path ^ " true") <> 0);
      (* Reading the stream does not give up its lock. *)
      ignore (Reader.read_file directory ignore_record);
      assert (in_child record_lock = 1 && in_child both = 1);
      Writer.close w;
      assert (in_child record_lock = 0 && in_child both = 0);
      Unix.lockf (opened ()) F_TLOCK 0;
      assert (in_child (fun () -> if refuses (fun () -> resume directory) then 0 else 1) = 0));
  test "a file that is replaced between opening and locking is opened again" (fun () ->
      let directory, path = bundle ~stream:start () in
      let replaced = ref false in
      let lock d =
        if not !replaced then (Unix.rename path (path ^ ".old"); put path start);
        replaced := true;
        Syscalls.system.lock d
      in
      let w = Writer.open_run ~exist:Resume ~calls:{ Syscalls.system with lock } directory in
      Writer.write w (run_resume 0);
      Writer.close w;
      assert (kinds path = [ "run_start"; "run_resume" ] && contents (path ^ ".old") = start));
  test "only regular files are opened" (fun () ->
      let outside = temporary () in
      let socket = Filename.concat outside "s" in
      Unix.bind (Unix.socket PF_UNIX SOCK_STREAM 0) (ADDR_UNIX socket);
      List.iter
        (fun make ->
          let directory, path = bundle () in
          make path;
          List.iter (fun exist -> assert (refuses (fun () -> Writer.open_run ~exist directory))) [ Writer.Resume; Replace; Fail ];
          assert (names directory = [ "events.jsonl" ]))
        [ (fun path -> Unix.mkdir path 0o777); (fun path -> Unix.mkfifo path 0o666); Unix.symlink "/dev/null"; Unix.symlink socket ]);
  test "a forked process does not write" (fun () ->
      let directory, path = bundle ~stream:start () in
      let w = resume directory in
      assert (in_child (fun () -> if refuses (fun () -> Writer.write w (run_resume 0)) then 0 else 1) = 0);
      assert (contents path = start);
      Writer.close w)

let run () =
  streams ();
  side_files ();
  if not Sys.win32 then locks ()
