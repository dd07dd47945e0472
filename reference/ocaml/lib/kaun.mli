(** The runs of kaun-board: a directory with a manifest and a stream of scalars. *)

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

val create : ?base_dir:string -> ?experiment:string -> ?tags:string list -> ?config:(string * Yojson.Safe.t) list -> unit -> run
(** [create ()] makes the directory of a new run with its manifest and an empty stream. [base_dir] is [base ()] by default.
    [experiment] is any text; what is not safe in a name of a directory is [_] in the run id. *)

val load : string -> run option
(** [load directory] is the run in [directory]; [None] where its manifest cannot be read. *)

val latest : string -> run option
(** [latest base] is the run whose directory has the greatest name, of those that load. *)
