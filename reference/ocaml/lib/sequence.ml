type t = {
  mutable started : bool;
  mutable ended : bool;
  mutable last : float;
  mutable phase : string;
  mutable resumes : bool; (* run_resume has to be next *)
  mutable bases : (string * string) list; (* digits of the last step by phase *)
  mutable final : (string * Yojson.Safe.t) list;
}

let create () = { started = false; ended = false; resumes = false; last = 0.; phase = "train"; bases = []; final = [] }

(* Demands run_resume next; a run may go on after its end. *)
let resume s =
  s.resumes <- s.started;
  s.ended <- false

let ended s = s.ended
let is_open s = s.started && (not s.ended) && not s.resumes
let final s = s.final
let last s = s.last
let string record key = match Profile.member record key with Some (`String text) -> Some text | _ -> None

let digits record key =
  match Profile.member record key with Some (`Int i) -> Some (string_of_int i) | Some (`Intlit text) -> Some text | _ -> None

let number record key =
  match Profile.member record key with
  | Some (`Float x) -> Some x
  | Some (`Int i) -> Some (float i)
  | Some (`Intlit text) -> Some (float_of_string text)
  | _ -> None

(* The t of a record of a known kind: that of any other takes part in nothing. *)
let time record = if Profile.fields "toy/v1" record = None then None else number record "t"

(* Steps are not negative, so the longer of two is the larger. *)
let is_after a b =
  let a = if a = "-0" then "0" else a and b = if b = "-0" then "0" else b in
  String.length a > String.length b || (String.length a = String.length b && a > b)

let phases =
  List.assoc "step" (Profile.table "toy/v1").kinds
  |> List.concat_map (fun (field : Tables.field) -> if field.name = "phase" then field.value.allowed else [])

let phase_of s record =
  match string record "phase" with Some phase when List.mem phase phases -> phase | _ -> s.phase

let admit s record =
  let kind = string record "kind" in
  let refuse reason = raise (Canonical.Refused reason) in
  if s.ended && kind <> Some "run_resume" then refuse "the run has ended; it goes on with run_resume";
  if (not s.started) && kind <> Some "run_start" then refuse "the first record must be a run_start";
  if s.started && kind = Some "run_start" then refuse "the run has started";
  if s.resumes && kind <> Some "run_resume" then refuse "the first record after a resumption must be a run_resume";
  (match (kind, List.assoc_opt (phase_of s record) s.bases, digits record "step") with
  | Some "step", Some base, Some step when step.[0] <> '-' && not (is_after step base) ->
    refuse (Printf.sprintf "step %s after step %s; write run_resume first" step base)
  | _ -> ());
  match (record, time record) with
  | `Assoc members, Some t when t < s.last -> `Assoc (List.map (fun (key, value) -> (key, if key = "t" then `Float s.last else value)) members)
  | _ -> record

let note_step s record step =
  let phase = phase_of s record in
  s.bases <- (phase, step) :: List.remove_assoc phase s.bases;
  if phase = "train" then
    s.final <-
      ("final_step", `Intlit step)
      :: (match Profile.member record "loss" with
         | Some ((`Null | `Float _ | `Int _ | `Intlit _) as loss) -> [ ("final_loss", (loss :> Yojson.Safe.t)) ]
         | _ -> [])

let note s record =
  (match time record with Some t when t > s.last -> s.last <- t | _ -> ());
  (match (string record "kind", digits record "step") with
  | Some "run_start", _ when not s.started -> s.phase <- phase_of s record
  | Some "run_end", _ -> s.ended <- true
  | Some "run_resume", _ ->
    s.ended <- false;
    s.bases <- (match digits record "from_step" with Some from -> [ ("train", from) ] | None -> [])
  | Some "step", Some step when step.[0] <> '-' || step = "-0" -> note_step s record step
  | _ -> ());
  s.started <- true;
  s.resumes <- false
