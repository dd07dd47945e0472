let is_there path = match Unix.lstat path with _ -> true | exception Unix.Unix_error ((ENOENT | ENOTDIR), _, _) -> false

(* The first of path-1, path-2, … that is not there. *)
let free_name path =
  let rec next n =
    let name = Printf.sprintf "%s-%d" path n in
    if is_there name then next (n + 1) else name
  in
  next 1

type moved = string option
(* The new name of an earlier .prev. *)

let keep_previous path =
  let previous = path ^ ".prev" in
  let older = if is_there previous then Some (free_name previous) else None in
  Option.iter (Unix.rename previous) older;
  try Unix.rename path previous; older
  with Unix.Unix_error _ as error ->
    Option.iter (fun older -> if not (is_there previous) then Unix.rename older previous) older;
    raise error

let restore_previous path older =
  let previous = path ^ ".prev" in
  try
    if not (is_there path) then begin
      Unix.rename previous path;
      Option.iter (fun older -> if not (is_there previous) then Unix.rename older previous) older
    end
  with Unix.Unix_error _ -> ()

let close_quietly descriptor = try Unix.close descriptor with Unix.Unix_error _ -> ()

(* Directories cannot be opened or synced on some systems and file systems. *)
let sync_directory (calls : Syscalls.t) path =
  if not Sys.win32 then
    try
      let directory = Unix.openfile (Filename.dirname path) [ O_RDONLY; O_CLOEXEC ] 0 in
      Fun.protect ~finally:(fun () -> close_quietly directory) (fun () -> calls.fsync directory)
    with Unix.Unix_error ((EINVAL | EOPNOTSUPP | ENOSYS | EACCES | EPERM | EBADF | EISDIR), _, _) -> ()

let rec write_all (calls : Syscalls.t) descriptor bytes offset length =
  if length > 0 then begin
    let written = calls.write descriptor bytes offset length in
    if written = 0 then raise (Unix.Unix_error (EIO, "write", ""));
    write_all calls descriptor bytes (offset + written) (length - written)
  end

let copy calls source offset target =
  let chunk = Bytes.create (1 lsl 20) in
  let rec go offset =
    let size = Syscalls.pread source chunk (Bytes.length chunk) offset in
    if size > 0 then begin
      write_all calls target chunk 0 size;
      go (offset + size)
    end
  in
  go offset

let rec create_first_free path n =
  let name = if n = 1 then path else Printf.sprintf "%s-%d" path n in
  match Unix.openfile name [ O_WRONLY; O_CREAT; O_EXCL; O_CLOEXEC ] 0o666 with
  | descriptor -> (name, descriptor)
  | exception Unix.Unix_error (EEXIST, _, _) -> create_first_free path (n + 1)

let keep_fragment (calls : Syscalls.t) path stream offset =
  let name, side = create_first_free (Printf.sprintf "%s.torn-%d" path offset) 1 in
  Fun.protect
    ~finally:(fun () -> close_quietly side)
    (fun () ->
      try
        copy calls stream offset side;
        calls.fsync side;
        sync_directory calls path;
        name
      with error -> Unix.unlink name; raise error)
