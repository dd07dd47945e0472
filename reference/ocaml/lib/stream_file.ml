exception Refused of string

type t = {
  path : string;
  calls : Syscalls.t;
  process : int;
  created : bool;
  mutable replaced : Side_files.moved option; (* an earlier stream moved to .prev for this one *)
  mutable descriptor : Unix.file_descr option;
  mutable closed_because : string option;
  mutable read_to : int;
}

(* How often a file may be replaced by others while it is opened, and a write interrupted. *)
let attempts = 100

let refuse path reason = raise (Refused (path ^ ": " ^ reason))
let path f = f.path
let is_closed f = f.descriptor = None
let closed_because f = f.closed_because
let is_foreign f = f.process <> Unix.getpid ()

let descriptor f =
  match f.descriptor with
  | Some descriptor -> descriptor
  | None -> refuse f.path ("the writer is closed" ^ Option.fold ~none:"" ~some:(( ^ ) ": ") f.closed_because)

let size f = (Unix.fstat (descriptor f)).st_size

let close f =
  Option.iter (fun d -> try Unix.close d with Unix.Unix_error _ -> ()) f.descriptor;
  f.descriptor <- None

let is_at_path f =
  let here = Unix.fstat (descriptor f) in
  match Unix.stat f.path with
  | there -> (here.st_dev, here.st_ino) = (there.st_dev, there.st_ino)
  | exception Unix.Unix_error ((ENOENT | ENOTDIR), _, _) -> false

let discard f =
  (try
     if f.created && (not (is_closed f)) && (not (is_foreign f)) && size f = 0 && is_at_path f then begin
       Unix.unlink f.path;
       Option.iter (Side_files.restore_previous f.path) f.replaced
     end
   with Unix.Unix_error _ -> ());
  close f

(* A start that failed leaves everything as it was. *)
let close_for_good f reason =
  if f.closed_because = None then f.closed_because <- Some reason;
  discard f

let with_path path body =
  try body () with Unix.Unix_error (error, call, _) -> raise (Unix.Unix_error (error, call, path))

let check_regular path =
  match Unix.stat path with
  | { st_kind = S_REG; _ } | exception Unix.Unix_error _ -> ()
  | _ -> refuse path "not a regular file"

(* A file that reaches its size limit must give EFBIG, as a full disk gives ENOSPC, and not end the program. *)
let ignore_size_signal () =
  if not Sys.win32 then
    match Sys.signal Sys.sigxfsz Sys.Signal_ignore with
    | Sys.Signal_handle _ as handled -> Sys.set_signal Sys.sigxfsz handled
    | _ -> ()

let rec open_attempt calls path left =
  if left = 0 then refuse path "other programs replace the file again and again";
  check_regular path;
  let created = not (Side_files.is_there path) in
  let flags = [ Unix.O_RDWR; O_APPEND; O_CREAT; O_NONBLOCK; O_CLOEXEC ] in
  let descriptor =
    try Unix.openfile path flags 0o666 with Unix.Unix_error ((EISDIR | ENXIO), _, _) -> refuse path "not a regular file"
  in
  let f =
    { path; calls; process = Unix.getpid (); created; replaced = None; descriptor = Some descriptor; closed_because = None; read_to = 0 }
  in
  match
    if (Unix.fstat descriptor).st_kind <> S_REG then refuse path "not a regular file";
    if not (calls.Syscalls.lock descriptor) then refuse path "another writer has the stream";
    is_at_path f
  with
  | true -> f
  | false -> close f; open_attempt calls path (left - 1)
  | exception error -> close f; raise error

let open_file calls path =
  ignore_size_signal ();
  with_path path (fun () -> open_attempt calls path attempts)

let replace calls path =
  let moved = ref None in
  let rec go left =
    if left = 0 then refuse path "other programs replace the file again and again";
    let f = open_file calls path in
    if size f = 0 then begin
      f.replaced <- !moved;
      f
    end
    else begin
      (* Windows does not rename an open file. *)
      if Sys.win32 then close f;
      Fun.protect ~finally:(fun () -> close f) (fun () ->
          moved := Some (with_path path (fun () -> Side_files.keep_previous path)));
      go (left - 1)
    end
  in
  try go attempts
  with Unix.Unix_error _ as error ->
    Option.iter (Side_files.restore_previous path) !moved;
    raise error

let input f bytes offset length =
  let part = Bytes.create (min length 65536) in
  let size = Syscalls.pread (descriptor f) part (Bytes.length part) f.read_to in
  Bytes.blit part 0 bytes offset size;
  f.read_to <- f.read_to + size;
  size

