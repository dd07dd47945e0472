(* Lets the conformance runner test this library: see conformance/PROTOCOL.md. *)

open Toyspec

type json = Yojson.Safe.t

let strings names : json = `List (List.map (fun name -> `String name) names)

let hello : json =
  `Assoc
    [ ( "hello",
        `Assoc
          [ ("protocol", `Int 1); ("name", `String "toyspec-ocaml"); ("language", `String "OCaml"); ("version", `String "0.1.0");
            ("roles", strings [ "reader"; "summarizer"; "writer"; "canonical-writer" ]); ("profiles", strings (List.map fst Tables.profiles));
            ("revisions", strings [ "1.4" ]);
            ("lines", `Bool true); ("capabilities", strings [ "line_limit"; "bundle"; "ranks"; "session"; "media"; "latest_attempt"; "own_kinds" ]) ] ) ]

let tags = [ "int"; "float"; "f32"; "object" ]
let anything : Tables.value option = None

(* The type of a member of a value. *)
let inner (t : Tables.value option) key : Tables.value option =
  match t with
  | Some { form = Object fields; _ } ->
    Option.map (fun (f : Tables.field) -> f.value) (List.find_opt (fun (f : Tables.field) -> f.name = key) fields)
  | Some { form = Map value; _ } -> Some value
  | _ -> anything

let item (t : Tables.value option) = match t with Some { form = Array (value, _); _ } -> Some value | _ -> anything

(* Of a repeated key the last value. *)
let distinct members =
  List.fold_left (fun found (key, value) -> if List.mem_assoc key found then List.map (fun (k, v) -> if k = key then (k, value) else (k, v)) found else found @ [ (key, value) ]) [] members

let tag_float (t : Tables.value option) x : json =
  match t with
  | Some { form = Binary32; _ } when Float.abs x < Tables.binary32_limit -> `Assoc [ ("f32", `String (Numbers.binary32_text x)) ]
  | _ -> `Assoc [ ("float", `String (Numbers.binary64_text x)) ]

let tag_int (t : Tables.value option) digits : json =
  match t with
  | Some { form = Number | Binary32; _ } -> tag_float t (float_of_string digits)
  | _ -> `Assoc [ ("int", `String (if digits = "-0" then "0" else digits)) ]

let rec tag (t : Tables.value option) (value : json) : json =
  match value with
  | `Int i -> tag_int t (string_of_int i)
  | `Intlit digits -> tag_int t digits
  | `Float x -> tag_float t x
  | `List items -> `List (List.map (tag (item t)) items)
  | `Assoc members -> (
    match List.map (fun (key, value) -> (key, tag (inner t key) value)) (distinct members) with
    | [ (key, _) ] as members when List.mem key tags -> `Assoc [ ("object", `Assoc members) ]
    | members -> `Assoc members)
  | other -> other

let float_of_tag text = match text with "nan" -> nan | "inf" -> infinity | "-inf" -> neg_infinity | text -> float_of_string text

let rec untag (tagged : json) : json =
  match tagged with
  | `Assoc [ ("object", `Assoc members) ] -> `Assoc (List.map (fun (key, value) -> (key, untag value)) members)
  | `Assoc [ ("int", `String digits) ] -> `Intlit digits
  | `Assoc [ (("float" | "f32"), `String text) ] -> `Float (float_of_tag text)
  | `Assoc members -> `Assoc (List.map (fun (key, value) -> (key, untag value)) members)
  | `List items -> `List (List.map untag items)
  | other -> other

let text request key = match Profile.member request key with Some (`String s) -> Some s | _ -> None
let number request key = match Profile.member request key with Some (`Int i) -> Some i | _ -> None

let mode request =
  match text request "mode" with Some "strict" -> Reader.Strict | Some "prefix" -> Prefix | Some "salvage" -> Salvage | _ -> Tail

let option name value = match value with Some text -> (name, `String text) | None -> (name, `Null)

(* Reads a directory, or the bytes of a stream. *)
let read_source ?mode request each =
  let profile = text request "profile" and max_line_bytes = number request "max_line_bytes" in
  match text request "directory" with
  | Some directory ->
    let path = Option.fold ~none:directory ~some:(Filename.concat directory) (text request "name") in
    Reader.read_file ?mode ?profile ?max_line_bytes path each
  | None ->
    let data = Option.value (text request "data") ~default:"" in
    Reader.read_string ?mode ?profile ?name:(text request "name") ?max_line_bytes data each

let reader_answer request : (string * json) list =
  let records = ref [] in
  let each (record : Reader.record) = records := record :: !records in
  let outcome, (report : Reader.report), error =
    try ("read", read_source ~mode:(mode request) request each, [])
    with Reader.Refused_stream { line; offset; reason; report; _ } ->
      let error : json = `Assoc [ ("line", `Int line); ("offset", `Int offset); ("reason", `String reason) ] in
      ("fails", report, if report.gaps = [] then [] else [ ("error", error) ])
  in
  let ranks : (string * json) list =
    match (text request "directory", text request "name") with
    | Some directory, None -> [ ("ranks", `List (List.map (fun rank -> `Int rank) (Bundle_files.ranks directory))) ]
    | _ -> []
  in
  let all = List.rev !records in
  let shown = if text request "view" = Some "latest" && report.profile = Some "toy/v1" then Attempts.latest all else all in
  let record (record : Reader.record) =
    let fields = Option.bind report.profile (fun profile -> Profile.fields profile record.value) in
    tag (Some (Tables.value (Object (Option.value fields ~default:[])))) record.value
  in
  let gap (gap : Reader.gap) : json = `Assoc [ ("offset", `Int gap.at); ("length", `Int gap.length); ("reason", `String gap.reason) ] in
  [ ("outcome", `String outcome); option "profile" report.profile; ("state", `String (Reader.state_name report.state));
    ("records", `List (List.map record shown)); ("count", `Int report.records); ("committed", `Int report.committed);
    ("fragment", `Int report.fragment); ("gap_bytes", `Int report.gap_bytes); ("gaps", `List (List.map gap report.gaps)) ]
  @ ranks @ error

let wrapped members : json =
  match members with [ (key, _) ] when List.mem key tags -> `Assoc [ ("object", `Assoc members) ] | _ -> `Assoc members

let tagged_view (view : Views.view) : json =
  let number name to_text = function Some x -> `Assoc [ (name, `String (to_text x)) ] | None -> `Null in
  let wide = number "float" Numbers.binary64_text and narrow = number "f32" Numbers.binary32_text in
  let integer digits = `Assoc [ ("int", `String digits) ] in
  let point (point : Views.point) =
    let epoch = match point.epoch with Some epoch -> [ ("epoch", integer epoch) ] | None -> [] in
    `Assoc ((("step", integer point.step) :: epoch) @ [ ("value", wide point.value) ])
  in
  let of_tag (tag : Views.tag) =
    let best = match tag.best with Some best -> [ ("best", point best) ] | None -> [] in
    `Assoc ([ ("count", integer (string_of_int tag.count)); ("latest", point tag.latest) ] @ best)
  in
  let option name view = function Some value -> [ (name, view value) ] | None -> [] in
  let rank (rank : Views.rank) : json =
    `Assoc
      ([ ("rank", integer (string_of_int rank.rank)); ("state", `String (Reader.state_name rank.state)); ("steps", integer rank.steps) ]
      @ option "last_step" integer rank.last_step
      @ option "reason" (fun reason -> `String reason) rank.reason)
  in
  match view with
  | Ranks ranks -> `List (List.map rank ranks)
  | Text text -> `String text
  | Integer digits -> integer digits
  | Number x -> wide x
  | Narrow x -> narrow x
  | Numbers items -> `List (List.map wide items)
  | Narrows items -> `List (List.map narrow items)
  | Tags tags -> wrapped (List.map (fun (name, tag) -> (name, of_tag tag)) tags)

let summary_answer request : (string * json) list =
  let profile = text request "profile" and max_line_bytes = number request "max_line_bytes" in
  let views, (report : Reader.report) =
    match text request "directory" with
    | Some directory -> Views.of_file ?profile ?max_line_bytes directory
    | None -> Views.of_string ?profile ?name:(text request "name") ?max_line_bytes (Option.value (text request "data") ~default:"")
  in
  let summary = `Assoc (List.map (fun (name, view) -> (name, tagged_view view)) views) in
  [ option "profile" report.profile; ("state", `String (Reader.state_name report.state)); ("summary", summary) ]

let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

let to_base64 data =
  let n = String.length data in
  let byte i = if i < n then Char.code data.[i] else 0 in
  let out = Buffer.create (n * 4 / 3) in
  for group = 0 to ((n + 2) / 3) - 1 do
    let i = group * 3 in
    let bits = (byte i lsl 16) lor (byte (i + 1) lsl 8) lor byte (i + 2) in
    for k = 0 to 3 do
      Buffer.add_char out (if i + k > n then '=' else alphabet.[(bits lsr (18 - (6 * k))) land 63])
    done
  done;
  Buffer.contents out

let of_base64 text =
  let out = Buffer.create (String.length text) in
  let bits = ref 0 and count = ref 0 in
  String.iter
    (fun c ->
      match String.index_opt alphabet c with
      | None -> ()
      | Some value ->
        bits := ((!bits lsl 6) lor value) land 0xFFFFFF;
        count := !count + 6;
        if !count >= 8 then begin
          count := !count - 8;
          Buffer.add_char out (Char.chr ((!bits lsr !count) land 255))
        end)
    text;
  Buffer.contents out

(* A plain writer keeps to the order of a toy/v1 stream; a canonical writer is asked for single records too. *)
let write role profile records =
  let sequence = if role = "writer" && profile = "toy/v1" then Some (Sequence.create ()) else None in
  let line tagged =
    let record = untag tagged in
    let record = match sequence with Some s -> Sequence.admit s record | None -> record in
    let line = Canonical.encode profile record in
    Option.iter (fun s -> Sequence.note s record) sequence;
    line
  in
  String.concat "" (List.map line records)

let all_of channel =
  let out = Buffer.create 65536 in
  (try while true do Buffer.add_channel out channel 1 done with End_of_file -> ());
  Buffer.contents out

(* Writes the records with a Writer, into a directory of their own. *)
let appended profile records =
  let directory = Filename.temp_file "adapter-" "" in
  let path = Filename.concat directory (Profile.table profile).file in
  let remove () = if Sys.file_exists path then Sys.remove path; Sys.rmdir directory in
  Sys.remove directory;
  Unix.mkdir directory 0o700;
  Fun.protect ~finally:remove (fun () ->
      let w = Writer.append path profile in
      Fun.protect ~finally:(fun () -> Writer.close w) (fun () -> List.iter (fun tagged -> Writer.write w (untag tagged)) records);
      let stream = open_in_bin path in
      Fun.protect ~finally:(fun () -> close_in stream) (fun () -> all_of stream))

let writer_answer request records : (string * json) list =
  let role = Option.value (text request "role") ~default:"writer" in
  let profile = Option.value (text request "profile") ~default:"toy/v1" in
  match if role = "writer" && profile <> "toy/v1" then appended profile records else write role profile records with
  | stream -> [ ("outcome", `String "written"); ("stream", `String (to_base64 stream)) ]
  | exception (Canonical.Refused reason | Writer.Refused reason) -> [ ("outcome", `String "refused"); ("reason", `String reason) ]

(* The writers that are held, by their directories. *)
let held : (string, Writer.t) Hashtbl.t = Hashtbl.create 4

let refuse reason = raise (Canonical.Refused reason)

let open_writer request directory =
  let exist = Option.value (text request "exist") ~default:"" in
  match (Option.value (text request "profile") ~default:"toy/v1", exist) with
  | "toy/v1", "replace" -> Writer.open_run ~exist:Replace directory
  | "toy/v1", "fail" -> Writer.open_run ~exist:Fail directory
  | "toy/v1", "resume" -> Writer.open_run ~exist:Resume directory
  | "toy/v1", _ -> refuse "a toy/v1 stream is not appended to"
  | profile, "append" -> Writer.append (Filename.concat directory (Profile.table profile).file) profile
  | profile, _ -> refuse (profile ^ " streams are appended to")

let leave w request directory =
  match text request "end" with
  | Some "held" -> Hashtbl.replace held directory w
  | Some "errored" -> Writer.finish w ~reason:"errored" ~error:(Option.value (text request "error") ~default:"")
  | Some "interrupted" -> Writer.finish w ~reason:"interrupted"
  | Some "killed" -> Writer.close w
  | _ -> Writer.finish w

let session request directory records =
  (match text request "run_id" with
  | Some id when not (Run_ids.is_safe id) -> refuse (Printf.sprintf "run id %S is not allowed" id)
  | _ -> ());
  let w = open_writer request directory in
  try
    let contents = ref (match Profile.member request "media" with Some (`List contents) -> contents | _ -> []) in
    let write tagged =
      let record = untag tagged in
      match (Profile.member record "kind", !contents) with
      | Some (`String "media"), `String content :: rest -> contents := rest; Writer.write_media w record (of_base64 content)
      | _ -> Writer.write w record
    in
    List.iter write records;
    leave w request directory
  with error -> Writer.close w; raise error

let session_answer request directory records : (string * json) list =
  match session request directory records with
  | () -> [ ("outcome", `String "written") ]
  | exception (Canonical.Refused reason | Writer.Refused reason) -> [ ("outcome", `String "refused"); ("reason", `String reason) ]

let release directory : (string * json) list =
  Option.iter Writer.close (Hashtbl.find_opt held directory);
  Hashtbl.remove held directory;
  [ ("outcome", `String "written") ]

(* The bytes of the stream, which a request has in base64. *)
let with_data request : json =
  match (request, text request "stream") with
  | `Assoc members, Some stream -> `Assoc (("data", `String (of_base64 stream)) :: List.remove_assoc "stream" members)
  | _ -> request

let answer request : (string * json) list =
  match (text request "role", Profile.member request "records", text request "directory", text request "release") with
  | Some "reader", _, _, _ -> reader_answer (with_data request)
  | Some "summarizer", _, _, _ -> summary_answer (with_data request)
  | Some "writer", _, _, Some directory -> release directory
  | Some "writer", Some (`List records), Some directory, _ -> session_answer request directory records
  | Some ("writer" | "canonical-writer"), Some (`List records), _, _ -> writer_answer request records
  | _ -> [ ("untestable", `String "this adapter has no such role") ]

let print json =
  print_string (Yojson.Safe.to_string json);
  print_newline ()

(* The unit of UTF-16 that the escape at a place of a text spells; 0 for another escape, or none. *)
let escaped_unit text at =
  if at + 6 <= String.length text && text.[at] = '\\' && text.[at + 1] = 'u' then
    Option.value (int_of_string_opt ("0x" ^ String.sub text (at + 2) 4)) ~default:0
  else 0

(* A message. Yojson refuses the first half of a surrogate pair alone, so that each half becomes bytes that are not
   UTF-8: the writer refuses them, as it refuses what a program gives it. *)
let parsed text =
  let written = Buffer.create (String.length text) in
  let rec copy at =
    let part length = Buffer.add_string written (String.sub text at length); copy (at + length) in
    if at < String.length text then
      match (escaped_unit text at lsr 10, escaped_unit text (at + 6) lsr 10) with
      | 0x36, 0x37 -> part 12
      | (0x36 | 0x37), _ -> Buffer.add_string written "\xED\xA0\x80"; copy (at + 6)
      | _ -> part (if text.[at] = '\\' then min 2 (String.length text - at) else 1)
  in
  copy 0;
  Yojson.Safe.from_string (Buffer.contents written)

let rec answer_lines () =
  match input_line stdin with
  | exception End_of_file -> ()
  | line ->
    let request = parsed line in
    let id = match Profile.member request "id" with Some id -> [ ("id", id) ] | None -> [] in
    let reply = try answer request with error -> [ ("error", `String (Printexc.to_string error)) ] in
    print (`Assoc (id @ reply));
    answer_lines ()

let rec options = function
  | name :: value :: rest ->
    let key = String.map (fun c -> if c = '-' then '_' else c) (String.sub name 2 (String.length name - 2)) in
    (key, if key = "max_line_bytes" then `Int (int_of_string value) else `String value) :: options rest
  | _ -> []

let answer_once role rest =
  let input = all_of stdin in
  let request : json = `Assoc (("role", `String role) :: ("data", `String input) :: options rest) in
  if role = "reader" || role = "summarizer" then begin
    let reply = if role = "reader" then reader_answer request else summary_answer request in
    print (`Assoc reply);
    exit (if List.assoc_opt "outcome" reply = Some (`String "fails") then 1 else 0)
  end;
  let records = List.map parsed (List.filter (( <> ) "") (String.split_on_char '\n' input)) in
  let reply =
    match text request "directory" with
    | Some directory -> session_answer request directory records
    | None -> writer_answer request records
  in
  match (List.assoc "outcome" reply, List.assoc_opt "stream" reply, List.assoc_opt "reason" reply) with
  | `String "refused", _, Some (`String reason) -> prerr_endline reason; exit 1
  | _, Some (`String stream), _ -> print_string (of_base64 stream)
  | _ -> ()

let () =
  set_binary_mode_in stdin true;
  set_binary_mode_out stdout true;
  match List.tl (Array.to_list Sys.argv) with
  | [ "--hello" ] -> print hello
  | [ "--lines" ] -> print hello; answer_lines ()
  | "--oneshot" :: role :: rest -> answer_once role rest
  | _ -> prerr_endline "usage: adapter --hello | --lines | --oneshot ROLE [--option value …]"; exit 2
