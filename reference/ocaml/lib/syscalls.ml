type t = {
  write : Unix.file_descr -> Bytes.t -> int -> int -> int;
  fsync : Unix.file_descr -> unit;
  ftruncate : Unix.file_descr -> int -> unit;
  lock : Unix.file_descr -> bool;
}

external whole_write : Unix.file_descr -> Bytes.t -> int -> int -> int = "toyspec_write"
external pread_at : Unix.file_descr -> Bytes.t -> int -> int -> int = "toyspec_pread"
external both_locks : Unix.file_descr -> bool = "toyspec_lock"

(* Keeps the position, which the writes of Windows do not need. *)
let windows_pread descriptor bytes length at =
  let position = Unix.lseek descriptor 0 Unix.SEEK_CUR in
  ignore (Unix.lseek descriptor at Unix.SEEK_SET);
  let size = Unix.read descriptor bytes 0 length in
  ignore (Unix.lseek descriptor position Unix.SEEK_SET);
  size

let windows_lock descriptor =
  ignore (Unix.lseek descriptor 0 Unix.SEEK_SET);
  try Unix.lockf descriptor Unix.F_TLOCK 0; true with Unix.Unix_error ((Unix.EAGAIN | Unix.EACCES), _, _) -> false

let pread = if Sys.win32 then windows_pread else pread_at

let system =
  {
    write = (if Sys.win32 then Unix.single_write else whole_write);
    fsync = Unix.fsync;
    ftruncate = Unix.ftruncate;
    lock = (if Sys.win32 then windows_lock else both_locks);
  }
