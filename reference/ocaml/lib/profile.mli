(** Profiles: which one a stream follows, and what it says of a record. *)

type t = string
(** ["toy/v1"], ["metrics/v1"] or ["kaun/v1"]. *)

val table : t -> Tables.profile
(** [table profile] is what the schemas say; raises [Not_found] for another name. *)

val member : ([> `Assoc of (string * 'a) list ] as 'a) -> string -> 'a option
(** [member json key] is the member of an object; of a repeated key the last. *)

val detect : ([> `Assoc of (string * 'a) list ] as 'a) -> fallback:t -> t
(** [detect record ~fallback] is the profile that the record shows by its keys, else [fallback]. *)

val of_name : string -> t
(** [of_name name] is the profile that the name of a stream's file tells. *)

val kind : t -> ([> `Assoc of (string * 'a) list | `String of string ] as 'a) -> string option
(** [kind profile record] is what the record declares to be. *)

val fields : t -> ([> `Assoc of (string * 'a) list | `String of string ] as 'a) -> Tables.field list option
(** [fields profile record] is the declared members of a record, [None] for an unknown kind. *)
