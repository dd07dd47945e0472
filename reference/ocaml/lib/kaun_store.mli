(** Keeps the scalars of a run by their tags: history, latest and best, as the store of kaun-board does. *)

type t

val create : unit -> t

val update : t -> Kaun_scalar.t list -> unit
(** [update store scalars] takes in scalars, in the order of the stream. *)

val latest_epoch : t -> int option
(** [latest_epoch store] is the largest epoch of all scalars. *)

val latest_metrics : t -> (string * Kaun_scalar.t) list
(** [latest_metrics store] is, for each tag, the scalar with the largest step, of those with the largest epoch, of those the
    first; sorted by tag. *)

val best_metrics : t -> (string * Kaun_scalar.t) list
(** [best_metrics store] is {!best_for_tag} for each tag that has one; sorted by tag. *)

val history_for_tag : t -> string -> Kaun_scalar.t list
(** [history_for_tag store tag] is all scalars of a tag in the order of the stream. *)

val best_for_tag : t -> string -> Kaun_scalar.t option
(** [best_for_tag store tag] is the first scalar with the smallest value where smaller is better, else with the largest:
    see {!Kaun_scalar.is_smaller_better}. What is not finite takes no part. *)

val clear : t -> unit
