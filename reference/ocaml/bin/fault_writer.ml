(* Writes the requested records, one for each line of input, for the fault runner: see conformance/faults/programs.py. *)
open Toyspec

let writer : Writer.t option ref = ref None
let current () = match !writer with Some w -> w | None -> failwith "nothing is open"

(* The first word, and the rest. *)
let cut line =
  match String.index_opt line ' ' with
  | Some i -> (String.sub line 0 i, String.sub line (i + 1) (String.length line - i - 1))
  | None -> (line, "")

let note ?(members = []) text : Yojson.Safe.t = `Assoc ([ ("kind", `String "note"); ("text", `String text) ] @ members)
let mine value : Yojson.Safe.t = `Assoc [ ("kind", `String "mine"); ("m", value) ]

let step ?(loss = 0.5) number : Yojson.Safe.t =
  `Assoc [ ("kind", `String "step"); ("phase", `String "train"); ("step", number); ("loss", `Float loss) ]

let entry number : Yojson.Safe.t =
  `Assoc
    [ ("step", `Int number); ("wall_time_ms", `Float 1.); ("loss", `Float 0.5); ("grad_norm", `Float 0.5);
      ("throughput_samples_per_sec", `Float 1.); ("extra", `Assoc []) ]

let rec nested levels : Yojson.Safe.t = if levels = 0 then `List [] else `List [ nested (levels - 1) ]

let value name : Yojson.Safe.t option =
  match name with
  | "long-integer" -> Some (step (`Intlit ("1" ^ String.make 400 '0')))
  | "zeros" -> Some (step (`Intlit "007"))
  | "bad-utf8" -> Some (note "a\xff")
  | "twin-keys" -> Some (mine (`Assoc [ ("a\xff", `Int 1); ("a\xfe", `Int 2) ]))
  | "nan" -> Some (step ~loss:nan (`Int 1000))
  | "deep" -> Some (mine (nested 100))
  | "long" -> Some (note (String.make 17_000_000 'x'))
  | "no-kind" -> Some (`Assoc [ ("m", `Int 1) ])
  | _ -> None

let record command rest : Yojson.Safe.t =
  match command with
  | "start" -> `Assoc [ ("kind", `String "run_start"); ("schema", `String "toy/v1"); ("run_id", `String "demo") ]
  | "resume" -> `Assoc [ ("kind", `String "run_resume"); ("from_step", `Int (int_of_string rest)) ]
  | "step" -> step (`Int (int_of_string rest))
  | "entry" -> entry (int_of_string rest)
  | "end" -> `Assoc [ ("kind", `String "run_end"); ("reason", `String "completed") ]
  | "note" ->
    let number, size = cut rest in
    note ~members:[ ("step", `Int (int_of_string number)) ] (String.make (int_of_string size) 'x')
  | _ -> failwith "no such command"

let exist_of word : Writer.exist = match word with "fail" -> Fail | "resume" -> Resume | _ -> Replace

let rec answer line =
  match obey line with
  | said -> said
  | exception (Writer.Refused text | Canonical.Refused text | Failure text | Invalid_argument text) -> "failed " ^ text
  | exception Sys.Break -> "failed interrupted"
  | exception Unix.Unix_error (code, call, path) -> Printf.sprintf "failed %s: %s: %s" path call (Unix.error_message code)

and obey line =
  match cut line with
  | "open", rest ->
    let exist, directory = cut rest in
    writer := Some (Writer.open_run ~exist:(exist_of exist) directory);
    "ok"
  | "append", path ->
    writer := Some (Writer.append path "metrics/v1");
    "ok"
  | "close", _ -> Option.iter Writer.close !writer; "ok"
  | "dropped", _ -> Printf.sprintf "ok %d" (Writer.dropped (current ()))
  | "fork", rest -> in_child rest
  | "read", path -> ignore (Reader.read_file path ignore); "ok"
  | "value", name -> (
    match value name with
    | None -> "untestable OCaml has no such value"
    | Some value -> Writer.write (current ()) value; "ok")
  | command, rest -> Writer.write (current ()) (record command rest); "ok"

and in_child rest =
  match Unix.fork () with
  | 0 -> Unix._exit (if answer ("step " ^ rest) = "ok" then 0 else 1)
  | child -> (
    match Unix.waitpid [] child with
    | _, Unix.WEXITED 0 -> "ok"
    | _, Unix.WEXITED 1 -> "failed in the child"
    | _ -> "failed child crashed")

let () =
  Sys.catch_break true;
  try
    while true do
      print_endline (String.map (fun c -> if c = '\n' then ' ' else c) (answer (input_line stdin)))
    done
  with End_of_file -> ()
