(** The file [run.json] beside a stream. *)

val read : string -> Yojson.Safe.t option
(** [read directory] is the object in [run.json]; [None] where it cannot be read. Whole numbers such as [1.0] are integers
    where the schema declares integers. *)

val is_beside : string -> bool
(** [is_beside path] is [true] where the directory of a stream holds the manifest of a kaun/v1 run. *)
