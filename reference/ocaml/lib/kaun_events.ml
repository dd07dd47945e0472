type t = {
  mutable is_open : bool;
  path : string;
  mutable file : (int * int) option; (* device and inode *)
  mutable position : int;
  partial : Buffer.t; (* the last line, until its LF comes *)
  mutable skipped : (int * string) list;
}

let open_events directory =
  { is_open = true; path = Filename.concat directory "events.jsonl"; file = None; position = 0; partial = Buffer.create 256; skipped = [] }

let start_over e file =
  e.file <- file;
  e.position <- 0;
  Buffer.clear e.partial

(* The scalar of a committed line; a line that is not JSON is noted and skipped. *)
let scalar_of_line e line offset =
  if Line_validation.is_blank line then None
  else
    match Line_validation.validate line ~first:(offset = 0) with
    | Some reason -> e.skipped <- (offset, reason) :: e.skipped; None
    | None -> Kaun_scalar.of_json (Yojson.Safe.from_string line)

(* The scalars of whole lines; what is after the last LF is kept. *)
let take_lines e start =
  let rec go offset found = function
    | [ rest ] -> Buffer.clear e.partial; Buffer.add_string e.partial rest; List.rev found
    | line :: rest ->
      let found = match scalar_of_line e line offset with Some scalar -> scalar :: found | None -> found in
      go (offset + String.length line + 1) found rest
    | [] -> List.rev found
  in
  go start [] (String.split_on_char '\n' (Buffer.contents e.partial))

let take_chunk e chunk size =
  let start = e.position - Buffer.length e.partial in
  let part = Bytes.sub_string chunk 0 size in
  Buffer.add_string e.partial part;
  e.position <- e.position + size;
  if String.contains part '\n' then take_lines e start else []

let read_new e descriptor =
  let chunk = Bytes.create 65536 in
  let rec go found =
    let size = try Unix.read descriptor chunk 0 (Bytes.length chunk) with Unix.Unix_error _ -> 0 in
    if size = 0 then List.concat (List.rev found) else go (take_chunk e chunk size :: found)
  in
  go []

let close_events e = e.is_open <- false

let read_file e =
  match Unix.openfile e.path [ O_RDONLY; O_NONBLOCK; O_CLOEXEC ] 0 with
  | exception Unix.Unix_error (Unix.ENOENT, _, _) -> start_over e None; []
  | exception Unix.Unix_error _ -> []
  | descriptor ->
    Fun.protect
      ~finally:(fun () -> Unix.close descriptor)
      (fun () ->
        let status = Unix.fstat descriptor in
        let file = Some (status.st_dev, status.st_ino) in
        if e.file <> file || status.st_size < e.position then start_over e file;
        ignore (Unix.lseek descriptor e.position Unix.SEEK_SET);
        read_new e descriptor)

let read_events e = if e.is_open then read_file e else []
let skipped e = List.rev e.skipped
let last_mtime e = try Some (Unix.stat e.path).st_mtime with Unix.Unix_error _ -> None
