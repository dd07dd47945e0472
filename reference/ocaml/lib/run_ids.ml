let is_safe id =
  let is_alphanumeric c = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') in
  id <> "" && String.length id <= Tables.max_safe_run_id_chars && is_alphanumeric id.[0]
  && String.for_all (fun c -> is_alphanumeric c || c = '.' || c = '_' || c = '-') id
