(** Logs the scalars of a new run, with the calls of kaun-board. *)

type t

val create : ?base_dir:string -> ?experiment:string -> ?tags:string list -> ?config:(string * Yojson.Safe.t) list -> unit -> t
(** [create ()] makes a run as {!Kaun.create} does, and opens its stream. Raises [Unix.Unix_error], [Sys_error] or
    {!Writer.Refused} where that is not possible. *)

val scalars : t -> step:int -> ?epoch:int -> (string * float) list -> unit
(** [scalars log ~step pairs] writes a scalar for each tag and value. What the system cannot write does not stop the training:
    it is reported once on standard error. Raises {!Canonical.Refused} for what is not a scalar, such as a negative step. *)

val run_id : t -> string
val run_dir : t -> string

val close : t -> unit
(** [close log] closes the stream and gives up its lock; later calls write nothing. *)
