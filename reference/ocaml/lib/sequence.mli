(** Holds a toy/v1 stream to what its records owe to each other: [run_start] first and once, nothing behind [run_end], [t] and
    the steps of a phase never back. *)

type t

val create : unit -> t
(** [create ()] is the order of an empty stream. *)

val admit : t -> Yojson.Safe.t -> Yojson.Safe.t
(** [admit s record] is the record to be written, its [t] not smaller than the one before; raises {!Canonical.Refused}. *)

val note : t -> Yojson.Safe.t -> unit
(** [note s record] takes in a record that is in the stream. *)

val ended : t -> bool
val last : t -> float
(** [last s] is the [t] of the last record. *)
