(** The latest attempt of a toy/v1 run: a [run_resume] replaces the earlier events of train steps after its [from_step]. *)

val own_phase : Reader.record list -> string
(** [own_phase records] is the run's own phase: that of the first [run_start] where it is valid, else train. *)

val phase : own:string -> Reader.record -> string
(** [phase ~own record] is the phase that a record states where that is valid, else [own]. *)

val member : Reader.record -> string -> Yojson.Safe.t option
(** [member record name] is a member of a record of a known kind where it is there and valid. *)

val latest : Reader.record list -> Reader.record list
(** [latest records] is the latest attempt, in order, of all records of a stream. *)
