let rank_file rank = if rank = 0 then (Profile.table "toy/v1").file else Printf.sprintf "events.rank-%d.jsonl" rank

(* The rank whose stream has a name; None for a name of another form. *)
let rank_of name =
  match Scanf.sscanf name "events.rank-%9[0-9].jsonl%!" int_of_string with
  | rank when rank > 0 && rank_file rank = name -> Some rank
  | _ | (exception (Scanf.Scan_failure _ | Failure _ | End_of_file)) -> None

let is_file path = match Unix.stat path with { st_kind = S_REG; _ } -> true | _ | (exception Unix.Unix_error _) -> false

let ranks directory =
  let rank name = if is_file (Filename.concat directory name) then rank_of name else None in
  List.sort compare (List.filter_map rank (Array.to_list (Sys.readdir directory)))

let leaves path =
  let parts = String.split_on_char '/' (String.map (fun c -> if c = '\\' then '/' else c) path) in
  let has_drive = String.length path > 1 && path.[1] = ':' && match path.[0] with 'a' .. 'z' | 'A' .. 'Z' -> true | _ -> false in
  has_drive || List.mem ".." parts || (path <> "" && List.hd parts = "")

let extension media_type =
  let blank c = c = ' ' || c = '\t' in
  let rec trimmed text =
    let length = String.length text in
    if length > 0 && blank text.[0] then trimmed (String.sub text 1 (length - 1))
    else if length > 0 && blank text.[length - 1] then trimmed (String.sub text 0 (length - 1))
    else text
  in
  let name = String.lowercase_ascii (trimmed (List.hd (String.split_on_char ';' media_type))) in
  Option.value (List.assoc_opt name Tables.media_extensions) ~default:Tables.other_extension

let is_whole path content =
  match Unix.lstat path with
  | { st_kind = S_REG; st_size; _ } -> st_size = String.length content
  | _ | (exception Unix.Unix_error _) -> false

let write_whole (calls : Syscalls.t) path content =
  let temporary = Printf.sprintf "%s.%d.tmp" path (Unix.getpid ()) in
  let descriptor = Unix.openfile temporary [ O_WRONLY; O_CREAT; O_TRUNC; O_CLOEXEC ] 0o666 in
  try
    Fun.protect
      ~finally:(fun () -> Side_files.close_quietly descriptor)
      (fun () ->
        Side_files.write_all calls descriptor (Bytes.unsafe_of_string content) 0 (String.length content);
        calls.fsync descriptor);
    Unix.rename temporary path
  with error -> Unix.unlink temporary; raise error

let store calls ~directory ~digest ~media_type content =
  let folder = Filename.concat directory "media" in
  (match Unix.lstat folder with
  | { st_kind = S_DIR; _ } -> ()
  | _ -> raise (Canonical.Refused (folder ^ " must be a folder of the bundle, not a link or a file"))
  | exception Unix.Unix_error (ENOENT, _, _) -> Unix.mkdir folder 0o777);
  let path = Filename.concat folder (digest ^ "." ^ extension media_type) in
  if not (is_whole path content) then write_whole calls path content
