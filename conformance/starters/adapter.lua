-- Lets `toyspec conform` ask your emitter; the protocol is conformance/PROTOCOL.md. Edit HELLO and `write`.

local HELLO = '{"hello": {"protocol": 1, "name": "my-emitter", "language": "Lua", "version": "0.1", '
  .. '"roles": ["writer"], "profiles": ["toy/v1"], "revisions": ["1.3"], "lines": true, "capabilities": []}}'

local null = setmetatable({}, { __tostring = function() return "null" end })
local Array = {} -- the metatable of arrays; any other table is an object

-- Call refuse(WHY) in `write` if your emitter refuses a record.
local function refuse(why) error({ refused = why }) end

-- Returns the bytes that your emitter writes for the records. Numbers are numbers, NaN and infinities among them; the
-- digits of an integer beyond 2^53 are kept in { digits = "..." }. The `t` of a record is the time on the clock of the run.
local function write(records)
  error("still to do: call your emitter in `write` of adapter.lua", 0)
end

-- A value with the numbers that its tags stand for.
local function untagged(value)
  if type(value) ~= "table" or value == null then return value end
  local found = setmetatable({}, getmetatable(value))
  if getmetatable(value) ~= Array and next(value) ~= nil and next(value, next(value)) == nil then
    local tag, inner = next(value)
    if tag == "int" then return math.abs(tonumber(inner)) < 2 ^ 53 and tonumber(inner) or { digits = inner } end
    if tag == "float" or tag == "f32" then
      return ({ nan = 0 / 0, inf = 1 / 0, ["-inf"] = -1 / 0 })[inner] or tonumber(inner)
    end
    value = tag == "object" and inner or value
  end
  for key, item in pairs(value) do found[key] = untagged(item) end
  return found
end

local function utf8_of(point)
  if point < 0x80 then return string.char(point) end
  local tail, first = "", 0xc0
  for _, limit in ipairs({ 0x800, 0x10000, 0x110000 }) do
    tail = string.char(0x80 + point % 64) .. tail
    point = math.floor(point / 64)
    if point * 64 ^ #tail < limit then return string.char(first + point) .. tail end
    first = first == 0xc0 and 0xe0 or 0xf0
  end
end

local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- Reads what the runner sends, which is JSON without errors: returns a value and where it ends.
local function string_at(text, at)
  local parts = {}
  at = at + 1
  while true do
    local plain, stop = text:match('^([^"\\]*)()', at)
    parts[#parts + 1] = plain
    if text:sub(stop, stop) == '"' then return table.concat(parts), stop + 1 end
    local letter = text:sub(stop + 1, stop + 1)
    at = stop + 2
    if letter == "u" then
      local point = tonumber(text:sub(at, at + 3), 16)
      local low = text:match("^\\u(%x%x%x%x)", at + 4)
      at = at + 4
      if point >= 0xd800 and point < 0xdc00 and low then
        point = 0x10000 + (point - 0xd800) * 1024 + tonumber(low, 16) - 0xdc00
        at = at + 6
      end
      parts[#parts + 1] = utf8_of(point)
    else
      parts[#parts + 1] = ESCAPES[letter] or letter
    end
  end
end

local function value_at(text, at)
  at = text:match("^%s*()", at)
  local first = text:sub(at, at)
  if first == '"' then return string_at(text, at) end
  if first == "t" then return true, at + 4 end
  if first == "f" then return false, at + 5 end
  if first == "n" then return null, at + 4 end
  if first ~= "{" and first ~= "[" then
    local number, stop = text:match("^([%d.eE+-]+)()", at)
    return number, stop
  end
  local found = first == "[" and setmetatable({}, Array) or {}
  at = text:match("^%s*()", at + 1)
  while not text:find("^[%]}]", at) do
    local key = #found + 1
    if first == "{" then
      key, at = string_at(text, at)
      at = text:match("^%s*:()", at)
    end
    found[key], at = value_at(text, at)
    at = text:match("^%s*,?%s*()", at)
  end
  return found, at + 1
end

local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(bytes)
  return (bytes:gsub("..?.?", function(group)
    local one, two, three = group:byte(1, 3)
    local number = one * 65536 + (two or 0) * 256 + (three or 0)
    local found = ""
    for _ = 1, 4 do
      local place = number % 64 + 1
      found = LETTERS:sub(place, place) .. found
      number = (number - place + 1) / 64
    end
    return found:sub(1, #group + 1) .. ("="):rep(3 - #group)
  end))
end

local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("%c", " ") .. '"' end

-- What was written; or nothing, and why: no error ends the program.
local function answer(records)
  local is_done, found = pcall(function()
    local plain = {}
    for place, record in ipairs(records) do plain[place] = untagged(record) end
    return write(plain)
  end)
  if is_done then return found end
  return nil, type(found) == "table" and found.refused, tostring(found)
end

if arg[1] == "--oneshot" then
  local records = {}
  for line in io.lines() do records[#records + 1] = value_at(line, 1) end
  local stream, refused, problem = answer(records)
  if stream then io.write(stream) else io.stderr:write(refused or problem) end
  os.exit(stream and 0 or refused and 1 or 2)
end
io.write(HELLO, "\n")
io.flush()
if arg[1] == "--lines" then
  for line in io.lines() do
    local request = value_at(line, 1)
    local stream, refused, problem = answer(request.records)
    local found = stream and '"outcome": "written", "stream": "' .. base64(stream) .. '"'
      or refused and '"outcome": "refused", "reason": ' .. quoted(refused)
      or '"error": ' .. quoted(problem)
    io.write('{"id": ', request.id, ", ", found, "}\n")
    io.flush()
  end
end
