(** Reads the scalars of a run as they are written, without its lock. *)

type t

val open_events : string -> t
(** [open_events directory] follows the stream of a run; it need not exist yet. *)

val read_events : t -> Kaun_scalar.t list
(** [read_events e] is the scalars that were committed since the last call. A line without LF is kept until its LF comes; lines
    of another shape are skipped, those that are not JSON are noted in {!skipped}. It starts over when the path names another
    file, or the file is shorter than the position; a missing file gives nothing and forgets the position. *)

val close_events : t -> unit
(** [close_events e] lets later calls give nothing; the position is kept. *)

val skipped : t -> (int * string) list
(** [skipped e] is the offset and the reason of each line that was not JSON. *)

val last_mtime : t -> float option
(** [last_mtime e] is the time at which the stream was last written, in seconds since the Unix epoch. *)
