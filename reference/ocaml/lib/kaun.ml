type manifest = {
  run_id : string;
  created_at : float;
  tags : string list;
  experiment : string option;
  config : (string * Yojson.Safe.t) list;
  total_epochs : int option;
}

type run = { directory : string; manifest : manifest }

(* An empty variable is one that is not set. *)
let given variable = match Sys.getenv_opt variable with Some "" -> None | value -> value

let base () =
  let under variable parts = Option.map (fun root -> List.fold_left Filename.concat root parts) (given variable) in
  let places =
    [ under "RAVEN_RUNS_DIR" []; under "XDG_CACHE_HOME" [ "raven"; "runs" ]; under "HOME" [ ".cache"; "raven"; "runs" ] ]
  in
  Option.value (List.find_map Fun.id places) ~default:(Filename.concat ".cache" "raven/runs")

(* Any experiment may be named; in the name of a directory, what is not safe becomes an underscore. *)
let safe name = String.map (fun c -> if Run_ids.is_safe ("a" ^ String.make 1 c) then c else '_') name

let new_id experiment =
  let t = Unix.localtime (Unix.time ()) in
  let tail = Option.fold ~none:"" ~some:(fun name -> if name = "" then "" else "_" ^ safe name) experiment in
  let id =
    Printf.sprintf "%04d-%02d-%02d_%02d-%02d-%02d_%04x%s" (t.tm_year + 1900) (t.tm_mon + 1) t.tm_mday t.tm_hour t.tm_min t.tm_sec
      (Random.State.bits (Random.State.make_self_init ()) land 0xFFFF)
      tail
  in
  String.sub id 0 (min Tables.max_safe_run_id_chars (String.length id))

let json_of_manifest m : Yojson.Safe.t =
  `Assoc
    ([ ("schema_version", `Int 1); ("run_id", `String m.run_id); ("created_at", `Float m.created_at);
       ("tags", `List (List.map (fun tag -> `String tag) m.tags)) ]
    @ (match m.experiment with Some name -> [ ("experiment", `String name) ] | None -> [])
    @ (if m.config = [] then [] else [ ("config", `Assoc m.config) ])
    @ match m.total_epochs with Some n -> [ ("total_epochs", `Int n) ] | None -> [])

let write_manifest directory m =
  let path = Filename.concat directory "run.json" in
  let channel = open_out_bin (path ^ ".new") in
  Fun.protect ~finally:(fun () -> close_out channel) (fun () -> output_string channel (Yojson.Safe.pretty_to_string (json_of_manifest m) ^ "\n"));
  Sys.rename (path ^ ".new") path

(* Makes a directory of its own for a new run. *)
let rec make_own root experiment attempts =
  let run_id = new_id experiment in
  let directory = Filename.concat root run_id in
  match Unix.mkdir directory 0o777 with
  | () -> (run_id, directory)
  | exception Unix.Unix_error (EEXIST, _, _) when attempts > 1 -> make_own root experiment (attempts - 1)

let create ?base_dir ?experiment ?(tags = []) ?(config = []) () =
  let root = match base_dir with Some root -> root | None -> base () in
  Writer.make_directories root;
  let run_id, directory = make_own root experiment 100 in
  let manifest = { run_id; created_at = Unix.gettimeofday (); tags; experiment; config; total_epochs = None } in
  close_out (open_out_gen [ Open_append; Open_creat ] 0o666 (Filename.concat directory "events.jsonl"));
  write_manifest directory manifest;
  { directory; manifest }

let manifest_of_json json =
  let member = Profile.member json in
  let string key = match member key with Some (`String s) -> Some s | _ -> None in
  Option.map
    (fun run_id ->
      {
        run_id;
        created_at = (match member "created_at" with Some (`Float x) -> x | Some (`Int i) -> float i | Some (`Intlit digits) -> float_of_string digits | _ -> 0.);
        tags = (match member "tags" with Some (`List tags) -> List.filter_map (function `String s -> Some s | _ -> None) tags | _ -> []);
        experiment = string "experiment";
        config = (match member "config" with Some (`Assoc config) -> config | _ -> []);
        total_epochs = (match member "total_epochs" with Some (`Int n) -> Some n | _ -> None);
      })
    (string "run_id")

let load directory =
  let of_manifest manifest = { directory; manifest } in
  Option.map of_manifest (Option.bind (Manifest.read directory) manifest_of_json)

let latest root =
  let names = try Sys.readdir root with Sys_error _ -> [||] in
  Array.sort (fun a b -> compare (b : string) a) names;
  List.find_map (fun name -> load (Filename.concat root name)) (Array.to_list names)
