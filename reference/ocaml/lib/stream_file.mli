(** The file of one stream, locked, open for appending. Each line is one write, and is in the file whole or not at all. *)

exception Refused of string
(** The file is not a regular one, another writer has it, or it was closed. The text names the path. *)

type t

val open_file : Syscalls.t -> string -> t
(** [open_file calls path] opens the file at [path], creates it where it is missing, and locks it. *)

val replace : Syscalls.t -> string -> t
(** [replace calls path] opens a new file at [path]. A file that is there and not empty moves to [path.prev]. *)

val path : t -> string
val size : t -> int
val is_closed : t -> bool

val closed_because : t -> string option
(** [closed_because f] is why [f] was closed for good, [None] where it was not. *)

val is_foreign : t -> bool
(** [is_foreign f] is [true] in a process that was forked from the one that opened [f]. *)

val is_at_path : t -> bool
(** [is_at_path f] is [true] while the path names this file. *)

val input : t -> bytes -> int -> int -> int
(** [input f] reads on from the last call, first from the start of the file; like {!Stdlib.input}. *)

val append : t -> string -> committed:(unit -> unit) -> unit
(** [append f line ~committed] writes a line with its LF, and calls [committed] once it is in the file. Raises
    [Unix.Unix_error] with the path: then nothing of the line is in the file, or [f] is closed for good. *)

val can_pass : exn -> bool
(** [can_pass error] is [true] where a later write may succeed, as after a full disk. *)

val move_fragment : t -> int -> string
(** [move_fragment f offset] moves the bytes from [offset] on to a side file, forces all to the disk, and is its path. *)

val copy_from : t -> t -> unit
(** [copy_from f other] appends all bytes of [other] to [f], and forces them to the disk. *)

val sync : t -> unit
(** [sync f] forces the file and its directory to the disk. A failure closes [f] for good: what was written may be lost. *)

val close : t -> unit

val close_for_good : t -> string -> unit
(** [close_for_good f reason] closes [f], and keeps the reason of the first such call. *)

val discard : t -> unit
(** [discard f] closes [f]. It removes a file that was created here and is still empty; an earlier stream moves back. *)

(** [is_created f] is true if there was no file before. *)
val is_created : t -> bool

val abandon : t -> unit
(** [abandon f] is [discard f] after everything was removed from the file. *)
