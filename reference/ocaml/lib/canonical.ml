exception Refused of string

let refuse format = Printf.ksprintf (fun reason -> raise (Refused reason)) format

type json = Yojson.Safe.t

let digit s i = Char.code s.[i] - 48
let two s i = (10 * digit s i) + digit s (i + 1)

let has_form form s =
  String.length s = String.length form
  && List.for_all Fun.id (List.init (String.length s) (fun i -> if form.[i] = 'd' then s.[i] >= '0' && s.[i] <= '9' else s.[i] = form.[i]))

(* The offset from UTC in minutes. *)
let zone_minutes zone =
  if zone = "Z" then Some 0
  else if has_form "+dd:dd" zone || has_form "-dd:dd" zone then
    let hours = two zone 1 and minutes = two zone 4 in
    if hours > 23 || minutes > 59 then None else Some (((hours * 60) + minutes) * if zone.[0] = '-' then -1 else 1)
  else None

let without_fraction rest =
  if rest = "" || rest.[0] <> '.' then rest
  else
    let i = ref 1 in
    while !i < String.length rest && rest.[!i] >= '0' && rest.[!i] <= '9' do incr i done;
    if !i = 1 then "" else String.sub rest !i (String.length rest - !i)

let is_date_time s =
  String.length s >= 20
  && has_form "dddd-dd-ddTdd:dd:dd" (String.sub s 0 19)
  &&
  match zone_minutes (without_fraction (String.sub s 19 (String.length s - 19))) with
  | None -> false
  | Some zone ->
    let year = (100 * two s 0) + two s 2 and month = two s 5 and day = two s 8 in
    let hour = two s 11 and minute = two s 14 and second = two s 17 in
    let leap = year mod 4 = 0 && (year mod 100 <> 0 || year mod 400 = 0) in
    let days = [| 31; (if leap then 29 else 28); 31; 30; 31; 30; 31; 31; 30; 31; 30; 31 |] in
    month >= 1 && month <= 12 && day >= 1
    && day <= days.(month - 1)
    && hour <= 23 && minute <= 59 && second <= 60
    (* A leap second ends a day in UTC, whatever the zone shows. *)
    && (second < 60 || ((((hour * 60) + minute - zone) mod 1440) + 1440) mod 1440 = 1439)

(* The code points of valid UTF-8; of other bytes, some numbers. *)
let code_points s =
  let rec from at found =
    if at >= String.length s then List.rev found
    else
      let lead = Char.code s.[at] in
      let size, bits = if lead < 0x80 then (1, lead) else if lead < 0xE0 then (2, lead land 0x1F) else if lead < 0xF0 then (3, lead land 0xF) else (4, lead land 7) in
      let tail = String.sub s (at + 1) (min (size - 1) (String.length s - at - 1)) in
      from (at + size) (String.fold_left (fun code c -> (code lsl 6) lor (Char.code c land 0x3F)) bits tail :: found)
  in
  from 0 []

let has_characters (form : Tables.characters) s =
  let is_excluded code = List.exists (fun (low, high) -> low <= code && code <= high) form.excluded in
  let codes = code_points s in
  let count = List.length codes in
  form.fewest <= count && count <= form.most && not (List.exists is_excluded codes)

let put_string out s =
  if not (Line_validation.is_utf8 s) then refuse "the string %S is not valid UTF-8" s;
  Buffer.add_char out '"';
  String.iter
    (function
      | '"' -> Buffer.add_string out "\\\""
      | '\\' -> Buffer.add_string out "\\\\"
      | '\b' -> Buffer.add_string out "\\b"
      | '\012' -> Buffer.add_string out "\\f"
      | '\n' -> Buffer.add_string out "\\n"
      | '\r' -> Buffer.add_string out "\\r"
      | '\t' -> Buffer.add_string out "\\t"
      | c when c < ' ' -> Buffer.add_string out (Printf.sprintf "\\u%04x" (Char.code c))
      | c -> Buffer.add_char out c)
    s;
  Buffer.add_char out '"'

let in_range (t : Tables.value) name x = if x < t.least || x > t.greatest then refuse "%s is %g, outside its range" name x
let anything = None

let put_null out (t : Tables.value option) name =
  (match t with Some { nullable = false; _ } -> refuse "null for %s" name | _ -> ());
  Buffer.add_string out "null"

let is_digits text =
  let start = if text <> "" && text.[0] = '-' then 1 else 0 in
  let size = String.length text - start in
  let all = size > 0 && String.for_all (fun c -> c >= '0' && c <= '9') (String.sub text start size) in
  all && (size = 1 || text.[start] <> '0')

let put_integer out (t : Tables.value option) name digits =
  if not (is_digits digits) then refuse "%s is %S, which is not an integer in decimal digits" name digits;
  if Float.abs (float_of_string digits) = infinity then refuse "%s is an integer beyond the range of binary64" name;
  Option.iter (fun t -> in_range t name (float_of_string digits)) t;
  Buffer.add_string out (if digits = "-0" then "0" else digits)

