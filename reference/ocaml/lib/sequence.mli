(** Keeps the order of a toy/v1 stream: [run_start] first and once, [run_resume] first after a resumption, nothing after
    [run_end], and [t] and the steps of a phase never backwards. *)

type t

val create : unit -> t
(** [create ()] is the order of an empty stream. *)

val admit : t -> Yojson.Safe.t -> Yojson.Safe.t
(** [admit s record] is the record to be written, its [t] not smaller than the one before; raises {!Canonical.Refused}. *)

val note : t -> Yojson.Safe.t -> unit
(** [note s record] takes in a record that is in the stream. *)

val resume : t -> unit
(** [resume s] demands [run_resume] next, where the stream has a record. *)

val ended : t -> bool

val is_open : t -> bool
(** [is_open s] is [true] where a record of any kind may be next. *)

val last : t -> float
(** [last s] is the [t] of the last record. *)

val final : t -> (string * Yojson.Safe.t) list
(** [final s] is [final_step] and [final_loss] of [run_end]: those of the last train step. *)

val is_after : string -> string -> bool
(** [is_after a b] is [true] where the number with the digits [a] is larger than that with the digits [b]; none is negative. *)
