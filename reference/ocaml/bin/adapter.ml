(* Lets the conformance runner test this library: see conformance/PROTOCOL.md. *)

open Toyspec

type json = Yojson.Safe.t

let hello : json =
  `Assoc
    [ ( "hello",
        `Assoc
          [ ("protocol", `Int 1); ("name", `String "toyspec-ocaml"); ("language", `String "OCaml"); ("version", `String "0.1.0");
            ("roles", `List [ `String "reader"; `String "writer"; `String "canonical-writer" ]); ("profiles", `List (List.map (fun (name, _) -> `String name) Tables.profiles)); ("lines", `Bool true);
            ("capabilities", `List [ `String "line_limit"; `String "own_kinds" ]) ] ) ]

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
  | Some { form = Binary32; _ } when Float.abs x < Numbers.binary32_limit -> `Assoc [ ("f32", `String (Numbers.binary32_text x)) ]
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

let reader_answer request data : (string * json) list =
  let values = ref [] in
  let each (record : Reader.record) = values := record.value :: !values in
  let outcome, (report : Reader.report), error =
    try
      let report =
        Reader.read_string ~mode:(mode request) ?profile:(text request "profile") ?name:(text request "name")
          ?max_line_bytes:(number request "max_line_bytes") data each
      in
      ("read", report, [])
    with Reader.Refused_stream { line; offset; reason; report; _ } ->
      let error : json = `Assoc [ ("line", `Int line); ("offset", `Int offset); ("reason", `String reason) ] in
      ("fails", report, if report.gaps = [] then [] else [ ("error", error) ])
  in
  let record value =
    let fields = Option.value (Profile.fields report.profile value) ~default:[] in
    tag (Some (Tables.value (Object fields))) value
  in
  let gap (gap : Reader.gap) : json = `Assoc [ ("offset", `Int gap.at); ("length", `Int gap.length); ("reason", `String gap.reason) ] in
  [ ("outcome", `String outcome); ("profile", `String report.profile); ("state", `String (Reader.state_name report.state));
    ("records", `List (List.rev_map record !values)); ("count", `Int report.records); ("committed", `Int report.committed);
    ("fragment", `Int report.fragment); ("gap_bytes", `Int report.gap_bytes); ("gaps", `List (List.map gap report.gaps)) ]
  @ error

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

let writer_answer request records : (string * json) list =
  let role = Option.value (text request "role") ~default:"writer" in
  match write role (Option.value (text request "profile") ~default:"toy/v1") records with
  | stream -> [ ("outcome", `String "written"); ("stream", `String (to_base64 stream)) ]
  | exception Canonical.Refused reason -> [ ("outcome", `String "refused"); ("reason", `String reason) ]

let answer request : (string * json) list =
  match (text request "role", text request "stream", Profile.member request "records") with
  | Some "reader", Some stream, _ -> reader_answer request (of_base64 stream)
  | Some ("writer" | "canonical-writer"), _, Some (`List records) -> writer_answer request records
  | _ -> [ ("untestable", `String "this adapter reads and writes streams") ]

let print json =
  print_string (Yojson.Safe.to_string json);
  print_newline ()

let rec answer_lines () =
  match input_line stdin with
  | exception End_of_file -> ()
  | line ->
    let request = Yojson.Safe.from_string line in
    let id = match Profile.member request "id" with Some id -> [ ("id", id) ] | None -> [] in
    let reply = try answer request with error -> [ ("error", `String (Printexc.to_string error)) ] in
    print (`Assoc (id @ reply));
    answer_lines ()

let rec options = function
  | name :: value :: rest ->
    let key = String.map (fun c -> if c = '-' then '_' else c) (String.sub name 2 (String.length name - 2)) in
    (key, if key = "max_line_bytes" then `Int (int_of_string value) else `String value) :: options rest
  | _ -> []

let all_input () =
  let out = Buffer.create 65536 in
  (try while true do Buffer.add_channel out stdin 1 done with End_of_file -> ());
  Buffer.contents out

let answer_once role rest =
  let request : json = `Assoc (options rest) in
  let input = all_input () in
  if role = "reader" then begin
    let reply = reader_answer request input in
    print (`Assoc reply);
    exit (if List.assoc "outcome" reply = `String "read" then 0 else 1)
  end;
  let lines = List.filter (( <> ) "") (String.split_on_char '\n' input) in
  match write role (Option.value (text request "profile") ~default:"toy/v1") (List.map Yojson.Safe.from_string lines) with
  | stream -> print_string stream
  | exception Canonical.Refused reason -> prerr_endline reason; exit 1

let () =
  set_binary_mode_in stdin true;
  set_binary_mode_out stdout true;
  match List.tl (Array.to_list Sys.argv) with
  | [ "--hello" ] -> print hello
  | [ "--lines" ] -> print hello; answer_lines ()
  | "--oneshot" :: role :: rest -> answer_once role rest
  | _ -> prerr_endline "usage: adapter --hello | --lines | --oneshot ROLE [--option value …]"; exit 2
