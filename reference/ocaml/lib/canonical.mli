(** Writes records in canonical form. *)

exception Refused of string
(** The record is one that no reader would accept; nothing was written. *)

val is_date_time : string -> bool
(** [is_date_time text] is [true] for a date and time of RFC 3339 that exist, with a zone. *)

val has_characters : Tables.characters -> string -> bool
(** [has_characters form text] is [true] if as many characters as [form] allows are in [text], none of them excluded. *)

val encode : Profile.t -> Yojson.Safe.t -> string
(** [encode profile record] is the canonical line of a record, LF included. NaN and infinities become [null]. Strings are
    UTF-8. Raises {!Refused}. *)
