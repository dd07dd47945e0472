-- Writes training logs of toy/v1, in one file to copy into a project.
--
--     local toyspec = require("toyspec_emitter")
--     local run = toyspec.run("runs/demo")
--     run:start({ config = { lr = 3e-4 } })
--     for step = 1, 100 do run:step(step, { loss = 2.5 }) end
--     run:finish()
--
-- A call returns true when its record is in the file, whatever happens to the process afterwards. It raises nothing into
-- the training: it returns false, `run.error` says why, and the first failure is printed on standard error. Needs Lua 5.3
-- and a POSIX system. Lua has no file locks: within a process a stream is opened once, but nothing keeps another process
-- from writing to it. Directories, syncs and cuts are made by the programs mkdir, sync and truncate; no record but the
-- first and the last starts one. Without LuaSocket, times are whole seconds. A limit of file size ends Lua by a signal.
-- SPDX-License-Identifier: Apache-2.0

local toyspec = {}
local Run = {}
Run.__index = Run

local MAX_LINE_BYTES, MAX_DEPTH, MAX_TRIES = 16777216, 64, 100
local STEP_KEYS = {}
for key in ("loss ppl lr grad_norm tokens compute_us wall_us token_id logprob mtp_loss"):gmatch("%S+") do STEP_KEYS[key] = true end

local has_socket, socket = pcall(require, "socket")
local clock = has_socket and socket.gettime or os.time
local held = {} -- the streams that this process holds, so that no two runs write to one file
local ARRAY = {}

--- Null in a record: nil in a table would be no member at all.
toyspec.null = setmetatable({}, { __tostring = function() return "null" end })

--- Marks a table as an array, which an empty one is not by itself.
function toyspec.array(items) return setmetatable(items, ARRAY) end

local function refuse(...) error({ fact = string.format(...) }, 0) end

local function report(fact) pcall(function() io.stderr:write("toyspec: ", fact, "\n") end) end

local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local function shell(command, path) return os.execute(command .. " " .. quoted(path) .. " 2>/dev/null") == true end

local function sync(path, directory)
  if not shell("sync --", path) then refuse("a sync failed") end
  local pipe = io.popen("LC_ALL=C sync -- " .. quoted(directory) .. " 2>&1")
  local said = pipe:read("a")
  -- Some file systems cannot sync a directory.
  if not pipe:close() and not said:find("Invalid argument", 1, true) then refuse("a sync failed") end
end

