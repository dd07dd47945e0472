(* Full disks, failing devices, interrupted calls, and files that others change. *)

open Toyspec
open Testing

type disk = { mutable error : Unix.error option; mutable taken : int }

(* Calls on a disk that takes so many bytes more and then fails, while it has an error. *)
let calls_on disk =
  let write d bytes offset length =
    match disk.error with
    | None -> Syscalls.system.write d bytes offset length
    | Some error ->
      if disk.taken = 0 then raise (Unix.Unix_error (error, "write", ""));
      let size = min length disk.taken in
      disk.taken <- 0;
      Syscalls.system.write d bytes offset size
  in
  { Syscalls.system with write }

(* A writer that goes on after a run_start, on a disk. *)
let resumed () =
  let directory, path = bundle ~stream:start () in
  let disk = { error = None; taken = 0 } in
  let w = Writer.open_run ~exist:Resume ~calls:(calls_on disk) directory in
  Writer.write w (run_resume 0);
  (w, path, disk)

let fill disk = disk.error <- Some ENOSPC; disk.taken <- 10

let append_foreign path line =
  let channel = open_out_gen [ Open_append; Open_binary ] 0o666 path in
  output_string channel line;
  close_out channel

let full_disks () =
  test "a record that does not fit is dropped and counted" (fun () ->
      let w, path, disk = resumed () in
      let before = contents path in
      fill disk;
      List.iter (fun n -> assert (fails ENOSPC path (fun () -> Writer.write w (step n)))) [ 1; 2; 3 ];
      assert (contents path = before && Writer.dropped w = 3);
      disk.error <- None;
      Writer.write w (step 4);
      assert (kinds path = [ "run_start"; "run_resume"; "note"; "step" ]);
      let noted = Yojson.Safe.from_string (List.nth (String.split_on_char '\n' (contents path)) 2) in
      assert (Profile.member noted "text" = Some (`String "toyspec: 3 records could not be written and were dropped")));
  test "a device that fails closes the stream for good" (fun () ->
      let w, path, disk = resumed () in
      let before = contents path in
      disk.error <- Some EIO;
      disk.taken <- 10;
      assert (fails EIO path (fun () -> Writer.write w (step 1)));
      disk.error <- None;
      assert (contents path = before && Writer.is_closed w && refuses (fun () -> Writer.write w (step 1))));
  test "a stream that was emptied does not grow when the disk is full" (fun () ->
      let w, path, disk = resumed () in
      Unix.truncate path 0;
      fill disk;
      assert (fails ENOSPC path (fun () -> Writer.write w (step 1)));
      assert (contents path = ""));
  test "a stream that is emptied while a part is taken back does not grow" (fun () ->
      let directory, path = bundle ~stream:start () in
      let broken = ref false in
      let write d bytes offset length =
        if not !broken then Syscalls.system.write d bytes offset length
        else if offset = 0 then Syscalls.system.write d bytes 0 10
        else (Unix.truncate path 0; raise (Unix.Unix_error (ENOSPC, "write", "")))
      in
      let w = Writer.open_run ~exist:Resume ~calls:{ Syscalls.system with write } directory in
      Writer.write w (run_resume 0);
      broken := true;
      assert (fails ENOSPC path (fun () -> Writer.write w (step 1)));
      assert (contents path = ""));
  test "lines of others are not cut when the disk is full" (fun () ->
      let w, path, disk = resumed () in
      append_foreign path "{\"kind\":\"note\",\"t\":1.0,\"text\":\"other\"}\n";
      let before = contents path in
      fill disk;
      assert (fails ENOSPC path (fun () -> Writer.write w (step 1)));
      assert (contents path = before));
  test "a part that is followed by lines of others is not removed" (fun () ->
      let directory, path = bundle ~stream:start () in
      let broken = ref false in
      let write d bytes offset length =
        if not !broken then Syscalls.system.write d bytes offset length
        else if offset = 0 then (let size = Syscalls.system.write d bytes 0 10 in append_foreign path "foreign\n"; size)
        else raise (Unix.Unix_error (ENOSPC, "write", ""))
      in
      let w = Writer.open_run ~exist:Resume ~calls:{ Syscalls.system with write } directory in
      Writer.write w (run_resume 0);
      let before = contents path in
      broken := true;
      assert (fails ENOSPC path (fun () -> Writer.write w (step 1)));
      assert (contents path = before ^ "{\"kind\":\"s" ^ "foreign\n" && Writer.is_closed w));
  test "interrupted calls are repeated, and short writes completed" (fun () ->
      let directory, path = bundle () in
      let calls = ref 0 in
      let write d bytes offset length =
        incr calls;
        if !calls mod 2 = 1 then raise (Unix.Unix_error (EINTR, "write", ""));
        Syscalls.system.write d bytes offset (min 7 length)
      in
      let w = Writer.open_run ~calls:{ Syscalls.system with write } directory in
      Writer.write w run_start;
      Writer.write w (step 1);
      assert (kinds path = [ "run_start"; "step" ]));
  test "an exception of a signal inside a write leaves whole lines" (fun () ->
      List.iter
        (fun taken ->
          let directory, path = bundle ~stream:start () in
          let breaks = ref false in
          let write d bytes offset length =
            if not !breaks then Syscalls.system.write d bytes offset length
            else (ignore (Syscalls.system.write d bytes offset (min taken length)); raise Sys.Break)
          in
          let w = Writer.open_run ~exist:Resume ~calls:{ Syscalls.system with write } directory in
          Writer.write w (run_resume 0);
          breaks := true;
          (try Writer.write w (step 1); assert false with Sys.Break -> ());
          breaks := false;
          if taken > 10 then assert (rejects (fun () -> Writer.write w (step 1))) else Writer.write w (step 1);
          Writer.write w (step 2);
          assert (kinds path = [ "run_start"; "run_resume"; "step"; "step" ]))
        [ 0; 10; 1000 ])

let syncs () =
  test "a failed sync is not repeated, and run_end is not acknowledged" (fun () ->
      let directory, path = bundle () in
      let syncs = ref 0 in
      let fsync _ = incr syncs; raise (Unix.Unix_error (EIO, "fsync", "")) in
      let w = Writer.open_run ~calls:{ Syscalls.system with fsync } directory in
      assert (fails EIO path (fun () -> Writer.write w run_start));
      assert (refuses (fun () -> Writer.write w run_end) && !syncs = 1));
  test "a directory that cannot be synced does not end logging, one that fails does" (fun () ->
      let with_error error =
        let directory, path = bundle () in
        let fsync d = if (Unix.fstat d).st_kind = S_DIR then raise (Unix.Unix_error (error, "fsync", "")) else Unix.fsync d in
        let w = Writer.open_run ~calls:{ Syscalls.system with fsync } directory in
        if error = Unix.EIO then assert (fails EIO path (fun () -> Writer.write w run_start) && Writer.is_closed w)
        else (Writer.write w run_start; Writer.write w run_end)
      in
      List.iter with_error [ EINVAL; EIO ])

let moves () =
  test "a run whose file is gone starts again with all its records" (fun () ->
      List.iter
        (fun remove ->
          let directory, path = bundle () in
          let w = Writer.open_run directory in
          Writer.write w run_start;
          Writer.write w (step 1);
          remove directory path;
          Unix.sleepf 1.1;
          Writer.write w (step 2);
          assert (kinds path = [ "run_start"; "step"; "step" ]);
          Writer.write w run_end;
          assert ((Reader.read_file ~mode:Strict directory ignore_record).records = 4))
        [ (fun _ path -> Unix.unlink path);
          (fun _ path -> Unix.rename path (path ^ ".moved"));
          (fun directory path -> Unix.unlink path; Unix.rmdir directory);
          (fun _ path -> put (path ^ ".new") start; Unix.rename (path ^ ".new") path) ]);
  test "a file that vanishes shortly before the end is there afterwards" (fun () ->
      let directory, path = bundle () in
      let w = Writer.open_run directory in
      Writer.write w run_start;
      Unix.unlink path;
      Writer.finish w;
      assert (kinds path = [ "run_start"; "run_end" ]));
  test "a log that is appended to goes on in a new file" (fun () ->
      let path = Filename.concat (temporary ()) "metrics.jsonl" in
      let entry n =
        record [ ("step", `Int n); ("wall_time_ms", `Float 1.); ("loss", `Float 1.); ("grad_norm", `Float 1.); ("throughput_samples_per_sec", `Float 1.) ]
      in
      let w = Writer.append path "metrics/v1" in
      Writer.write w (entry 1);
      Unix.rename path (path ^ ".1");
      Unix.sleepf 1.1;
      Writer.write w (entry 2);
      Writer.close w;
      let records path = (Reader.read_file path ignore_record).records in
      assert (records path = 1 && records (path ^ ".1") = 1))

(* What a process does whose files may be small. *)
let limited directory =
  let w = Writer.open_run directory in
  Writer.write w run_start;
  match for n = 1 to 1000 do Writer.write w (step n) done with
  | () -> exit 1
  | exception Unix.Unix_error (EFBIG, _, _) -> exit 0

let limits () =
  test "a size limit gives an error, and does not end the program" (fun () ->
      let directory, _ = bundle () in
      let command = Printf.sprintf "ulimit -f 4; exec %s --limited %s" (Filename.quote Sys.executable_name) (Filename.quote directory) in
      assert (Sys.command command = 0);
      let report = Reader.read_file directory ignore_record in
      assert (report.fragment = 0 && report.gap_bytes = 0 && report.records > 10))

let run () =
  full_disks ();
  syncs ();
  if not Sys.win32 then (moves (); limits ())
