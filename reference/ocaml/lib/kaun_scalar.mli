(** A scalar of kaun/v1: one value of one tag. *)

type t = {
  step : int;
  wall_time : float;  (** seconds since the Unix epoch *)
  tag : string;
  value : float;  (** NaN where it was not finite *)
  minimize : bool option;  (** whether smaller values are better; a key of this project, which kaun-board does not write *)
  epoch : int option;
}

val to_json : t -> Yojson.Safe.t
(** [to_json s] is the record to hand to {!Writer.write}. *)

val of_json : Yojson.Safe.t -> t option
(** [of_json record] is a scalar, as leniently as kaun-board reads it: an optional key of the wrong type is absent, a fraction
    of a step or epoch is cut off. [None] for another kind, and where step, tag or value is missing or wrong. *)

val is_smaller_better : string -> minimize:bool option -> bool
(** [is_smaller_better tag ~minimize] is the last [minimize] of the tag's scalars where there is one; else [true] for a tag
    with [loss] or [error] in it, in either case. *)
