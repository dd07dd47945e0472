type tag = {
  mutable history : Kaun_scalar.t list; (* the newest first *)
  mutable latest : Kaun_scalar.t;
  mutable smallest : Kaun_scalar.t option;
  mutable largest : Kaun_scalar.t option;
  mutable minimize : bool option;
}

type t = (string, tag) Hashtbl.t

let create () : t = Hashtbl.create 16
let clear = Hashtbl.reset

(* A scalar without an epoch is before every epoch. *)
let order (s : Kaun_scalar.t) = (s.step, Option.value s.epoch ~default:(-1))

let better ~by (s : Kaun_scalar.t) (known : Kaun_scalar.t option) =
  match known with
  | Some best when not (by s.value best.value) -> known
  | _ -> if Float.is_finite s.value then Some s else known

let take store (s : Kaun_scalar.t) =
  let tag =
    match Hashtbl.find_opt store s.tag with
    | Some tag -> tag
    | None ->
      let tag = { history = []; latest = s; smallest = None; largest = None; minimize = None } in
      Hashtbl.add store s.tag tag;
      tag
  in
  tag.history <- s :: tag.history;
  if order s > order tag.latest then tag.latest <- s;
  tag.smallest <- better ~by:( < ) s tag.smallest;
  tag.largest <- better ~by:( > ) s tag.largest;
  if s.minimize <> None then tag.minimize <- s.minimize

let update store scalars = List.iter (take store) scalars

let best name tag = if Kaun_scalar.is_smaller_better name ~minimize:tag.minimize then tag.smallest else tag.largest

let sorted store pick =
  let add name tag found = match pick name tag with Some scalar -> (name, scalar) :: found | None -> found in
  List.sort (fun (a, _) (b, _) -> String.compare a b) (Hashtbl.fold add store [])

let latest_metrics store = sorted store (fun _ tag -> Some tag.latest)
let best_metrics store = sorted store best
let history_for_tag store name = Option.fold ~none:[] ~some:(fun tag -> List.rev tag.history) (Hashtbl.find_opt store name)
let best_for_tag store name = Option.bind (Hashtbl.find_opt store name) (best name)

let latest_epoch store =
  let of_tag _ tag found = List.fold_left (fun found (s : Kaun_scalar.t) -> max found s.epoch) found tag.history in
  Hashtbl.fold of_tag store None
