(** The views of a run, as the chapter Views of the specification defines them: final loss, loss curve and others. *)

(** One value of a tag of kaun/v1; [None] as value is one that was not finite. *)
type point = { step : string;  (** digits *) epoch : string option; value : float option }

type tag = { count : int; latest : point; best : point option }

(** The stream of one process of a run. *)
type rank = { rank : int; state : Reader.state; steps : string;  (** digits *) last_step : string option; reason : string option }

type view =
  | Text of string
  | Integer of string  (** digits *)
  | Number of float option  (** [None] was not finite *)
  | Narrow of float option  (** a binary32 number *)
  | Numbers of float option list
  | Narrows of float option list
  | Tags of (string * tag) list
  | Ranks of rank list

val of_records : ?directory:string -> Profile.t option -> Reader.record list -> (string * view) list
(** [of_records profile records] is the views of all records of a stream by their names. A view that has no value is absent.
    [directory] is that of a bundle. *)

val of_file : ?profile:Profile.t -> ?max_line_bytes:int -> string -> (string * view) list * Reader.report
(** [of_file path] is the views of a stream or of the directory of a bundle, then with those of its ranks. *)

val of_string : ?profile:Profile.t -> ?name:string -> ?max_line_bytes:int -> string -> (string * view) list * Reader.report
(** [of_string text] is the views of the bytes of a stream. *)
