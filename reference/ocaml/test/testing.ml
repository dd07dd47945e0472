(* Runs tests and counts them; the files that they need. *)

open Toyspec

let failed = ref 0
let ran = ref 0

let test name body =
  incr ran;
  try body ()
  with error ->
    incr failed;
    Printf.eprintf "%s: %s\n%s%!" name (Printexc.to_string error) (Printexc.get_backtrace ())

let start = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"run\"}\n"
let stop = "{\"kind\":\"run_end\",\"t\":9.0,\"reason\":\"completed\"}\n"
let ignore_record (_ : Reader.record) = ()

let temporary () =
  let path = Filename.temp_file "toyspec" "" in
  Sys.remove path;
  Unix.mkdir path 0o777;
  path

let contents path =
  let channel = open_in_bin path in
  Fun.protect ~finally:(fun () -> close_in channel) (fun () -> really_input_string channel (in_channel_length channel))

let put path text =
  let channel = open_out_bin path in
  Fun.protect ~finally:(fun () -> close_out channel) (fun () -> output_string channel text)

(* A directory for a bundle, and the path of its stream. *)
let bundle ?stream () =
  let directory = temporary () in
  let path = Filename.concat directory "events.jsonl" in
  Option.iter (put path) stream;
  (directory, path)

let names directory = List.sort compare (Array.to_list (Sys.readdir directory))
let kinds path = List.filter_map (fun line -> if line = "" then None else Profile.kind "toy/v1" (Yojson.Safe.from_string line)) (String.split_on_char '\n' (contents path))
let refuses f = match f () with exception Writer.Refused _ -> true | _ -> false
let rejects f = match f () with exception Canonical.Refused _ -> true | _ -> false

(* Whether a call fails with an error that names the path. *)
let fails error path f = match f () with exception Unix.Unix_error (code, _, named) -> code = error && named = path | _ -> false

let record members : Yojson.Safe.t = `Assoc members
let run_start = record [ ("kind", `String "run_start"); ("schema", `String "toy/v1"); ("run_id", `String "run") ]
let run_end = record [ ("kind", `String "run_end"); ("reason", `String "completed") ]
let step n = record [ ("kind", `String "step"); ("step", `Int n) ]
let note text = record [ ("kind", `String "note"); ("text", `String text) ]
let run_resume n = record [ ("kind", `String "run_resume"); ("from_step", `Int n) ]

(* The exit status of a function in a process of its own. *)
let in_child f =
  match Unix.fork () with
  | 0 -> Unix._exit (try f () with error -> prerr_endline (Printexc.to_string error); 99)
  | child -> ( match Unix.waitpid [] child with _, WEXITED status -> status | _ -> 98)

let finish () =
  Printf.printf "%d passed, %d failed\n" (!ran - !failed) !failed;
  exit (min 1 !failed)
