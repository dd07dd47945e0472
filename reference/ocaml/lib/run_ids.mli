(** The ids of new runs, which are names of directories. *)

val is_safe : string -> bool
(** [is_safe id] is [true] for 1 to [Tables.max_safe_run_id_chars] letters, digits, [.], [_] and [-], starting with a letter or digit. *)