local function size_at(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local size = file:seek("end")
  file:close()
  return size
end

local function is_there(path) return shell("test -e", path) or shell("test -L", path) end

--- Returns the name, or the first of its numbered siblings that is not there.
local function free(name, first, stem)
  local number, stem = first, stem or name
  while is_there(name) do name, number = stem .. "-" .. number, number + 1 end
  return name
end

local function rename(from, to)
  local is_done, fact = os.rename(from, to)
  if not is_done then refuse("%s", fact) end
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function text_json(text)
  if not utf8.len(text) then refuse("text is not UTF-8") end
  return '"' .. text:gsub('[%c"\\]', function(sign) return ESCAPES[sign] or string.format("\\u%04x", sign:byte()) end) .. '"'
end

--- Returns the shortest digits that read back as the same number.
local function number_json(number)
  if math.type(number) == "integer" then return string.format("%d", number) end
  if number ~= number or number == math.huge or number == -math.huge then refuse("a number that is not finite cannot be written here") end
  for digits = 15, 17 do
    local text = string.format("%." .. digits .. "g", number)
    if tonumber(text) == number then return (text:gsub(",", ".")) end
  end
end

local function json(value, depth)
  if depth == 0 then refuse("a record is nested more than %d levels deep", MAX_DEPTH) end
  local kind = type(value)
  if value == toyspec.null then return "null" end
  if kind == "string" then return text_json(value) end
  if kind == "number" then return number_json(value) end
  if kind == "boolean" then return tostring(value) end
  if kind ~= "table" then refuse("a %s cannot be written as JSON", kind) end
  local parts, count = {}, 0
  for _ in pairs(value) do count = count + 1 end
  if getmetatable(value) == ARRAY or (count > 0 and #value == count) then
    if #value ~= count then refuse("an array has a gap, or names") end
    for at, item in ipairs(value) do parts[at] = json(item, depth - 1) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  local names = {}
  for name in pairs(value) do
    if type(name) ~= "string" then refuse("a table has names and numbers, or gaps") end
    names[#names + 1] = name
  end
  table.sort(names)
  for at, name in ipairs(names) do parts[at] = text_json(name) .. ":" .. json(value[name], depth - 1) end
  return "{" .. table.concat(parts, ",") .. "}"
end

--- Returns a record as a line, what readers look for first; raises for what cannot be written unchanged.
local function line_of(record)
  if type(record.kind) ~= "string" then refuse("a record needs a kind") end
  local step = record.step
  if step ~= nil and not (math.type(step) == "integer" and step >= 0 and step < 2 ^ 53) then
    refuse("step must be an integer from 0 to 2^53 - 1, not %s", tostring(step):sub(1, 40))
  end
  local parts, rest = {}, {}
  for name, value in pairs(record) do rest[name] = value end
  for _, name in ipairs({ "kind", "schema", "t", "run_id", "phase", "step" }) do
    if rest[name] ~= nil then parts[#parts + 1] = text_json(name) .. ":" .. json(rest[name], MAX_DEPTH) end
    rest[name] = nil
  end
  if next(rest) then parts[#parts + 1] = json(rest, MAX_DEPTH + 1):sub(2, -2) end
  local line = "{" .. table.concat(parts, ",") .. "}\n"
  if #line > MAX_LINE_BYTES then refuse("a line has %d bytes; at most %d can be read", #line, MAX_LINE_BYTES) end
  return line
end

local parse

local function parse_text(line, at)
  local from = at + 1
  while true do
    local stop = line:find('[%c"\\]', from)
    local sign = stop and line:sub(stop, stop)
    if sign == '"' then return line:sub(at + 1, stop - 1), stop + 1 end
    if sign ~= "\\" then error("no text") end
    if not line:find('^["\\/bfnrt]', stop + 1) and not line:find("^u%x%x%x%x", stop + 1) then error("no escape") end
    from = stop + 2
  end
end

local function parse_members(line, at, close, is_object)
  local found = {}
  at = line:match("^%s*()", at + 1)
  if line:sub(at, at) == close then return found, at + 1 end
  while true do
    local name
    if is_object then
      if line:sub(at, at) ~= '"' then error("no name") end
      name, at = parse_text(line, at)
      at = assert(line:match("^%s*:%s*()", at))
    end
    local value
    value, at = parse(line, at)
    if is_object then found[name] = value end
    local sign, after = line:match("^%s*([,%]}])%s*()", at)
    if sign == close then return found, line:match("^%s*" .. "%" .. close .. "()", at) end
    if sign ~= "," then error("no end") end
    at = after
  end
end

--- Returns the value at a place of a line and the place after it; raises for what is not JSON.
parse = function(line, at)
  local sign = line:sub(at, at)
  if sign == '"' then return parse_text(line, at) end
  if sign == "{" then return parse_members(line, at, "}", true) end
  if sign == "[" then return parse_members(line, at, "]", false) end
  for word, value in pairs({ ["true"] = true, ["false"] = false, ["null"] = toyspec.null }) do
    if line:sub(at, at + #word - 1) == word then return value, at + #word end
  end
  local number = line:match("^-?%d+%.?%d*[eE]?[-+]?%d*", at)
  if not number or number:find("^-?0%d") or number:find("%.%D") or number:find("[.eE+-]$") or not tonumber(number) then error("no value") end
  return tonumber(number), at + #number
end

local function parsed(line)
  local is_json, value, after = pcall(parse, line, line:match("^%s*()"))
  if is_json and line:find("^%s*{") and line:find("^%s*$", after) and utf8.len(line) then return value end
  refuse("a line is damaged; `toyspec check` says where")
end

--- Returns the values as they are written: null for what is not finite, whose word goes into `nonfinite`.
local function finite(values, prefix, nonfinite)
  local kept = {}
  for name, value in pairs(values) do
    if type(value) == "boolean" then value = value and 1 or 0 end
    if type(value) == "number" and (value ~= value or value == math.huge or value == -math.huge) then
      nonfinite[prefix .. name] = value ~= value and "nan" or value > 0 and "inf" or "-inf"
      value = toyspec.null
    end
    kept[name] = value
  end
  return kept
end

local function some(members) return next(members) and members or nil end

local function with(record, members)
  for name, value in pairs(members or {}) do record[name] = value end
  return record
end

function Run:_do(action)
  local is_done, problem = pcall(action)
  if is_done then return true end
  self.error = self.path .. ": " .. (type(problem) == "table" and problem.fact or tostring(problem))
  if not self._was_reported then report(self.error .. "; this call wrote nothing") end
  self._was_reported = true
  return false
end

function Run:_t()
  self._last_t = math.max(self._last_t, math.floor((clock() - self._origin) * 1e6 + 0.5) / 1e6)
  return self._last_t
end

--- Takes in the last step and time of the stream; raises unless it is toy/v1 and not damaged.
function Run:_scan()
  local file = assert(io.open(self.path, "rb"))
  local bytes = file:read("a")
  file:close()
  local stop = bytes:match(".*\n()") or 1
  self._fragment, self._size = bytes:sub(stop), stop - 1
  local is_first = true
  for line in bytes:sub(1, stop - 1):gmatch("([^\n]*)\n") do
    if line:find("%S") then
      local record = parsed(line)
      if is_first and (record.kind ~= "run_start" or (record.schema or "toy/v1") ~= "toy/v1") then refuse("the stream is not of toy/v1") end
      is_first = false
      if record.kind == "step" and math.type(record.step) then self.last_step = record.step end
      if math.type(record.t) then self._last_t = math.max(self._last_t, record.t) end
    end
  end
  self._origin = clock() - self._last_t
end

--- Opens the stream that is there, and reads what a resumption needs; changes nothing in it.
function Run:_open(exist)
  if not shell("mkdir -p --", self.directory) then refuse("cannot create the directory") end
  if held[self.path] then refuse("another writer of this process holds this stream") end
  if is_there(self.path) then
    if exist == "fail" then refuse("there is a stream already; resume it, replace it, or use another directory") end
    if not shell("test -f", self.path) then refuse("this is not a regular file") end
    if exist == "resume" then self:_scan() end
  end
  self._is_open, held[self.path] = true, true
end

--- Opens the file for appending; each write is one call of the system.
function Run:_append_to(path)
  local file, fact = io.open(path, "a+b")
  if not file then refuse("%s", fact) end
  file:setvbuf("no")
  return file
end

--- Writes the first record of this process; if that fails, every file is as it was.
function Run:_begin(first)
  if not self._is_open or self._is_begun then refuse(self._is_open and "the run has begun" or "the stream is not open") end
  local line, undo = line_of(first), {}
  local is_done, problem = pcall(function()
    if first.kind == "run_start" and (size_at(self.path) or 0) > 0 then
      if self._exist ~= "replace" then refuse("the stream has records; resume it") end
      self:_keep(undo)
    end
    if not is_there(self.path) then undo[#undo + 1] = function() os.remove(self.path) end end
    if #self._fragment > 0 then self:_move_fragment() end
    self._file = self:_append_to(self.path)
    self:_append(line, true)
  end)
  if not is_done then
    if self._file then self._file:close() end
    self._file = nil
    for at = #undo, 1, -1 do undo[at]() end
    error(problem, 0)
  end
  self._is_begun, self._fragment = true, ""
end

--- Renames the file at the path to `.prev`, and an earlier one of that name to the first free `.prev-N`.
function Run:_keep(undo)
  local previous = self.path .. ".prev"
  if is_there(previous) then
    local older = free(previous .. "-1", 1, previous)
    rename(previous, older)
    undo[#undo + 1] = function() os.rename(older, previous) end
  end
  rename(self.path, previous)
  undo[#undo + 1] = function() os.rename(previous, self.path) end
end

--- Copies the bytes after the last LF to a side file, then cuts them off.
function Run:_move_fragment()
  local side = free(self.path .. ".torn-" .. self._size, 2)
  local is_done, problem = pcall(function()
    local copy = self:_append_to(side)
    local is_written = copy:write(self._fragment)
    copy:close()
    if not is_written then refuse("the fragment cannot be copied") end
    sync(side, self.directory)
    if not self:_cut(self._size) then refuse("the fragment cannot be cut off") end
  end)
  if is_done then return end
  os.remove(side)
  error(problem, 0)
end

function Run:_cut(size) return shell("truncate -s " .. size .. " --", self.path) end

--- Writes a line whole, or takes back what was written of it; where that fails, closes the stream.
function Run:_append(line, is_synced)
  local begin = self._file:seek("end")
  local arrived, tries, fact = 0, 0, "not all bytes could be written"
  while arrived < #line and tries < MAX_TRIES do
    local is_written, said, number = self._file:write(line:sub(arrived + 1))
    local now = self._file:seek("end") - begin
    tries = now > arrived and 0 or tries + 1
    arrived = now
    if not is_written then fact = said end
    if not is_written and number ~= 4 or arrived < 0 or arrived > #line then break end -- 4 is EINTR
  end
  if arrived ~= #line then
    -- Only bytes of this line are removed: another process may have appended to the file, or emptied it.
    if arrived > 0 then
      self._file:seek("set", begin)
      local is_ours = arrived < #line and self._file:read(arrived) == line:sub(1, arrived)
      if not (is_ours and self:_cut(begin)) then self:close() end
    end
    refuse("%s", fact)
  end
  if is_synced then sync(self.path, self.directory) end
end

function Run:_write(record, is_synced)
  if not self._is_begun or not self._file then refuse("the run is not open; call start() or resume() first") end
  local line = line_of(record)
  self:_follow_path()
  local is_done, problem = pcall(self._append, self, line, is_synced)
  if not is_done then
    self.dropped, self._unsaid = self.dropped + 1, self._unsaid + 1
    error(problem, 0)
  end
  if record.kind == "step" then self.last_step = record.step end
  if self._unsaid == 0 or not self._file then return end
  local text = self._unsaid .. " records were dropped: they could not be written"
  local note = { kind = "note", t = self:_t(), text = text, topic = "left-out", dropped = { record = self._unsaid } }
  -- The next record that fits tries again.
  if pcall(self._append, self, line_of(note), false) then self._unsaid = 0 end
end

--- Starts the stream again at its path if another file, or none, is there: as far as sizes show it.
function Run:_follow_path()
  local mine = self._file:seek("end")
  if size_at(self.path) == mine then return end
  report(self.path .. " was moved away; it is started again with its records")
  self._file:seek("set", 0)
  local bytes = self._file:read("a"):match(".*\n") or ""
  shell("mkdir -p --", self.directory)
  if is_there(self.path) then self:_keep({}) end
  local again = self:_append_to(self.path)
  again:write(bytes)
  self._file:close()
  self._file = again
end

--- Writes `run_start` with metadata such as `config` and `model`; call it before computing.
function Run:start(metadata)
  return self:_do(function()
    local first = { kind = "run_start", schema = "toy/v1", t = self:_t(), run_id = self.run_id }
    first.started_at = os.date("!%Y-%m-%dT%H:%M:%SZ")
    self:_begin(with(first, metadata))
  end)
end

--- Goes on after `from_step`, by default the last step in the file; without a record to resume, starts the run.
function Run:resume(from_step)
  if self._is_open and self._size == 0 then return self:start() end
  return self:_do(function() self:_begin({ kind = "run_resume", t = self:_t(), from_step = from_step or self.last_step }) end)
end

--- Writes one step of the training, such as `run:step(5, { loss = 2.5, lr = 3e-4 })`; other names go into `extra`.
function Run:step(step, values)
  return self:_do(function()
    local own, extra, nonfinite = {}, {}, {}
    for name, value in pairs(values or {}) do (STEP_KEYS[name] and own or extra)[name] = value end
    local record = finite(own, "", nonfinite)
    record.extra = some(finite(extra, "extra/", nonfinite))
    record.nonfinite = some(nonfinite)
    self:_write(with(record, { kind = "step", phase = "train", t = self:_t(), step = step }))
  end)
end

--- Writes values by name, such as `run:log({ ["val/acc"] = 0.5 }, 5)`, at a step or without one.
function Run:log(values, step)
  return self:_do(function()
    local nonfinite = {}
    local kept = finite(values, "", nonfinite)
    self:_write({ kind = "scalars", t = self:_t(), step = step, values = kept, nonfinite = some(nonfinite) })
  end)
end

--- Writes a note.
function Run:note(text, members)
  return self:_do(function() self:_write(with({ kind = "note", t = self:_t(), text = text }, members)) end)
end

--- Writes any record of toy/v1; `t` is filled in.
function Run:write(record)
  return self:_do(function() self:_write(with({ t = self:_t() }, record)) end)
end

--- Writes `run_end` and closes the stream. The reason is completed, interrupted, aborted or errored.
function Run:finish(reason, members)
  local is_done = self:_do(function()
    local last = self.last_step > 0 and self.last_step or nil
    self:_write(with({ kind = "run_end", t = self:_t(), reason = reason or "completed", final_step = last }, members), true)
  end)
  self:close()
  return is_done
end

--- Closes the stream without a record.
function Run:close()
  if self._file then self._file:close() end
  if self._is_open then held[self.path] = nil end
  self._file, self._is_open = nil, false
end

--- Returns the run in a directory, whose stream is `events.jsonl`. `options.exist` says what happens to one that is there:
--- "replace" keeps it as `events.jsonl.prev`, "fail" refuses it, and "resume" goes on with it. `options.run_id` is the name
--- of the directory by default.
function toyspec.run(directory, options)
  options = options or {}
  local self = setmetatable({
    directory = directory, path = directory .. "/events.jsonl", run_id = options.run_id or directory:match("([^/]+)/*$"),
    dropped = 0, last_step = 0, _exist = options.exist or "replace", _fragment = "", _size = 0, _last_t = 0, _unsaid = 0,
    _origin = clock(),
  }, Run)
  self:_do(function() self:_open(self._exist) end)
  return self
end

return toyspec
