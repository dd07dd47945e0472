type exist = Replace | Fail | Resume

exception Refused of string

type t = {
  path : string;
  profile : Profile.t;
  clock : unit -> float;
  start : float;
  process : int;
  mutable descriptor : Unix.file_descr option;
  mutable committed : int;
  sequence : Sequence.t;
}

let refuse path format = Printf.ksprintf (fun reason -> raise (Refused (path ^ ": " ^ reason))) format

let rec make_directories path =
  if not (Sys.file_exists path) then begin
    make_directories (Filename.dirname path);
    try Unix.mkdir path 0o777 with Unix.Unix_error (Unix.EEXIST, _, _) -> ()
  end

let lock path descriptor =
  ignore (Unix.lseek descriptor 0 Unix.SEEK_SET);
  try Unix.lockf descriptor Unix.F_TLOCK 0 with Unix.Unix_error ((Unix.EAGAIN | Unix.EACCES), _, _) -> refuse path "another writer holds the stream"

let rec write_all descriptor bytes offset length =
  if length > 0 then begin
    let written = Unix.single_write descriptor bytes offset length in
    write_all descriptor bytes (offset + written) (length - written)
  end

(* Keeps the fragment in a file beside the stream and cuts the stream after its last LF. *)
let set_aside path descriptor committed length =
  let bytes = Bytes.create length in
  ignore (Unix.lseek descriptor committed Unix.SEEK_SET);
  let size = Unix.read descriptor bytes 0 length in
  let aside = Unix.openfile (Printf.sprintf "%s.torn-%d" path committed) [ O_WRONLY; O_CREAT; O_TRUNC; O_CLOEXEC ] 0o666 in
  Fun.protect ~finally:(fun () -> Unix.close aside) (fun () -> write_all aside bytes 0 size; Unix.fsync aside);
  Unix.ftruncate descriptor committed

(* Brings an existing stream to a line end, or says why it cannot be written to; gives its committed size. *)
let take_over path profile descriptor exist sequence =
  lock path descriptor;
  let size = (Unix.fstat descriptor).st_size in
  if size = 0 then 0
  else begin
    if exist <> Resume then refuse path "the stream exists";
    let keep (record : Reader.record) = Sequence.note sequence record.value in
    ignore (Unix.lseek descriptor 0 Unix.SEEK_SET);
    let report = Reader.read ~mode:Salvage ~profile ~name:path (Unix.read descriptor) keep in
    if report.state = Damaged then refuse path "the stream is damaged";
    if report.state = Complete && (Profile.table profile).last <> None then refuse path "the stream is complete";
    let committed = size - report.fragment in
    if report.fragment > 0 then set_aside path descriptor committed report.fragment;
    committed
  end

let open_stream path profile exist clock =
  let descriptor = Unix.openfile path [ O_RDWR; O_APPEND; O_CREAT; O_CLOEXEC ] 0o666 in
  let sequence = Sequence.create () in
  match take_over path profile descriptor exist sequence with
  | exception error -> Unix.close descriptor; raise error
  | committed ->
    let start = clock () -. if profile = "toy/v1" then Sequence.last sequence else 0. in
    { path; profile; clock; start; process = Unix.getpid (); descriptor = Some descriptor; committed; sequence }

(* Renames a stream that no writer holds, if there is one. *)
let move_aside path =
  if Sys.file_exists path then begin
    let descriptor = Unix.openfile path [ O_RDWR; O_CLOEXEC ] 0 in
    Fun.protect
      ~finally:(fun () -> Unix.close descriptor)
      (fun () ->
        lock path descriptor;
        if (Unix.fstat descriptor).st_size > 0 then Sys.rename path (path ^ ".prev"))
  end

let open_run ?(exist = Replace) ?(clock = Unix.gettimeofday) directory =
  make_directories directory;
  let path = Filename.concat directory (Profile.table "toy/v1").file in
  if exist = Replace then move_aside path;
  open_stream path "toy/v1" exist clock

let append path profile =
  make_directories (Filename.dirname path);
  open_stream path profile Resume (fun () -> 0.)

let close w =
  Option.iter Unix.close w.descriptor;
  w.descriptor <- None

(* Writes a whole line, or takes back what was written of it; where that fails too, nothing more is written. *)
let append_line w descriptor line =
  match write_all descriptor (Bytes.of_string line) 0 (String.length line) with
  | () -> w.committed <- w.committed + String.length line
  | exception error ->
    (try Unix.ftruncate descriptor w.committed with Unix.Unix_error _ -> close w);
    raise error

let sync w descriptor =
  Unix.fsync descriptor;
  if not Sys.win32 then begin
    let directory = Unix.openfile (Filename.dirname w.path) [ O_RDONLY; O_CLOEXEC ] 0 in
    Fun.protect ~finally:(fun () -> Unix.close directory) (fun () -> Unix.fsync directory)
  end

let write w (record : Yojson.Safe.t) =
  let toy = (Profile.table w.profile).last <> None in
  let descriptor =
    match w.descriptor with
    | Some d when (not (toy && Sequence.ended w.sequence)) && w.process = Unix.getpid () -> d
    | _ -> refuse w.path "the writer is closed"
  in
  let record =
    match record with
    | `Assoc members when toy ->
      Sequence.admit w.sequence
        (`Assoc (if List.mem_assoc "t" members then members else ("t", `Float (w.clock () -. w.start)) :: members))
    | _ -> record
  in
  append_line w descriptor (Canonical.encode w.profile record);
  if toy then begin
    Sequence.note w.sequence record;
    if Sequence.ended w.sequence || Profile.kind w.profile record = Some "run_start" then sync w descriptor
  end