let position f = Unix.lseek (descriptor f) 0 Unix.SEEK_CUR

(* The bytes of the file at an offset, fewer at its end. *)
let bytes_at f at length =
  let bytes = Bytes.create length in
  let rec go found =
    let part = Bytes.create (length - found) in
    let size = if found = length then 0 else Syscalls.pread (descriptor f) part (length - found) (at + found) in
    Bytes.blit part 0 bytes found size;
    if size = 0 then Bytes.sub_string bytes 0 found else go (found + size)
  in
  go 0

(* Removes the first bytes of a line, which the last write has appended; false where some of them are left. Bytes of
   others are never removed, and a file that others have emptied does not grow. *)
let take_back f line written =
  written = 0
  ||
  try
    let ending = position f in
    let start = ending - written and size = size f in
    if size <= start then true
    else if size > ending || bytes_at f start written <> String.sub line 0 (size - start) then false
    else begin
      f.calls.ftruncate (descriptor f) start;
      true
    end
  with Unix.Unix_error _ -> false

let rec write_some f bytes offset left =
  match f.calls.write (descriptor f) bytes offset (Bytes.length bytes - offset) with
  | 0 -> raise (Unix.Unix_error (EIO, "write", f.path))
  | written -> written
  | exception Unix.Unix_error ((EINTR | EAGAIN | EWOULDBLOCK), _, _) when left > 0 -> write_some f bytes offset (left - 1)

(* EDQUOT has no name in the Unix library: 122 on Linux, 69 on BSD and macOS. *)
let can_pass = function
  | Unix.Unix_error ((ENOSPC | EFBIG | EINTR | EAGAIN | EWOULDBLOCK | EUNKNOWNERR (122 | 69)), _, _) -> true
  | _ -> false

let is_created f = f.created

let fail f line written error =
  let cause = match error with Unix.Unix_error (code, _, _) -> Unix.error_message code | other -> Printexc.to_string other in
  if not (take_back f line written) then close_for_good f ("part of a line was written (" ^ cause ^ ") and cannot be removed");
  if not (can_pass error) then close_for_good f cause

let ends_with f line =
  let start = position f - String.length line in
  start >= 0 && bytes_at f start (String.length line) = line

(* Finds out what a write did that an exception of a signal has interrupted. *)
let settle f line start ~committed =
  let written = position f - start in
  if written >= String.length line && ends_with f line then committed ()
  else if not (written < String.length line && take_back f line written) then close_for_good f "a write was interrupted"

(* Moves the streams of the other ranks of a run that was replaced, as its own was. One that a writer holds is of a process of
   the new run, which began before this one. *)
let move_ranks f =
  let move directory rank =
    let path = Filename.concat directory (Bundle_files.rank_file rank) in
    match open_file f.calls path with
    | exception (Refused _ | Unix.Unix_error _) -> ()
    | other ->
      Fun.protect
        ~finally:(fun () -> close other)
        (fun () ->
          try if size other > 0 then ignore (Side_files.keep_previous path : Side_files.moved) with Unix.Unix_error _ -> ())
  in
  f.replaced <- None;
  let directory = Filename.dirname f.path in
  try List.iter (move directory) (Bundle_files.ranks directory) with Sys_error _ -> ()

let append f line ~committed =
  let bytes = Bytes.unsafe_of_string line in
  let start = position f in
  let written = ref 0 in
  (try
     while !written < String.length line do
       written := !written + write_some f bytes !written attempts
     done
   with
  | Unix.Unix_error (code, call, _) as error -> fail f line !written error; raise (Unix.Unix_error (code, call, f.path))
  | interruption -> settle f line start ~committed; raise interruption);
  committed ();
  if f.replaced <> None then move_ranks f

let move_fragment f offset =
  with_path f.path (fun () ->
      let side = Side_files.keep_fragment f.calls f.path (descriptor f) offset in
      (try f.calls.ftruncate (descriptor f) offset with error -> Unix.unlink side; raise error);
      f.calls.fsync (descriptor f);
      side)

let sync f =
  try
    f.calls.fsync (descriptor f);
    Side_files.sync_directory f.calls f.path
  with Unix.Unix_error (code, call, _) ->
    close_for_good f (Printf.sprintf "fsync failed (%s); records that were written may be lost" (Unix.error_message code));
    raise (Unix.Unix_error (code, call, f.path))

let copy_from f other =
  with_path f.path (fun () -> Side_files.copy f.calls (descriptor other) 0 (descriptor f));
  f.replaced <- None;
  sync f

let abandon f =
  (try if not (is_closed f) then f.calls.ftruncate (descriptor f) 0 with Unix.Unix_error _ -> ());
  discard f
