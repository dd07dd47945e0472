type t = { run : Kaun.run; writer : Writer.t; mutable is_closed : bool; mutable has_reported : bool }

let create ?base_dir ?experiment ?tags ?config () =
  let run = Kaun.create ?base_dir ?experiment ?tags ?config () in
  let writer = Writer.append (Filename.concat run.directory "events.jsonl") "kaun/v1" in
  { run; writer; is_closed = false; has_reported = false }

let report log cause =
  if not log.has_reported then Printf.eprintf "toyspec: %s: a scalar was not written: %s\n%!" log.run.directory cause;
  log.has_reported <- true

let scalars log ~step ?epoch pairs =
  let write (tag, value) =
    let scalar : Kaun_scalar.t = { step; epoch; tag; value; wall_time = Unix.gettimeofday (); minimize = None } in
    try Writer.write log.writer (Kaun_scalar.to_json scalar) with
    | Unix.Unix_error (error, _, _) -> report log (Unix.error_message error)
    | Writer.Refused reason -> report log reason
  in
  if not log.is_closed then List.iter write pairs

let run_id log = log.run.manifest.run_id
let run_dir log = log.run.directory

let close log =
  log.is_closed <- true;
  Writer.close log.writer
