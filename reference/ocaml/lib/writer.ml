type exist = Replace | Fail | Resume

exception Refused = Stream_file.Refused

type t = {
  path : string;
  profile : Profile.t;
  calls : Syscalls.t;
  clock : unit -> float;
  mutable start : float;
  mutable file : Stream_file.t;
  sequence : Sequence.t;
  mutable dropped : int;
  mutable unsaid : int; (* dropped, and not stated in the stream yet *)
  mutable look_at : float;
  mutable has_moved : bool;
}

(* How often a writer checks whether its path still names its file. *)
let look_seconds = 1.
let refuse path reason = raise (Refused (path ^ ": " ^ reason))
let is_toy w = w.profile = "toy/v1"

let rec make_directories path =
  if not (Sys.file_exists path) then begin
    make_directories (Filename.dirname path);
    try Unix.mkdir path 0o777 with Unix.Unix_error (EEXIST, _, _) -> ()
  end

let check_state w (report : Reader.report) =
  (match report.profile with
  | None -> refuse w.path "the stream has no known format"
  | Some profile -> if profile <> w.profile && report.records > 0 then refuse w.path ("the stream is " ^ profile));
  if report.state = Damaged then refuse w.path "the stream is damaged"

(* Brings an existing stream to a line end, or says why it cannot be written to. *)
let reopen w exist =
  let size = Stream_file.size w.file in
  (* An empty file too: its creator may be about to write to it. *)
  if exist = Fail && not (Stream_file.is_created w.file) then refuse w.path "the stream exists";
  if size > 0 then begin
    if exist <> Resume then refuse w.path "the stream exists";
    let keep (record : Reader.record) = Sequence.note w.sequence record.value in
    let manifest = Manifest.is_beside w.path in
    let report = Reader.read ~mode:Salvage ~name:w.path ~manifest (Stream_file.input w.file) keep in
    check_state w report;
    Sequence.resume w.sequence;
    w.start <- w.start -. Sequence.last w.sequence;
    if report.fragment > 0 then ignore (Stream_file.move_fragment w.file (size - report.fragment))
  end

let open_stream path profile exist clock calls =
  let file = if exist = Replace then Stream_file.replace calls path else Stream_file.open_file calls path in
  let w =
    { path; profile; calls; clock; start = clock (); file; sequence = Sequence.create (); dropped = 0; unsaid = 0;
      look_at = Unix.gettimeofday () +. look_seconds; has_moved = false }
  in
  try reopen w exist; w with error -> Stream_file.discard file; raise error

let open_run ?(exist = Replace) ?(clock = Unix.gettimeofday) ?(calls = Syscalls.system) directory =
  make_directories directory;
  open_stream (Filename.concat directory (Profile.table "toy/v1").file) "toy/v1" exist clock calls

let append ?(clock = Unix.gettimeofday) ?(calls = Syscalls.system) path profile =
  make_directories (Filename.dirname path);
  open_stream path profile Resume clock calls

let dropped w = w.dropped
let is_closed w = Stream_file.is_closed w.file || (is_toy w && Sequence.ended w.sequence)
let close w = if is_toy w then Stream_file.discard w.file else Stream_file.close w.file

(* Creates the stream again with all that it held. *)
let start_again w =
  let file = Stream_file.replace w.calls w.path in
  (try Stream_file.copy_from file w.file with error -> Stream_file.abandon file; raise error);
  Stream_file.close w.file;
  w.file <- file

(* Goes on at the end of the file that is at the path now, which may be new. *)
let continue_again w =
  let old = w.file in
  w.file <- Stream_file.open_file w.calls w.path;
  (try reopen w Resume with error -> Stream_file.close w.file; w.file <- old; raise error);
  Stream_file.close old

let move w =
  if not w.has_moved then
    Printf.eprintf "toyspec: %s: the file was deleted, renamed or replaced while it was open; logging goes on in a new file\n%!" w.path;
  w.has_moved <- true;
  match make_directories (Filename.dirname w.path); if is_toy w then start_again w else continue_again w with
  | () -> ()
  | exception (Refused reason as error) -> Stream_file.close_for_good w.file reason; raise error
  (* The next record tries again; this one would be nowhere. *)
  | exception error -> w.look_at <- 0.; raise error

(* Checks now and then whether the path still names the file, and starts the stream again there where it does not. *)
let look w ~due =
  let now = Unix.gettimeofday () in
  (* The wall clock may be set back. *)
  if due || now >= w.look_at || w.look_at > now +. look_seconds then begin
    w.look_at <- now +. look_seconds;
    if not (Stream_file.is_at_path w.file) then move w
  end

let ordered w record = if is_toy w then Sequence.admit w.sequence record else record
let line_of w record = Canonical.encode w.profile (ordered w record)

let append_record w record =
  let record = ordered w record in
  Stream_file.append w.file (Canonical.encode w.profile record) ~committed:(fun () -> if is_toy w then Sequence.note w.sequence record)

