type point = { step : string; epoch : string option; value : float option }
type tag = { count : int; latest : point; best : point option }

type rank = { rank : int; state : Reader.state; steps : string; last_step : string option; reason : string option }

type view =
  | Text of string
  | Integer of string
  | Number of float option
  | Narrow of float option
  | Numbers of float option list
  | Narrows of float option list
  | Tags of (string * tag) list
  | Ranks of rank list

type json = Yojson.Safe.t

let last list = match List.rev list with [] -> None | item :: _ -> Some item
let digits : json -> string = function `Int i -> string_of_int i | `Intlit digits -> digits | _ -> "0"

(* [None] is a number that was not finite. *)
let float_of : json -> float option = function
  | `Int i -> Some (float i)
  | `Intlit digits -> Some (float_of_string digits)
  | `Float x -> Some x
  | _ -> None

(* The records of a known kind of which no required member is missing or invalid. *)
let whole profile records =
  let is_whole (record : Reader.record) =
    match Profile.fields profile record.value with Some fields -> Validity.is_complete fields record.value | None -> false
  in
  List.filter is_whole records

let present views = List.filter_map (fun (name, view) -> Option.map (fun view -> (name, view)) view) views
let has_kind kind (record : Reader.record) = record.kind = Some kind
let text = Option.map (function `String text -> Text text | (_ : json) -> Text "")

let toy records =
  let own = Attempts.own_phase records and latest = Attempts.latest records in
  let is_own record = has_kind "step" record && Attempts.phase ~own record = own in
  let steps = List.filter is_own (whole "toy/v1" latest) in
  let curve = List.map float_of (List.filter_map (fun step -> Attempts.member step "loss") steps) in
  (* A run that goes on after its end has none until it ends again. *)
  let frames = List.filter (fun record -> has_kind "run_end" record || has_kind "run_resume" record) latest in
  let ending = Option.bind (last frames) (fun record -> if has_kind "run_end" record then Some record else None) in
  let of_ending name = Option.bind ending (fun record -> Attempts.member record name) in
  let final_loss = match of_ending "final_loss" with Some loss -> Some (float_of loss) | None -> last curve in
  let last_step = Option.bind (last steps) (fun step -> Attempts.member step "step") in
  let duration = last (List.filter_map (fun record -> Attempts.member record "t") latest) in
  let start = List.find_opt (has_kind "run_start") records in
  present
    [ ("run_id", text (Option.bind start (fun record -> Attempts.member record "run_id")));
      ("phase", Some (Text own));
      ("steps", Some (Integer (string_of_int (List.length steps))));
      ("last_step", Option.map (fun step -> Integer (digits step)) last_step);
      ("loss_curve", Some (Numbers curve));
      ("final_loss", Option.map (fun loss -> Number loss) final_loss);
      ("duration_seconds", Option.map (fun t -> Number (float_of t)) duration);
      ("reason", text (of_ending "reason")) ]

let metrics records =
  let entries = whole "metrics/v1" records in
  let all name = List.filter_map (fun (entry : Reader.record) -> Profile.member entry.value name) entries in
  let losses = List.map (fun loss -> Option.map Numbers.to_binary32 (float_of loss)) (all "loss") in
  let finite = List.filter_map Fun.id losses in
  let of_finite pick = if finite = [] then None else Some (Narrow (Some (Numbers.to_binary32 (pick finite)))) in
  let fold f = function first :: rest -> List.fold_left f first rest | [] -> nan in
  let mean losses = List.fold_left ( +. ) 0. losses /. float (List.length losses) in
  let seconds = Option.map (fun wall_time -> Number (Option.map (fun ms -> ms /. 1000.) (float_of wall_time))) in
  present
    [ ("steps", Some (Integer (string_of_int (List.length entries))));
      ("last_step", Option.map (fun step -> Integer (digits step)) (last (all "step")));
      ("loss_curve", Some (Narrows losses));
      ("final_loss", Option.map (fun loss -> Narrow loss) (last losses));
      ("duration_seconds", seconds (last (all "wall_time_ms")));
      ("loss_min", of_finite (fold (fun lowest loss -> if loss < lowest then loss else lowest)));
      ("loss_mean", of_finite mean);
      ("loss_max", of_finite (fold (fun most loss -> if loss > most then loss else most)));
      ("non_finite", Some (Integer (string_of_int (List.length losses - List.length finite)))) ]

(* One scalar of kaun/v1, with what counts for the views. *)
type scalar = { tag : string; point : point; minimize : bool option }

