type t = { step : int; wall_time : float; tag : string; value : float; minimize : bool option; epoch : int option }

let to_json s : Yojson.Safe.t =
  let optional key value = Option.fold ~none:[] ~some:(fun value -> [ (key, value) ]) value in
  `Assoc
    ([ ("type", `String "scalar"); ("step", `Int s.step); ("wall_time", `Float s.wall_time); ("tag", `String s.tag); ("value", `Float s.value) ]
    @ optional "minimize" (Option.map (fun b -> `Bool b) s.minimize)
    @ optional "epoch" (Option.map (fun epoch -> `Int epoch) s.epoch))

let number : Yojson.Safe.t option -> float option = function
  | Some (`Float x) -> Some x
  | Some (`Int i) -> Some (float i)
  | Some (`Intlit digits) -> Some (float_of_string digits)
  | _ -> None

(* The integer next to a number towards zero. *)
let count : Yojson.Safe.t option -> int option = function
  | Some (`Int i) when i >= 0 -> Some i
  | Some (`Float x) when x > -1. && x < float max_int -> Some (Float.to_int x)
  | _ -> None

let of_json json =
  let member = Profile.member json in
  let value = match member "value" with Some `Null -> Some nan | value -> number value in
  match (member "type", count (member "step"), member "tag", value) with
  | Some (`String "scalar"), Some step, Some (`String tag), Some value ->
    let minimize = match member "minimize" with Some (`Bool b) -> Some b | _ -> None in
    let wall_time = Option.value (number (member "wall_time")) ~default:0. in
    Some { step; tag; value; wall_time; minimize; epoch = count (member "epoch") }
  | _ -> None

let contains text part =
  let n = String.length part in
  let rec go i = i + n <= String.length text && (String.sub text i n = part || go (i + 1)) in
  go 0

let is_smaller_better tag ~minimize =
  let tag = String.lowercase_ascii tag in
  Option.value minimize ~default:(contains tag "loss" || contains tag "error")
