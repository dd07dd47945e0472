(** The ids of new runs, which are names of directories. *)

val is_safe : string -> bool
(** [is_safe id] is [true] for 1 to 128 letters, digits, [.], [_] and [-], starting with a letter or digit. *)
