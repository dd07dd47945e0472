(** The canonical text of numbers. *)


val to_binary32 : float -> float
(** [to_binary32 x] is the nearest binary32 number, ties to even. *)

val binary64_text : float -> string
(** [binary64_text x] is the shortest digits that read back to the finite [x], in the layout of the specification. *)

val binary32_text : float -> string
(** [binary32_text x] is like {!binary64_text} for the binary32 number nearest to [x]. *)
