let fields (record : Reader.record) = Option.value (Profile.fields "toy/v1" record.value) ~default:[]
let member (record : Reader.record) name = Validity.member (fields record) record.value name
let phase ~own record = match member record "phase" with Some (`String phase) -> phase | _ -> own

let own_phase records =
  match List.find_opt (fun (record : Reader.record) -> record.kind = Some "run_start") records with
  | Some start -> phase ~own:"train" start
  | None -> "train"

let digits record name : string option =
  match member record name with Some (`Int i) -> Some (string_of_int i) | Some (`Intlit digits) -> Some digits | _ -> None

let frame = [ Some "run_start"; Some "run_resume"; Some "run_config"; Some "run_end" ]

let is_replaced ~own limit (record : Reader.record) =
  match digits record "step" with
  | Some step when (not (List.mem record.kind frame)) && Sequence.is_after step limit ->
    let phase = phase ~own record in
    phase = "train" || (phase = "eval" && record.kind <> Some "step")
  | _ -> false

let latest records =
  let own = own_phase records in
  let take (limit, kept) (record : Reader.record) =
    match limit with
    | Some from when is_replaced ~own from record -> (limit, kept)
    | _ -> (
      match (if record.kind = Some "run_resume" then digits record "from_step" else None), limit with
      | Some from, Some least when not (Sequence.is_after least from) -> (limit, record :: kept)
      | (Some _ as from), _ -> (from, record :: kept)
      | None, _ -> (limit, record :: kept))
  in
  snd (List.fold_left take (None, []) (List.rev records))