let truncated (record : json) : json =
  let cut (key, (value : json)) =
    match (key, value) with
    | ("step" | "epoch"), `Float x -> (key, Option.value (Integers.of_float (Float.trunc x)) ~default:value)
    | _ -> (key, value)
  in
  match record with `Assoc members -> `Assoc (List.map cut members) | other -> other

let scalar (record : Reader.record) =
  let fields = Option.value (Profile.fields "kaun/v1" record.value) ~default:[] in
  let member = Validity.member fields (truncated record.value) in
  match (record.kind, member "step", member "tag", member "value") with
  | Some "scalar", Some step, Some (`String tag), Some value ->
    let minimize = match member "minimize" with Some (`Bool minimize) -> Some minimize | _ -> None in
    Some { tag; point = { step = digits step; epoch = Option.map digits (member "epoch"); value = float_of value }; minimize }
  | _ -> None

(* A point without an epoch is before every epoch. *)
let is_later a b =
  Sequence.is_after a.step b.step
  || (a.step = b.step
     && match (a.epoch, b.epoch) with Some a, Some b -> Sequence.is_after a b | Some _, None -> true | None, _ -> false)

let first_by is_better = function
  | [] -> None
  | first :: rest -> Some (List.fold_left (fun best point -> if is_better point best then point else best) first rest)

let tag_view name scalars =
  let points = List.map (fun scalar -> scalar.point) scalars in
  let finite = List.filter (fun point -> point.value <> None) points in
  let smaller = Kaun_scalar.is_smaller_better name ~minimize:(last (List.filter_map (fun scalar -> scalar.minimize) scalars)) in
  let is_better a b = if smaller then a.value < b.value else a.value > b.value in
  { count = List.length points; latest = Option.get (first_by is_later points); best = first_by is_better finite }

let kaun_tags records =
  let scalars = List.filter_map scalar records in
  let names = List.sort_uniq String.compare (List.map (fun (scalar : scalar) -> scalar.tag) scalars) in
  List.map (fun name -> (name, tag_view name (List.filter (fun (scalar : scalar) -> scalar.tag = name) scalars))) names

let base_name directory =
  let absolute = if Filename.is_relative directory then Filename.concat (Sys.getcwd ()) directory else directory in
  Filename.basename absolute

let kaun_run_id directory =
  let fields = List.assoc "run" (Profile.table "kaun/v1").kinds in
  match Option.bind (Manifest.read directory) (fun manifest -> Validity.member fields manifest "run_id") with
  | Some (`String run_id) -> run_id
  | _ -> base_name directory

let of_records ?directory profile records =
  match profile with
  | Some "toy/v1" -> toy records
  | Some "metrics/v1" -> metrics records
  | Some "kaun/v1" ->
    present [ ("run_id", Option.map (fun directory -> Text (kaun_run_id directory)) directory); ("tags", Some (Tags (kaun_tags records))) ]
  | _ -> []

let of_reading ?directory read =
  let records = ref [] in
  let report : Reader.report = read (fun record -> records := record :: !records) in
  (of_records ?directory report.profile (List.rev !records), report)

let rank_view rank (views, (report : Reader.report)) =
  let integer name = match List.assoc_opt name views with Some (Integer digits) -> Some digits | _ -> None in
  let reason = match List.assoc_opt "reason" views with Some (Text text) -> Some text | _ -> None in
  { rank; state = report.state; steps = Option.value (integer "steps") ~default:"0"; last_step = integer "last_step"; reason }

(* A rank without a step came less far than any other. *)
let order_of_ranks a b =
  match (a.last_step, b.last_step) with
  | Some a, Some b -> if Sequence.is_after a b then 1 else if Sequence.is_after b a then -1 else 0
  | a, b -> compare (a <> None) (b <> None)

(* The rank that came least far; of several, the only one whose stream is not complete. *)
let first_stopped ranks =
  let lowest = List.hd (List.sort order_of_ranks ranks) in
  match List.filter (fun rank -> order_of_ranks rank lowest = 0) ranks with
  | [ first ] -> Some first.rank
  | several -> ( match List.filter (fun rank -> rank.state <> Reader.Complete) several with [ first ] -> Some first.rank | _ -> None)

let with_ranks ?max_line_bytes directory first =
  let of_rank rank =
    let path = Filename.concat directory (Bundle_files.rank_file rank) in
    rank_view rank (of_reading (Reader.read_file ~mode:Salvage ~profile:"toy/v1" ?max_line_bytes path))
  in
  match Bundle_files.ranks directory with
  | [] -> []
  | others ->
    let ranks = rank_view 0 first :: List.map of_rank others in
    present [ ("ranks", Some (Ranks ranks)); ("first_stopped", Option.map (fun rank -> Integer (string_of_int rank)) (first_stopped ranks)) ]

let of_file ?profile ?max_line_bytes path =
  let directory = if Sys.is_directory path then Some path else None in
  let views, report = of_reading ?directory (Reader.read_file ~mode:Salvage ?profile ?max_line_bytes path) in
  match directory with
  | Some directory when report.profile = Some "toy/v1" -> (views @ with_ranks ?max_line_bytes directory (views, report), report)
  | _ -> (views, report)

let of_string ?profile ?name ?max_line_bytes text =
  of_reading (Reader.read_string ~mode:Salvage ?profile ?name ?max_line_bytes text)
