(** Decides whether values that were read have an error by their schema. Warnings, such as an unknown key, are not errors. *)

val is_valid : Tables.value -> Yojson.Safe.t -> bool
(** [is_valid t value] is [true] where [value] has no error. *)

val member : Tables.field list -> Yojson.Safe.t -> string -> Yojson.Safe.t option
(** [member fields record name] is a declared member where it is there and valid. *)

val is_complete : Tables.field list -> Yojson.Safe.t -> bool
(** [is_complete fields record] is [true] where all required members are there and valid. *)
