(** Writes records in canonical form. *)

exception Refused of string
(** The record is one that no reader would accept; nothing was written. *)

val is_date_time : string -> bool
(** [is_date_time text] is [true] for a date and time of RFC 3339 that exist, with a zone. *)

val is_run_id : string -> bool
(** [is_run_id text] is [true] for 1 to 255 characters, none of them a slash or a control character. *)

val encode : Profile.t -> Yojson.Safe.t -> string
(** [encode profile record] is the canonical line of a record, LF included. NaN and infinities become [null]. Strings are
    UTF-8. Raises {!Refused}. *)
