(** Appends records to one stream: one write for each record with its LF. *)

type t

(** What to do with a toy/v1 stream that is there: [Replace] moves it to [events.jsonl.prev], [Fail] refuses it, [Resume] goes
    on with a torn one and keeps its fragment in a file beside it. *)
type exist = Replace | Fail | Resume

exception Refused of string
(** The stream is there, complete, damaged or held by another writer; or the writer is closed. *)

val open_run : ?exist:exist -> ?clock:(unit -> float) -> string -> t
(** [open_run directory] opens a toy/v1 stream in [directory], which is made. [clock] gives seconds; the wall clock by default. *)

val append : string -> Profile.t -> t
(** [append path profile] opens a metrics/v1 or kaun/v1 stream and goes on at its end. *)

val write : t -> Yojson.Safe.t -> unit
(** [write w record] appends a record. A toy/v1 record without [t] gets the seconds since the start. Raises
    {!Canonical.Refused} for a record that no reader would accept; then the stream is as it was. *)

val close : t -> unit
(** [close w] lets go of the stream; a run without [run_end] stays torn. *)

val make_directories : string -> unit
(** [make_directories path] makes a directory and those above it where they are missing. *)
