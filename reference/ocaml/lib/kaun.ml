type manifest = {
  run_id : string;
  created_at : float;
  tags : string list;
  experiment : string option;
  config : (string * Yojson.Safe.t) list;
  total_epochs : int option;
}

type run = { directory : string; manifest : manifest }

type scalar = { step : int; wall_time : float; tag : string; value : float; minimize : bool; epoch : int option }

let base () =
  let under variable parts = Option.map (fun root -> List.fold_left Filename.concat root parts) (Sys.getenv_opt variable) in
  let first = List.find_map Fun.id [ under "RAVEN_RUNS_DIR" []; under "XDG_CACHE_HOME" [ "raven"; "runs" ]; under "HOME" [ ".cache"; "raven"; "runs" ] ] in
  Option.value first ~default:(Filename.concat ".cache" "raven/runs")

let new_id experiment =
  let t = Unix.localtime (Unix.time ()) in
  let tail = match experiment with Some name -> "_" ^ name | None -> "" in
  Printf.sprintf "%04d-%02d-%02d_%02d-%02d-%02d_%04x%s" (t.tm_year + 1900) (t.tm_mon + 1) t.tm_mday t.tm_hour t.tm_min t.tm_sec
    (Random.State.bits (Random.State.make_self_init ()) land 0xFFFF)
    tail

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

let create ?base:root ?experiment ?(config = []) ?(tags = []) () =
  let root = match root with Some root -> root | None -> base () in
  let manifest = { run_id = new_id experiment; created_at = Unix.gettimeofday (); tags; experiment; config; total_epochs = None } in
  let directory = Filename.concat root manifest.run_id in
  Writer.make_directories directory;
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
        created_at = (match member "created_at" with Some (`Float x) -> x | Some (`Int i) -> float i | _ -> 0.);
        tags = (match member "tags" with Some (`List tags) -> List.filter_map (function `String s -> Some s | _ -> None) tags | _ -> []);
        experiment = string "experiment";
        config = (match member "config" with Some (`Assoc config) -> config | _ -> []);
        total_epochs = (match member "total_epochs" with Some (`Int n) -> Some n | _ -> None);
      })
    (string "run_id")

let load directory =
  let path = Filename.concat directory "run.json" in
  match open_in_bin path with
  | exception Sys_error _ -> None
  | channel ->
    let text = Fun.protect ~finally:(fun () -> close_in channel) (fun () -> really_input_string channel (in_channel_length channel)) in
    if Vetter.vet text ~first:true <> None then None
    else Option.map (fun manifest -> { directory; manifest }) (manifest_of_json (Yojson.Safe.from_string text))

let latest root =
  let names = try Sys.readdir root with Sys_error _ -> [||] in
  Array.sort (fun a b -> compare (b : string) a) names;
  List.find_map (fun name -> load (Filename.concat root name)) (Array.to_list names)

let json_of_scalar s : Yojson.Safe.t =
  `Assoc
    ([ ("type", `String "scalar"); ("step", `Int s.step); ("wall_time", `Float s.wall_time); ("tag", `String s.tag); ("value", `Float s.value);
       ("minimize", `Bool s.minimize) ]
    @ match s.epoch with Some epoch -> [ ("epoch", `Int epoch) ] | None -> [])

let scalar_of_json json =
  let member = Profile.member json in
  let number = function Some (`Float x) -> Some x | Some (`Int i) -> Some (float i) | Some `Null -> Some nan | _ -> None in
  match (member "type", member "step", member "tag", number (member "value")) with
  | Some (`String "scalar"), Some (`Int step), Some (`String tag), Some value ->
    Some
      {
        step; tag; value;
        wall_time = Option.value (number (member "wall_time")) ~default:0.;
        minimize = member "minimize" = Some (`Bool true);
        epoch = (match member "epoch" with Some (`Int epoch) -> Some epoch | _ -> None);
      }
  | _ -> None

type events = {
  path : string;
  mutable file : (int * int) option; (* device and inode *)
  mutable position : int;
  partial : Buffer.t; (* the last line, until its LF comes *)
  mutable skipped : (int * string) list;
}

let open_events directory =
  { path = Filename.concat directory "events.jsonl"; file = None; position = 0; partial = Buffer.create 256; skipped = [] }

let start_over e file =
  e.file <- file;
  e.position <- 0;
  Buffer.clear e.partial

(* The scalar of a committed line; a line that is no JSON is noted and skipped. *)
let scalar_of_line e line offset =
  if Vetter.is_blank line then None
  else
    match Vetter.vet line ~first:(offset = 0) with
    | Some reason -> e.skipped <- (offset, reason) :: e.skipped; None
    | None -> scalar_of_json (Yojson.Safe.from_string line)

let take_chunk e chunk size =
  let start = e.position - Buffer.length e.partial in
  Buffer.add_subbytes e.partial chunk 0 size;
  e.position <- e.position + size;
  let pieces = String.split_on_char '\n' (Buffer.contents e.partial) in
  let rec go offset found = function
    | [ rest ] -> Buffer.clear e.partial; Buffer.add_string e.partial rest; List.rev found
    | line :: rest ->
      let found = match scalar_of_line e line offset with Some scalar -> scalar :: found | None -> found in
      go (offset + String.length line + 1) found rest
    | [] -> List.rev found
  in
  go start [] pieces

let read_new e descriptor =
  let chunk = Bytes.create 65536 in
  let rec go found =
    let size = Unix.read descriptor chunk 0 (Bytes.length chunk) in
    if size = 0 then found else go (found @ take_chunk e chunk size)
  in
  go []

let read_events e =
  match Unix.openfile e.path [ O_RDONLY; O_NONBLOCK; O_CLOEXEC ] 0 with
  | exception Unix.Unix_error (Unix.ENOENT, _, _) -> start_over e None; []
  | exception Unix.Unix_error _ -> []
  | descriptor ->
    Fun.protect
      ~finally:(fun () -> Unix.close descriptor)
      (fun () ->
        let status = Unix.fstat descriptor in
        let file = Some (status.st_dev, status.st_ino) in
        if e.file <> file || status.st_size < e.position then start_over e file;
        ignore (Unix.lseek descriptor e.position Unix.SEEK_SET);
        read_new e descriptor)

let skipped e = List.rev e.skipped
let last_modified e = try Some (Unix.stat e.path).st_mtime with Unix.Unix_error _ -> None
