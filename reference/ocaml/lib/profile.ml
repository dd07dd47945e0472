type t = string

let table name : Tables.profile = List.assoc name Tables.profiles
let last_member members key = List.fold_left (fun found (name, value) -> if name = key then Some value else found) None members
let member json key = match json with `Assoc members -> last_member members key | _ -> None

let of_record record ~manifest =
  let member = member record in
  let is_number = function Some (`Int _ | `Intlit _ | `Float _) -> true | _ -> false in
  match (member "kind", member "type") with
  | Some (`String "run_start"), _ -> Some "toy/v1"
  | Some (`String _), _ when is_number (member "t") -> Some "toy/v1"
  | _, Some (`String "scalar") -> Some "kaun/v1"
  | _ when member "step" <> None && member "wall_time_ms" <> None -> Some "metrics/v1"
  | _ -> if manifest then Some "kaun/v1" else None

let of_name name ~manifest ~gap =
  let base = if name = "" then "" else Filename.basename name in
  let base = if Filename.check_suffix base ".gz" then Filename.chop_suffix base ".gz" else base in
  if base = (table "metrics/v1").file then Some "metrics/v1"
  else if manifest then Some "kaun/v1"
  else if gap && base <> "" && base <> (table "toy/v1").file then None
  else Some "toy/v1"

let kind profile record =
  match (table profile).tag with
  | None -> None
  | Some tag -> ( match member record tag with Some (`String kind) -> Some kind | _ -> None)

let fields profile record =
  let { Tables.tag; kinds; _ } = table profile in
  match tag with
  | None -> List.assoc_opt "entry" kinds
  | Some tag -> (
    match kind profile record with
    | None -> None
    | Some kind -> (
      match List.assoc_opt kind kinds with
      | Some fields when List.exists (fun (f : Tables.field) -> f.name = tag) fields -> Some fields
      | _ -> None))
