(* Words of 32 bits are in native integers, which have 63. *)
let constants =
  [|
    0x428a2f98; 0x71374491; 0xb5c0fbcf; 0xe9b5dba5; 0x3956c25b; 0x59f111f1; 0x923f82a4; 0xab1c5ed5;
    0xd807aa98; 0x12835b01; 0x243185be; 0x550c7dc3; 0x72be5d74; 0x80deb1fe; 0x9bdc06a7; 0xc19bf174;
    0xe49b69c1; 0xefbe4786; 0x0fc19dc6; 0x240ca1cc; 0x2de92c6f; 0x4a7484aa; 0x5cb0a9dc; 0x76f988da;
    0x983e5152; 0xa831c66d; 0xb00327c8; 0xbf597fc7; 0xc6e00bf3; 0xd5a79147; 0x06ca6351; 0x14292967;
    0x27b70a85; 0x2e1b2138; 0x4d2c6dfc; 0x53380d13; 0x650a7354; 0x766a0abb; 0x81c2c92e; 0x92722c85;
    0xa2bfe8a1; 0xa81a664b; 0xc24b8b70; 0xc76c51a3; 0xd192e819; 0xd6990624; 0xf40e3585; 0x106aa070;
    0x19a4c116; 0x1e376c08; 0x2748774c; 0x34b0bcb5; 0x391c0cb3; 0x4ed8aa4a; 0x5b9cca4f; 0x682e6ff3;
    0x748f82ee; 0x78a5636f; 0x84c87814; 0x8cc70208; 0x90befffa; 0xa4506ceb; 0xbef9a3f7; 0xc67178f2;
  |]

let word x = x land 0xffffffff
let turned x bits = word ((x lsr bits) lor (x lsl (32 - bits)))

let schedule block =
  let w = Array.make 64 0 in
  for i = 0 to 15 do
    w.(i) <- word (Int32.to_int (String.get_int32_be block (4 * i)))
  done;
  for i = 16 to 63 do
    let low = turned w.(i - 15) 7 lxor turned w.(i - 15) 18 lxor (w.(i - 15) lsr 3) in
    let high = turned w.(i - 2) 17 lxor turned w.(i - 2) 19 lxor (w.(i - 2) lsr 10) in
    w.(i) <- word (w.(i - 16) + low + w.(i - 7) + high)
  done;
  w

let compressed state block =
  let w = schedule block in
  let v = Array.copy state in
  for i = 0 to 63 do
    let high = turned v.(4) 6 lxor turned v.(4) 11 lxor turned v.(4) 25 in
    let chosen = v.(4) land v.(5) lxor (lnot v.(4) land v.(6)) in
    let low = turned v.(0) 2 lxor turned v.(0) 13 lxor turned v.(0) 22 in
    let most = v.(0) land v.(1) lxor (v.(0) land v.(2)) lxor (v.(1) land v.(2)) in
    let first = v.(7) + high + chosen + constants.(i) + w.(i) in
    Array.blit v 0 v 1 7;
    v.(4) <- word (v.(4) + first);
    v.(0) <- word (first + low + most)
  done;
  Array.map2 (fun one other -> word (one + other)) state v

(* A one bit, zeros, and the length in bits, so that the whole is a multiple of 64 bytes. *)
let padded content =
  let length = String.length content in
  let tail = Bytes.make ((((length + 8) / 64) + 1) * 64 - length) '\000' in
  Bytes.set tail 0 '\x80';
  Bytes.set_int64_be tail (Bytes.length tail - 8) (Int64.of_int (8 * length));
  Bytes.unsafe_to_string tail

let hex content =
  let whole = String.length content / 64 * 64 in
  let rest = String.sub content whole (String.length content - whole) ^ padded content in
  let rec over text state at = if at >= String.length text then state else over text (compressed state (String.sub text at 64)) (at + 64) in
  let start = [| 0x6a09e667; 0xbb67ae85; 0x3c6ef372; 0xa54ff53a; 0x510e527f; 0x9b05688c; 0x1f83d9ab; 0x5be0cd19 |] in
  let rec blocks state at = if at >= whole then state else blocks (compressed state (String.sub content at 64)) (at + 64) in
  String.concat "" (List.map (Printf.sprintf "%08x") (Array.to_list (over rest (blocks start 0) 0)))
