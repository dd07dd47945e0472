type mode = Strict | Tail | Prefix | Salvage
type state = Complete | Torn | Damaged
type record = { raw : string; line : int; offset : int; kind : string option; value : Yojson.Safe.t }
type gap = { at_line : int; at : int; length : int; reason : string }

type report = {
  profile : Profile.t option;
  state : state;
  records : int;
  committed : int;
  fragment : int;
  gaps : gap list;
  gap_bytes : int;
}

exception Refused_stream of { name : string; line : int; offset : int; reason : string; report : report }

let state_name = function Complete -> "complete" | Torn -> "torn" | Damaged -> "damaged"

type reading = {
  limit : int;
  mode : mode;
  name : string;
  manifest : bool;
  mutable profile : Profile.t option;
  mutable decided : bool; (* the profile is known, perhaps that there is none *)
  mutable last : string option;
  mutable records : int;
  mutable committed : int;
  mutable gaps : gap list; (* the newest first *)
  mutable gap_bytes : int;
  mutable stopped : gap option;
  mutable line : int;
  mutable offset : int;
  mutable length : int; (* of the line so far *)
  held : Buffer.t; (* the line so far, while it is within the limit *)
}

let add_gap r (gap : gap) =
  r.gap_bytes <- r.gap_bytes + gap.length;
  if List.length r.gaps < Tables.max_listed_gaps || gap.reason = "stopped" then r.gaps <- gap :: r.gaps

let take_record r raw each =
  let value = Yojson.Safe.from_string raw in
  if not r.decided then r.profile <- Profile.of_record value ~manifest:r.manifest;
  r.decided <- true;
  r.last <- Option.bind r.profile (fun profile -> Profile.kind profile value);
  r.records <- r.records + 1;
  r.committed <- r.committed + r.length + 1;
  each { raw; line = r.line; offset = r.offset; kind = r.last; value = Integers.in_record r.profile value }

let take_line r each =
  let raw = Buffer.contents r.held in
  (if r.length <= r.limit && Line_validation.is_blank raw then r.committed <- r.committed + r.length + 1
  else
    let reason = if r.length > r.limit then Some "line-too-long" else Line_validation.validate raw ~first:(r.line = 1) in
    match reason with
    | None -> take_record r raw each
    | Some reason ->
      let gap = { at_line = r.line; at = r.offset; length = r.length + 1; reason } in
      add_gap r gap;
      if r.mode <> Salvage then r.stopped <- Some gap);
  r.offset <- r.offset + r.length + 1;
  r.line <- r.line + 1;
  r.length <- 0;
  Buffer.clear r.held

let take_chunk r chunk size each =
  let at = ref 0 in
  while !at < size && r.stopped = None do
    let feed = match Bytes.index_from_opt chunk !at '\n' with Some i when i < size -> Some i | _ -> None in
    let stop = Option.value feed ~default:size in
    r.length <- r.length + stop - !at;
    if r.length <= r.limit then Buffer.add_subbytes r.held chunk !at (stop - !at);
    if feed <> None then take_line r each;
    at := if feed = None then stop else stop + 1
  done;
  if r.stopped <> None then r.length <- r.length + size - !at

let finish r =
  (match r.stopped with
  | Some _ when r.length > 0 -> add_gap r { at_line = r.line; at = r.offset; length = r.length; reason = "stopped" }
  | _ -> ());
  let fragment = if r.stopped = None then r.length else 0 in
  let profile = if r.decided then r.profile else Profile.of_name r.name ~manifest:r.manifest ~gap:(r.gap_bytes > 0) in
  let unfinished =
    match Option.bind profile (fun profile -> (Profile.table profile).last) with Some last -> r.last <> Some last | None -> false
  in
  let state = if r.gap_bytes > 0 then Damaged else if fragment > 0 || r.records = 0 || unfinished then Torn else Complete in
  let report =
    { profile; state; records = r.records; committed = r.committed; fragment; gaps = List.rev r.gaps; gap_bytes = r.gap_bytes }
  in
  let refuse line offset reason = raise (Refused_stream { name = (if r.name = "" then "<stream>" else r.name); line; offset; reason; report }) in
  (match r.stopped with Some gap when r.mode <> Prefix -> refuse gap.at_line gap.at gap.reason | _ -> ());
  if r.mode = Strict && state <> Complete then refuse r.line r.committed (state_name state);
  report

let read ?(mode = Tail) ?profile ?(name = "") ?(manifest = false) ?(max_line_bytes = Tables.max_line_bytes) input each =
  let r =
    { limit = max_line_bytes; mode; name; manifest; profile; decided = profile <> None; last = None; records = 0; committed = 0; gaps = []; gap_bytes = 0; stopped = None;
      line = 1; offset = 0; length = 0; held = Buffer.create 1024 }
  in
  let chunk = Bytes.create 65536 in
  let rec go () =
    let size = input chunk 0 (Bytes.length chunk) in
    if size > 0 then (take_chunk r chunk size each; go ())
  in
  go ();
  finish r

let read_file ?mode ?profile ?max_line_bytes path each =
  let path =
    if Sys.is_directory path then
      let events = Filename.concat path "events.jsonl" in
      if Sys.file_exists events then events else Filename.concat path "metrics.jsonl"
    else path
  in
  let channel = open_in_bin path in
  Fun.protect ~finally:(fun () -> close_in_noerr channel) (fun () ->
      read ?mode ?profile ~name:path ~manifest:(Manifest.is_beside path) ?max_line_bytes (input channel) each)

let read_string ?mode ?profile ?name ?manifest ?max_line_bytes text each =
  let at = ref 0 in
  let input bytes offset length =
    let size = min length (String.length text - !at) in
    Bytes.blit_string text !at bytes offset size;
    at := !at + size;
    size
  in
  read ?mode ?profile ?name ?manifest ?max_line_bytes input each
