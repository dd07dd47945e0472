exception Stop of string

let is_space c = c = ' ' || c = '\t' || c = '\r' || c = '\n'
let is_blank line = String.for_all (fun c -> c = ' ' || c = '\t' || c = '\r') line
let is_digit c = c >= '0' && c <= '9'
let is_hex c = is_digit c || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')

let is_utf8 s =
  let n = String.length s in
  let byte i = if i < n then Char.code s.[i] else 0 in
  let rec go i =
    if i >= n then true
    else
      let lead = byte i in
      if lead < 0x80 then go (i + 1)
      else
        let more =
          if lead >= 0xC2 && lead < 0xE0 then 1 else if lead >= 0xE0 && lead < 0xF0 then 2 else if lead >= 0xF0 && lead < 0xF5 then 3 else 0
        in
        let low = if lead = 0xE0 then 0xA0 else if lead = 0xF0 then 0x90 else 0x80 in
        let high = if lead = 0xED then 0x9F else if lead = 0xF4 then 0x8F else 0xBF in
        let continues k = byte (i + k) land 0xC0 = 0x80 in
        more > 0 && byte (i + 1) >= low && byte (i + 1) <= high
        && (more < 2 || continues 2) && (more < 3 || continues 3)
        && go (i + more + 1)
  in
  go 0

type scanner = { text : string; mutable at : int; mutable problem : string option }

let peek s = if s.at < String.length s.text then s.text.[s.at] else '\000'
let invalid () = raise (Stop "invalid-json")
let note s rule = if s.problem = None then s.problem <- Some rule
let skip_space s = while s.at < String.length s.text && is_space s.text.[s.at] do s.at <- s.at + 1 done

let word s word =
  let n = String.length word in
  if s.at + n > String.length s.text || String.sub s.text s.at n <> word then invalid ();
  s.at <- s.at + n

let digits s =
  if not (is_digit (peek s)) then invalid ();
  while is_digit (peek s) do s.at <- s.at + 1 done

let number s =
  let start = s.at in
  if peek s = '-' then s.at <- s.at + 1;
  if peek s = '0' then s.at <- s.at + 1 else digits s;
  if peek s = '.' then (s.at <- s.at + 1; digits s);
  if peek s = 'e' || peek s = 'E' then begin
    s.at <- s.at + 1;
    if peek s = '+' || peek s = '-' then s.at <- s.at + 1;
    digits s
  end;
  if Float.abs (float_of_string (String.sub s.text start (s.at - start))) = infinity then note s "non-finite-number"

let string s =
  s.at <- s.at + 1;
  (* True where the escape before this place is the first half of a pair. *)
  let high = ref false in
  let plain () = if !high then (note s "lone-surrogate"; high := false) in
  let rec go () =
    match peek s with
    | '"' -> plain (); s.at <- s.at + 1
    | c when c < ' ' -> invalid ()
    | '\\' ->
      s.at <- s.at + 1;
      if peek s = 'u' then begin
        if s.at + 4 >= String.length s.text then invalid ();
        let hex = String.sub s.text (s.at + 1) 4 in
        if not (String.for_all is_hex hex) then invalid ();
        let code = int_of_string ("0x" ^ hex) in
        let low = code >= 0xDC00 && code < 0xE000 in
        if !high <> low then note s "lone-surrogate";
        high := code >= 0xD800 && code < 0xDC00;
        s.at <- s.at + 5
      end
      else begin
        plain ();
        if not (String.contains "\"\\/bfnrt" (peek s)) then invalid ();
        s.at <- s.at + 1
      end;
      go ()
    | _ -> plain (); s.at <- s.at + 1; go ()
  in
  go ()

let scalar s =
  match peek s with
  | '"' -> string s
  | 't' -> word s "true"
  | 'f' -> word s "false"
  | 'n' -> word s "null"
  | 'N' -> word s "NaN"; note s "non-finite-number"
  | 'I' -> word s "Infinity"; note s "non-finite-number"
  | '-' when s.at + 1 < String.length s.text && s.text.[s.at + 1] = 'I' -> word s "-Infinity"; note s "non-finite-number"
  | c when c = '-' || is_digit c -> number s
  | _ -> invalid ()

let key s =
  skip_space s;
  if peek s <> '"' then invalid ();
  string s;
  skip_space s;
  if peek s <> ':' then invalid ();
  s.at <- s.at + 1;
  skip_space s

(* No level is deeper than the limit, so recursion is bounded. *)
let rec value s depth =
  match peek s with
  | ('{' | '[') as bracket ->
    if depth = Tables.max_depth then raise (Stop "nested-too-deep");
    s.at <- s.at + 1;
    let closing = if bracket = '{' then '}' else ']' in
    skip_space s;
    if peek s = closing then s.at <- s.at + 1 else members s (depth + 1) closing
  | _ -> scalar s

and members s depth closing =
  if closing = '}' then key s;
  value s depth;
  skip_space s;
  match peek s with
  | ',' -> s.at <- s.at + 1; skip_space s; members s depth closing
  | c when c = closing -> s.at <- s.at + 1
  | _ -> invalid ()

let scan text =
  let s = { text; at = 0; problem = None } in
  try
    skip_space s;
    let is_object = peek s = '{' in
    value s 0;
    skip_space s;
    if s.at < String.length text then invalid ();
    if is_object then s.problem else Some "not-an-object"
  with Stop rule -> Some rule

let starts_with_mark line = String.length line >= 3 && String.sub line 0 3 = "\xEF\xBB\xBF"

let validate line ~first =
  if first && starts_with_mark line then Some "byte-order-mark"
  else if String.contains line '\000' then Some "nul-bytes"
  else if not (is_utf8 line) then Some "invalid-utf8"
  else scan line