let put_float out (t : Tables.value option) name x =
  let narrow = match t with Some { form = Binary32; _ } -> true | _ -> false in
  let x = if narrow then Numbers.to_binary32 x else x in
  if Float.is_nan x || Float.abs x = infinity then put_null out t name
  else begin
    Option.iter (fun t -> in_range t name x) t;
    Buffer.add_string out (if narrow then Numbers.binary32_text x else Numbers.binary64_text x)
  end

let put_number out (t : Tables.value option) name (value : json) =
  let digits = match value with `Int i -> Some (string_of_int i) | `Intlit text -> Some text | _ -> None in
  match (t, digits, value) with
  | (None | Some { form = Integer; _ }), Some digits, _ -> put_integer out t name digits
  | Some { form = Number | Binary32; _ }, Some digits, _ ->
    if not (is_digits digits) then refuse "%s is %S, which is not an integer in decimal digits" name digits;
    put_float out t name (float_of_string digits)
  | (None | Some { form = Number | Binary32; _ }), None, `Float x -> put_float out t name x
  | _ -> refuse "%s is a number, and must have another type" name

let check_string (t : Tables.value option) name s =
  match t with
  | None -> ()
  | Some { form = String; allowed; characters; date_time; _ } ->
    if allowed <> [] && not (List.mem s allowed) then refuse "%s is not one of %s" name (String.concat ", " allowed);
    if not (Option.fold ~none:true ~some:(fun form -> has_characters form s) characters) then refuse "%s does not have the required form" name;
    if date_time && not (is_date_time s) then refuse "%s is not a date-time with a zone that exists" name
  | Some _ -> refuse "%s has another type" name

let refuse_repeated keys =
  let next before key = if before = Some key then refuse "the key %s is given twice" key else Some key in
  ignore (List.fold_left next None (List.sort compare keys))

let rec put_value out (t : Tables.value option) name depth (value : json) =
  match value with
  | `Null -> put_null out t name
  | `Int _ | `Intlit _ | `Float _ -> put_number out t name value
  | `Bool b ->
    (match t with None | Some { form = Boolean; _ } -> () | Some _ -> refuse "%s has another type" name);
    Buffer.add_string out (string_of_bool b)
  | `String s -> check_string t name s; put_string out s
  | `Assoc members -> put_mapping out t name (depth + 1) members
  | `List items -> put_list out t name (depth + 1) items
  | `Tuple _ | `Variant _ -> refuse "%s is not JSON" name

and put_mapping out (t : Tables.value option) name depth members =
  match t with
  | None | Some { form = Open_map; _ } -> put_object out [] anything depth members
  | Some { form = Map inner; _ } -> put_object out [] (Some inner) depth members
  | Some { form = Object fields; _ } -> put_object out fields anything depth members
  | Some _ -> refuse "%s has another type" name

and put_list out (t : Tables.value option) name depth items =
  if depth > Tables.max_depth then refuse "nested deeper than %d" Tables.max_depth;
  let inner =
    match t with
    | None -> anything
    | Some { form = Array (inner, count); _ } ->
      if count <> None && count <> Some (List.length items) then refuse "%s has %d items" name (List.length items);
      Some inner
    | Some _ -> refuse "%s has another type" name
  in
  Buffer.add_char out '[';
  List.iteri (fun i item -> if i > 0 then Buffer.add_char out ','; put_value out inner name depth item) items;
  Buffer.add_char out ']'

(* Declared members in their order, then all others by the bytes of their keys. *)
and put_object out (fields : Tables.field list) others depth members =
  if depth > Tables.max_depth then refuse "nested deeper than %d" Tables.max_depth;
  refuse_repeated (List.map fst members);
  let started = ref false in
  let put t key value =
    Buffer.add_char out (if !started then ',' else '{');
    started := true;
    put_string out key;
    Buffer.add_char out ':';
    put_value out t key depth value
  in
  List.iter
    (fun (field : Tables.field) ->
      match List.assoc_opt field.name members with
      | Some value -> put (Some field.value) field.name value
      | None when field.required -> refuse "%s is missing" field.name
      | None -> if field.always then put (Some field.value) field.name (`Assoc []))
    fields;
  let unknown = List.filter (fun (key, _) -> not (List.exists (fun (f : Tables.field) -> f.name = key) fields)) members in
  let sorted = List.sort (fun (a, _) (b, _) -> compare (a : string) b) unknown in
  List.iter (fun (key, value) -> put others key value) sorted;
  Buffer.add_string out (if !started then "}" else "{}")

let encode profile record =
  let members = match record with `Assoc members -> members | _ -> refuse "a record is an object" in
  let tag_field = match (Profile.table profile).tag with Some tag -> [ Tables.field ~required:true tag (Tables.value String) ] | None -> [] in
  let fields = Option.value (Profile.fields profile record) ~default:tag_field in
  let out = Buffer.create 256 in
  put_object out fields anything 1 members;
  if Buffer.length out > Tables.max_line_bytes then refuse "the line is longer than %d bytes" Tables.max_line_bytes;
  Buffer.add_char out '\n';
  Buffer.contents out
