(** Appends records to one stream: one write for each record with its LF. *)

type t

(** What to do with a toy/v1 stream that is there: [Replace] moves it to [events.jsonl.prev], [Fail] refuses it, [Resume] goes
    on with a torn one and keeps its fragment in a side file. *)
type exist = Replace | Fail | Resume

exception Refused of string
(** The stream is there, complete, damaged, without a known format or not a regular file, or another writer has it; or the
    writer is closed. The text names the path. *)

val open_run : ?exist:exist -> ?clock:(unit -> float) -> ?calls:Syscalls.t -> string -> t
(** [open_run directory] opens a toy/v1 stream in [directory], which is made. [clock] gives seconds; the wall clock by default. *)

val append : ?clock:(unit -> float) -> ?calls:Syscalls.t -> string -> Profile.t -> t
(** [append path profile] opens a metrics/v1 or kaun/v1 stream and goes on at its end. [clock] gives seconds since the Unix
    epoch. *)

val write : t -> Yojson.Safe.t -> unit
(** [write w record] appends a record. A toy/v1 record without [t] gets the seconds since the start, a kaun/v1 scalar without
    [wall_time] the current time. Raises
    {!Canonical.Refused} for a record that no reader would accept; then the stream is as it was. Raises [Unix.Unix_error] with
    the path for one that could not be written; unless [w] is closed for good, later records are tried again. *)

val write_media : t -> Yojson.Safe.t -> string -> unit
(** [write_media w record content] writes a picture, a sound, a table or another file into the folder [media] of the bundle, and
    then the media record that names it. The record has [name] and [media_type]; its [sha256] follows from the content. Raises
    {!Canonical.Refused} for another one, and where [media] is not a folder of the bundle; then neither is written. *)

val finish : ?error:string -> ?reason:string -> t -> unit
(** [finish w] writes [run_end] with the last train step and its loss, unless the run has ended, and closes [w]. [reason] is
    ["completed"] by default. *)

val with_run : ?exist:exist -> ?clock:(unit -> float) -> ?calls:Syscalls.t -> string -> (t -> 'a) -> 'a
(** [with_run directory body] is [body w]. It ends the run: as completed, as interrupted by [Sys.Break], or as errored by
    another exception. *)

val dropped : t -> int
(** [dropped w] is the number of records that could not be written. *)

val is_closed : t -> bool
(** [is_closed w] is [true] where no record can be written any more. *)

val close : t -> unit
(** [close w] closes the stream and gives up its lock; a run without [run_end] stays torn. A stream that was created and has no record is
    removed. *)

val make_directories : string -> unit
(** [make_directories path] makes a directory and those above it where they are missing. *)
