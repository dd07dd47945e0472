(** SHA-256, as FIPS 180-4 defines it. The library of OCaml has none. *)

val hex : string -> string
(** [hex content] is the digest of [content] as 64 lower-case hexadecimal digits. *)
