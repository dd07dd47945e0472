(** Profiles: which one a stream follows, and what it declares for a record. *)

type t = string
(** ["toy/v1"], ["metrics/v1"] or ["kaun/v1"]. *)

val table : t -> Tables.profile
(** [table profile] is what the schemas declare; raises [Not_found] for another name. *)

val member : ([> `Assoc of (string * 'a) list ] as 'a) -> string -> 'a option
(** [member json key] is the member of an object; of a repeated key the last. *)

val of_record : Yojson.Safe.t -> manifest:bool -> t option
(** [of_record record ~manifest] is the profile of a stream by its first readable record. [manifest] is [true] where the
    manifest of a kaun/v1 run is beside it. *)

val of_name : string -> manifest:bool -> gap:bool -> t option
(** [of_name name ~manifest ~gap] is the profile of a stream without a readable record. [name] is empty where it is not known. *)

val kind : t -> ([> `Assoc of (string * 'a) list | `String of string ] as 'a) -> string option
(** [kind profile record] is what the record declares to be. *)

val fields : t -> ([> `Assoc of (string * 'a) list | `String of string ] as 'a) -> Tables.field list option
(** [fields profile record] is the declared members of a record, [None] for an unknown kind. *)
