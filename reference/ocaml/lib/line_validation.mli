(** Checks one line as bytes and as JSON, strictly: Yojson accepts comments, NaN and more. *)

val is_blank : string -> bool
(** [is_blank line] is [true] when the line holds nothing but JSON white space. *)

val is_utf8 : string -> bool
(** [is_utf8 text] is [true] for well-formed UTF-8. *)

val validate : string -> first:bool -> string option
(** [validate line ~first] is the first rule that makes a line unreadable, [None] for a readable one. The line is not blank and
    within the limit of length; [first] says that it begins the stream. A repeated key leaves a line readable. *)
