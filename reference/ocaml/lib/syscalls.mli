(** The calls on files that can fail while a run is logged. Tests give others, which fail as disks do. *)

type t = {
  write : Unix.file_descr -> Bytes.t -> int -> int -> int;
      (** one call of the system at any length; the number of bytes that it took *)
  fsync : Unix.file_descr -> unit;
  ftruncate : Unix.file_descr -> int -> unit;
  lock : Unix.file_descr -> bool;  (** [false] where another writer has the file; [true] also where there are no locks *)
}

val system : t
(** The calls of the operating system. *)

val pread : Unix.file_descr -> Bytes.t -> int -> int -> int
(** [pread descriptor bytes length at] reads at most [length] bytes at offset [at] into the start of [bytes]. *)
