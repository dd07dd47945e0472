(** The runs of kaun-board: a manifest and a stream of scalars. *)

type manifest = {
  run_id : string;
  created_at : float;  (** seconds since the Unix epoch *)
  tags : string list;
  experiment : string option;
  config : (string * Yojson.Safe.t) list;
  total_epochs : int option;
}

type run = { directory : string; manifest : manifest }

val base : unit -> string
(** [base ()] is [$RAVEN_RUNS_DIR], else [$XDG_CACHE_HOME/raven/runs], else [~/.cache/raven/runs]. *)

val create : ?base:string -> ?experiment:string -> ?config:(string * Yojson.Safe.t) list -> ?tags:string list -> unit -> run
(** [create ()] makes the directory of a new run with its manifest and an empty stream. *)

val load : string -> run option
(** [load directory] is the run in [directory]; [None] where its manifest cannot be read. *)

val latest : string -> run option
(** [latest base] is the run whose directory has the greatest name, of those that load. *)

type scalar = {
  step : int;
  wall_time : float;  (** seconds since the Unix epoch *)
  tag : string;
  value : float;  (** NaN where it was not finite *)
  minimize : bool;
  epoch : int option;
}

val json_of_scalar : scalar -> Yojson.Safe.t
(** [json_of_scalar s] is the record to hand to {!Writer.write}. *)

(** {1 Reading what is new} *)

type events

val open_events : string -> events
(** [open_events directory] follows the stream of a run; it need not exist yet. *)

val read_events : events -> scalar list
(** [read_events e] is the scalars that were committed since the last call. A line without LF is kept until its LF comes; lines
    of another shape are skipped, those that are no JSON are noted in {!skipped}. It starts over when the path names another
    file, or the file is shorter than the position; a missing file gives nothing and forgets the position. *)

val skipped : events -> (int * string) list
(** [skipped e] is the offset and the reason of each line that was no JSON. *)

val last_modified : events -> float option
(** [last_modified e] is the time at which the stream was last written, in seconds since the Unix epoch. *)