(* After a failure, writes a note with the number of records that were dropped. *)
let say_dropped w t =
  if is_toy w && w.unsaid > 0 && Sequence.is_open w.sequence then begin
    let text = Printf.sprintf "toyspec: %d records could not be written and were dropped" w.unsaid in
    append_record w (`Assoc [ ("kind", `String "note"); ("t", t); ("text", `String text) ]);
    w.unsaid <- 0
  end

(* Gives a toy/v1 record its t and a kaun/v1 scalar its wall_time, where it has none. *)
let timed w (record : Yojson.Safe.t) : Yojson.Safe.t =
  match record with
  | `Assoc members when is_toy w && not (List.mem_assoc "t" members) -> `Assoc (("t", `Float (w.clock () -. w.start)) :: members)
  | `Assoc members when Profile.kind w.profile record = Some "scalar" && w.profile = "kaun/v1" && not (List.mem_assoc "wall_time" members) ->
    `Assoc (("wall_time", `Float (w.clock ())) :: members)
  | _ -> record

(* Gives a record its time; refuses one that may not be written, before anything is written. *)
let prepared w (record : Yojson.Safe.t) =
  if Stream_file.is_foreign w.file then refuse w.path "a forked process does not write";
  if is_closed w then
    refuse w.path ("the writer is closed" ^ Option.fold ~none:"" ~some:(( ^ ) ": ") (Stream_file.closed_because w.file));
  let record = timed w record in
  (* A new run's id must be a safe name of a directory; readers accept more. *)
  (match (Profile.kind w.profile record, Profile.member record "run_id") with
  | Some "run_start", Some (`String id) when not (Run_ids.is_safe id) ->
    raise (Canonical.Refused (Printf.sprintf "run id %S is not allowed: use 1 to %d letters, digits, '.', '_', '-', starting with a letter or digit" id Tables.max_safe_run_id_chars))
  | _ -> ());
  (match (Profile.kind w.profile record, Profile.member record "path") with
  | Some "artifact", Some (`String path) when is_toy w && Bundle_files.leaves path ->
    raise (Canonical.Refused (Printf.sprintf "the path %S leaves the bundle: copy the file into it, or write a reference" path))
  | _ -> ());
  ignore (line_of w record);
  record

let write w record =
  let record = prepared w record in
  let kind = Profile.kind w.profile record in
  (try
     look w ~due:(kind = Some "run_end");
     say_dropped w (Option.value (Profile.member record "t") ~default:(`Float 0.));
     append_record w record
   with Unix.Unix_error _ as error ->
     w.dropped <- w.dropped + 1;
     w.unsaid <- w.unsaid + 1;
     raise error);
  if is_toy w && (Sequence.ended w.sequence || kind = Some "run_start") then Stream_file.sync w.file;
  (* The run is over; another program may have the file. *)
  if is_toy w && Sequence.ended w.sequence then Stream_file.close w.file

let write_media w (record : Yojson.Safe.t) content =
  let digest = Sha256.hex content in
  let members = match record with `Assoc members -> members | _ -> raise (Canonical.Refused "a record is an object") in
  (match List.assoc_opt "sha256" members with
  | Some given when given <> `String digest -> raise (Canonical.Refused ("the content has the sha256 " ^ digest ^ ", and not that of the record"))
  | _ -> ());
  let others = List.filter (fun (key, _) -> key <> "kind" && key <> "sha256") members in
  (* What is refused leaves no file. *)
  let named = prepared w (`Assoc (("kind", `String "media") :: ("sha256", `String digest) :: others)) in
  let media_type = match Profile.member named "media_type" with Some (`String text) -> text | _ -> "" in
  if not (is_toy w) then raise (Canonical.Refused "only toy/v1 has media");
  Bundle_files.store w.calls ~directory:(Filename.dirname w.path) ~digest ~media_type content;
  write w named

let finish ?error ?(reason = "completed") w =
  let ending = [ ("kind", `String "run_end"); ("reason", `String reason) ] @ Sequence.final w.sequence in
  let error = match error with Some text -> [ ("error", `String text) ] | None -> [] in
  Fun.protect
    ~finally:(fun () -> close w)
    (fun () -> if Sequence.is_open w.sequence && not (is_closed w) then write w (`Assoc (ending @ error)))

let with_run ?exist ?clock ?calls directory body =
  let w = open_run ?exist ?clock ?calls directory in
  match body w with
  | result -> finish w; result
  | exception Sys.Break -> finish w ~reason:"interrupted"; raise Sys.Break
  | exception error ->
    let trace = Printexc.get_raw_backtrace () in
    (* The error of the program counts, not one of its log. *)
    (try finish w ~reason:"errored" ~error:(Printexc.to_string error) with Unix.Unix_error _ | Refused _ | Canonical.Refused _ -> ());
    Printexc.raise_with_backtrace error trace
