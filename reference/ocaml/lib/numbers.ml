let to_binary32 x = Int32.float_of_bits (Int32.bits_of_float x)

(* 0.d1d2d3… times ten to the power of point *)
type decimal = { digits : string; point : int }

let rounded size count =
  let text = Printf.sprintf "%.*e" (count - 1) size in
  let e = String.index text 'e' in
  let digits = String.concat "" (String.split_on_char '.' (String.sub text 0 e)) in
  { digits; point = int_of_string (String.sub text (e + 1) (String.length text - e - 1) |> fun s -> if s.[0] = '+' then String.sub s 1 (String.length s - 1) else s) + 1 }

(* Adds a step to the last digit; all digits together fit into an int. *)
let neighbour d step =
  let count = String.length d.digits in
  let digits = string_of_int (int_of_string ("0u" ^ d.digits) + step) in
  { digits; point = d.point + String.length digits - count }

let text_of d = Printf.sprintf "%se%d" d.digits (d.point - String.length d.digits)

let trimmed d =
  let last = ref (String.length d.digits) in
  while !last > 1 && d.digits.[!last - 1] = '0' do decr last done;
  { d with digits = String.sub d.digits 0 !last }

(* The fewest digits that read back; of several the closest. *)
let shortest size ~narrow =
  let normal = size >= if narrow then 1.17549435e-38 else min_float in
  let kept, most = if narrow then (6, 9) else (15, 17) in
  let reads_back d =
    let x = float_of_string (text_of d) in
    if narrow then to_binary32 x = size else x = size
  in
  let rec search count =
    let near = rounded size count in
    if count = most then near
    else
      (* Below a power of two numbers lie closer: the right digits can be on the other side of the nearest. *)
      match List.find_opt reads_back [ near; neighbour near 1; neighbour near (-1) ] with
      | Some found -> found
      | None -> search (count + 1)
  in
  (* Of a normal number, as many digits as any decimal keeps show every shorter form, with zeros after it. *)
  trimmed (search (if normal then kept else 1))

let layout d =
  let count = String.length d.digits in
  if d.point > 16 || d.point <= -5 then
    let rest = if count > 1 then "." ^ String.sub d.digits 1 (count - 1) else "" in
    Printf.sprintf "%c%se%d" d.digits.[0] rest (d.point - 1)
  else if d.point <= 0 then "0." ^ String.make (-d.point) '0' ^ d.digits
  else if d.point >= count then d.digits ^ String.make (d.point - count) '0' ^ ".0"
  else String.sub d.digits 0 d.point ^ "." ^ String.sub d.digits d.point (count - d.point)

let text x ~narrow =
  let sign = if Float.sign_bit x then "-" else "" in
  sign ^ if x = 0. then "0.0" else layout (shortest (Float.abs x) ~narrow)

let binary64_text x = text x ~narrow:false
let binary32_text x = text (to_binary32 x) ~narrow:true
