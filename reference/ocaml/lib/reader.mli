(** Reads a whole stream: records in order, and an account of every byte that gave none. *)

(** What reading does with a stream that is not complete: [Strict] refuses it; [Tail] reports a torn end and refuses damage;
    [Prefix] stops at the first damage; [Salvage] skips it. *)
type mode = Strict | Tail | Prefix | Salvage

type state = Complete | Torn | Damaged

val state_name : state -> string

type record = {
  raw : string;  (** the line without its LF, as it is in the stream *)
  line : int;  (** from 1 *)
  offset : int;  (** byte offset of the line, from 0 *)
  kind : string option;  (** what the record declares to be *)
  value : Yojson.Safe.t;
      (** a repeated key is there as often as it was written; the last counts. An integer that was written [1.0] is one. *)
}

type gap = {
  at_line : int;
  at : int;  (** byte offset *)
  length : int;  (** the LF of a line included *)
  reason : string;  (** the rule that the line breaks, or ["stopped"] for what was left unread *)
}

(** The account of one reading: [committed + fragment + gap_bytes] is the size of the stream. *)
type report = {
  profile : Profile.t option;  (** [None] where the stream follows none *)
  state : state;
  records : int;
  committed : int;  (** bytes of readable and blank lines, with their LFs *)
  fragment : int;  (** bytes after the last LF *)
  gaps : gap list;  (** the first [Tables.max_listed_gaps], then what was left unread *)
  gap_bytes : int;
}

exception Refused_stream of { name : string; line : int; offset : int; reason : string; report : report }
(** The mode refuses the stream. *)

val read :
  ?mode:mode -> ?profile:Profile.t -> ?name:string -> ?manifest:bool -> ?max_line_bytes:int -> (bytes -> int -> int -> int) -> (record -> unit) -> report
(** [read input each] calls [each] for every record. [input] is like {!Stdlib.input}. [mode] is [Tail] by default; [profile] is
    detected where it is not given, with the help of [name], and of [manifest]: the manifest of a kaun/v1 run is beside it. Raises {!Refused_stream}. *)

val read_file : ?mode:mode -> ?profile:Profile.t -> ?max_line_bytes:int -> string -> (record -> unit) -> report
(** [read_file path each] is like {!read} for a stream or the directory of a bundle; raises [Sys_error] too. *)

val read_string : ?mode:mode -> ?profile:Profile.t -> ?name:string -> ?manifest:bool -> ?max_line_bytes:int -> string -> (record -> unit) -> report
(** [read_string text each] is like {!read} for the bytes of a stream. *)
