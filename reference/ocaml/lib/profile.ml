type t = string

let table name : Tables.profile = List.assoc name Tables.profiles
let last_member members key = List.fold_left (fun found (name, value) -> if name = key then Some value else found) None members
let member json key = match json with `Assoc members -> last_member members key | _ -> None

let detect record ~fallback =
  let has key = member record key <> None in
  if has "kind" then "toy/v1"
  else if has "type" then "kaun/v1"
  else if has "step" && has "wall_time_ms" then "metrics/v1"
  else fallback

let of_name name = if Filename.basename name = (table "metrics/v1").file then "metrics/v1" else "toy/v1"

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
