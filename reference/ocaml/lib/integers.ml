(* The text of a whole number is exact: printf gives all digits. *)
let of_float x : Yojson.Safe.t option =
  if Float.of_int max_int <= Float.abs x then if Float.is_integer x then Some (`Intlit (Printf.sprintf "%.0f" x)) else None
  else if Float.is_integer x then Some (`Int (Float.to_int x))
  else None

let rec settle_value (t : Tables.value) (value : Yojson.Safe.t) : Yojson.Safe.t =
  match (t.form, value) with
  | Integer, `Float x -> Option.value (of_float x) ~default:value
  | Object fields, `Assoc _ -> settle (Some fields) value
  | Map inner, `Assoc members -> `Assoc (List.map (fun (key, item) -> (key, settle_value inner item)) members)
  | Array (inner, _), `List items -> `List (List.map (settle_value inner) items)
  | _ -> value

and settle fields (record : Yojson.Safe.t) : Yojson.Safe.t =
  let settle_member (key, value) =
    match (value : Yojson.Safe.t) with
    | `Float _ | `Assoc _ | `List _ -> (
      match List.find_opt (fun (f : Tables.field) -> f.name = key) (Option.value fields ~default:[]) with
      | Some field -> (key, settle_value field.value value)
      | None -> (key, value))
    | _ -> (key, value)
  in
  match record with `Assoc members when fields <> None -> `Assoc (List.map settle_member members) | _ -> record

let in_record profile record =
  match profile with Some (("toy/v1" | "kaun/v1") as profile) -> settle (Profile.fields profile record) record | _ -> record
