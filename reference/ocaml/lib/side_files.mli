(** The files beside a stream: earlier logs and fragments. None is ever deleted or overwritten. *)

val is_there : string -> bool
(** [is_there path] is [true] where the path names anything, a broken link too. *)

type moved
(** How to undo a move to [.prev]. *)

val keep_previous : string -> moved
(** [keep_previous path] renames a stream to [path.prev]; an earlier one first moves to the next free [path.prev-N]. The
    caller has the stream's lock. Raises [Unix.Unix_error]; then the files have their old names. *)

val restore_previous : string -> moved -> unit
(** [restore_previous path moved] gives the files their old names, where there is no stream at [path]. Raises nothing. *)

val keep_fragment : Syscalls.t -> string -> Unix.file_descr -> int -> string
(** [keep_fragment calls path stream offset] copies the bytes of an open stream from [offset] on to [path.torn-offset], or
    the first free one of [path.torn-offset-2], [-3], …; it syncs the copy and its directory. The result is its path.
    A copy that fails is removed. *)

val copy : Syscalls.t -> Unix.file_descr -> int -> Unix.file_descr -> unit
(** [copy calls source offset target] appends the bytes of [source] from [offset] on to [target]. *)

val sync_directory : Syscalls.t -> string -> unit
(** [sync_directory calls path] forces the entry of a file in its directory to the disk, where the system can do that. *)

val write_all : Syscalls.t -> Unix.file_descr -> Bytes.t -> int -> int -> unit
(** [write_all calls descriptor bytes offset length] writes a part of [bytes] by as many calls as the system needs. *)

val close_quietly : Unix.file_descr -> unit
(** [close_quietly descriptor] closes a file, of which nothing can be lost any more. *)
