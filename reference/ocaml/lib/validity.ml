let number : Yojson.Safe.t -> float = function
  | `Int i -> float i
  | `Intlit digits -> float_of_string digits
  | `Float x -> x
  | _ -> nan

let in_range (t : Tables.value) value =
  let x = number value in
  x >= t.least && x <= t.greatest && (t.form <> Tables.Binary32 || Float.abs x < Tables.binary32_limit)

let is_allowed (t : Tables.value) text =
  (t.allowed = [] || List.mem text t.allowed)
  && Option.fold ~none:true ~some:(fun form -> Canonical.has_characters form text) t.characters
  && ((not t.date_time) || Canonical.is_date_time text)

let rec is_valid (t : Tables.value) (value : Yojson.Safe.t) =
  match (t.form, value) with
  | _, `Null -> t.nullable
  | Integer, (`Int _ | `Intlit _) | (Number | Binary32), (`Int _ | `Intlit _ | `Float _) -> in_range t value
  | String, `String text -> is_allowed t text
  | Boolean, `Bool _ | Open_map, `Assoc _ -> true
  | Array (inner, count), `List items ->
    (count = None || count = Some (List.length items)) && List.for_all (is_valid inner) items
  | Object fields, `Assoc _ ->
    is_complete fields value
    && List.for_all (fun (f : Tables.field) -> Profile.member value f.name = None || member fields value f.name <> None) fields
  | Map inner, `Assoc members ->
    List.for_all (fun (key, _) -> Option.fold ~none:true ~some:(is_valid inner) (Profile.member value key)) members
  | _ -> false

and member fields record name =
  match (List.find_opt (fun (f : Tables.field) -> f.name = name) fields, Profile.member record name) with
  | Some field, Some value when is_valid field.value value -> Some value
  | _ -> None

and is_complete fields record =
  List.for_all (fun (f : Tables.field) -> (not f.required) || member fields record f.name <> None) fields
