(** Integers that were written with a fraction or an exponent, such as [1.0] and [1e3]. *)

val of_float : float -> Yojson.Safe.t option
(** [of_float x] is the integer that [x] is, [None] for a fraction. *)

val settle : Tables.field list option -> Yojson.Safe.t -> Yojson.Safe.t
(** [settle fields record] has an integer for every whole number at a place that the schema declares as integer. *)

val in_record : Profile.t option -> Yojson.Safe.t -> Yojson.Safe.t
(** [in_record profile record] is {!settle} for a record. In metrics/v1 it changes nothing: its source refuses such integers. *)
