let contents path =
  let channel = open_in_bin path in
  Fun.protect
    ~finally:(fun () -> close_in_noerr channel)
    (fun () ->
      let size = in_channel_length channel in
      if size > Tables.max_line_bytes then None else Some (really_input_string channel size))

let read directory =
  let path = Filename.concat directory "run.json" in
  match if Sys.file_exists path && not (Sys.is_directory path) then contents path else None with
  | Some text when (not (Line_validation.is_blank text)) && Line_validation.validate text ~first:true = None ->
    let fields = List.assoc "run" (Profile.table "kaun/v1").kinds in
    Some (Integers.settle (Some fields) (Yojson.Safe.from_string text))
  | _ | (exception (Sys_error _ | End_of_file)) -> None

let is_beside path =
  match read (Filename.dirname path) with
  | Some manifest -> Profile.member manifest "run_id" <> None && Profile.member manifest "kind" = None
  | None -> false
