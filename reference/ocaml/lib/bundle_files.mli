(** The files of a run beside its stream, by their names: streams of other ranks, and media. *)

val ranks : string -> int list
(** [ranks directory] is the ranks from 1 on that have a stream in the directory of a run, in order. Raises [Sys_error]. *)

val rank_file : int -> string
(** [rank_file rank] is the name of the stream of a rank, which {!Reader.read_file} reads in the directory of its run. *)

val leaves : string -> bool
(** [leaves path] is [true] where a path is absolute or has the part [..], on POSIX systems or on Windows. *)

val store : Syscalls.t -> directory:string -> digest:string -> media_type:string -> string -> unit
(** [store calls ~directory ~digest ~media_type content] writes a content into the folder [media] of a bundle, so that the file
    is whole under its name, or not there. Raises {!Canonical.Refused} where [media] is not a folder, and [Unix.Unix_error]. *)
