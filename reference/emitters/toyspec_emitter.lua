-- Writes training logs of toy/v1, in one file to copy into a project. LuaJIT 2.1 on Linux, nothing else.
--
--     local toyspec = require("toyspec_emitter")
--     local run = toyspec.run("runs/demo")
--     run:start({ config = { lr = 3e-4 } })
--     for step = 1, 100 do run:step(step, { loss = 2.5 }) end
--     run:finish()
--
-- A call returns true when its record is in the file, whatever happens to the process afterwards. It raises nothing into
-- the training but the interrupt of Ctrl-C: it returns false, `run.error` says why, and the first failure is printed on
-- standard error. No call waits for a lock or a thread. It calls the C library by `ffi`, which plain Lua does not have.
-- SPDX-License-Identifier: Apache-2.0

if not jit then
  error("toyspec_emitter.lua needs LuaJIT 2.1, this is " .. _VERSION .. ": it calls the C library by ffi; run it by luajit", 0)
end
local bit, ffi = require("bit"), require("ffi")
local C = ffi.C

-- Prefixed names, so that declarations of other modules cannot conflict with these.
ffi.cdef([[
int toyspec_open(const char *path, int flags, ...) __asm__("open");
int toyspec_close(int file) __asm__("close");
intptr_t toyspec_write(int file, const char *bytes, size_t count) __asm__("write");
intptr_t toyspec_pread(int file, char *bytes, size_t count, int64_t offset) __asm__("pread");
int toyspec_ftruncate(int file, int64_t size) __asm__("ftruncate");
int toyspec_fsync(int file) __asm__("fsync");
int toyspec_flock(int file, int operation) __asm__("flock");
int toyspec_fcntl(int file, int command, ...) __asm__("fcntl");
int toyspec_statx(int folder, const char *path, int flags, unsigned mask, void *found) __asm__("statx");
int toyspec_rename(const char *from, const char *to) __asm__("rename");
int toyspec_unlink(const char *path) __asm__("unlink");
int toyspec_mkdir(const char *path, unsigned mode) __asm__("mkdir");
int toyspec_getpid(void) __asm__("getpid");
void *toyspec_opendir(const char *path) __asm__("opendir");
void *toyspec_readdir(void *folder) __asm__("readdir64");
int toyspec_closedir(void *folder) __asm__("closedir");
char *toyspec_getcwd(char *path, size_t size) __asm__("getcwd");
char *toyspec_strerror(int number) __asm__("strerror");
int toyspec_clock_gettime(int clock, void *time) __asm__("clock_gettime");
void *toyspec_signal(int number, void *handler) __asm__("signal");
]])
local Stat = ffi.typeof([[struct { uint32_t mask, block_size; uint64_t attributes; uint32_t links, user, group; uint16_t mode, gap;
  uint64_t inode, size, blocks, known; uint64_t times[8]; uint32_t own_major, own_minor, major, minor; uint64_t rest[14]; }]])
local Entry = ffi.typeof("struct { uint64_t inode; int64_t offset; uint16_t size; uint8_t kind; char name[256]; } *")
local Lock = ffi.typeof("struct { short kind, whence; int64_t start, length; int process; }")
local Time = ffi.typeof("struct { int64_t seconds, nanoseconds; }")
local O_RDONLY, O_RDWR, O_NEW, O_APPEND, O_NONBLOCK, O_CLOEXEC = 0, 2, 0xC0, 0x400, 0x800, 0x80000
local AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = -100, 0x100, 0x1000
local EINTR, EAGAIN, EACCES, EEXIST, EINVAL, ENOSPC = 4, 11, 13, 17, 22, 28
local TEMPORARY = { [EINTR] = true, [EAGAIN] = true, [27] = true, [ENOSPC] = true, [122] = true } -- too large; quota
local SIGXFSZ, IGNORED = 25, ffi.cast("void *", 1)

local toyspec = {}
local Run = {}
Run.__index = Run

local MAX_LINE_BYTES, MAX_DEPTH, MAX_TRIES = 16777216, 64, 100
local STEP_KEYS = {}
for key in ("loss ppl lr grad_norm tokens compute_us wall_us token_id logprob mtp_loss"):gmatch("%S+") do STEP_KEYS[key] = true end
local ARRAY = {}

--- Null in a record: nil in a table would be no member at all.
toyspec.null = setmetatable({}, { __tostring = function() return "null" end })

--- Marks a table as an array, which an empty one is not by itself.
function toyspec.array(items) return setmetatable(items, ARRAY) end

local function refuse(...) error({ fact = string.format(...) }, 0) end

--- Raises the error of the system, by default that of the last call.
local function fail(number)
  number = number or ffi.errno()
  error({ fact = ffi.string(C.toyspec_strerror(number)), number = number }, 0)
end

--- Calls a function while a limit of file size does not end the process.
local function without_signal(action, ...)
  local before = C.toyspec_signal(SIGXFSZ, IGNORED)
  local is_done, problem = pcall(action, ...)
  C.toyspec_signal(SIGXFSZ, before)
  if not is_done then error(problem, 0) end
end

local function report(fact)
  pcall(without_signal, function() io.stderr:write("toyspec: ", fact, "\n") end)
end

local function clock()
  local time = Time()
  C.toyspec_clock_gettime(1, time) -- monotonic
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

--- Returns what is at a path, nil if nothing is there; a link is followed unless flags say otherwise.
local function stat(path, flags)
  local found = Stat()
  if C.toyspec_statx(AT_FDCWD, path, flags or 0, 0x7FF, found) == 0 then return found end
end

local function stat_of(file)
  local found = Stat()
  if C.toyspec_statx(file, "", AT_EMPTY_PATH, 0x7FF, found) ~= 0 then fail() end
  return found
end

local function size_of(file) return tonumber(stat_of(file).size) end

local function is_there(path) return stat(path, AT_SYMLINK_NOFOLLOW) ~= nil end

local function is_regular(found) return bit.band(found.mode, 0xF000) == 0x8000 end

local function is_same(a, b) return a ~= nil and a.inode == b.inode and a.major == b.major and a.minor == b.minor end

local function open(path, flags)
  local file = C.toyspec_open(path, bit.bor(flags, O_CLOEXEC), ffi.cast("int", 438))
  if file < 0 then fail() end
  return file
end

--- Returns the path from the root, without `.` and `..`.
local function absolute(path)
  if path:sub(1, 1) ~= "/" then
    local here = C.toyspec_getcwd(ffi.new("char[4096]"), 4096)
    path = (here == nil and "." or ffi.string(here)) .. "/" .. path
  end
  local parts = {}
  for part in path:gmatch("[^/]+") do
    if part == ".." then parts[#parts] = nil elseif part ~= "." then parts[#parts + 1] = part end
  end
  return "/" .. table.concat(parts, "/")
end

local function make_directory(path)
  if path == "" or stat(path) or C.toyspec_mkdir(path, 511) == 0 or ffi.errno() == EEXIST then return end
  make_directory(path:match("^(.*)/"))
  if C.toyspec_mkdir(path, 511) ~= 0 and ffi.errno() ~= EEXIST then fail() end
end

local function sync(file)
  if C.toyspec_fsync(file) ~= 0 then fail() end
end

local function sync_directory(path)
  local folder = open(path, O_RDONLY)
  local is_done, problem = pcall(sync, folder)
  C.toyspec_close(folder)
  -- Some file systems cannot sync a directory.
  if not is_done and problem.number ~= EINVAL then error(problem, 0) end
end

--- Returns the bytes of a file from an offset on, at most a number of them.
local function read_all(file, offset, most)
  local parts, block = {}, ffi.new("char[?]", 1048576)
  while most > 0 do
    local count = tonumber(C.toyspec_pread(file, block, math.min(most, 1048576), offset))
    if count < 0 then fail() end
    if count == 0 then break end
    parts[#parts + 1], offset, most = ffi.string(block, count), offset + count, most - count
  end
  return table.concat(parts)
end

--- Writes bytes with one call, or with further ones where that was cut short.
local function write_all(file, bytes)
  local at, tries = 0, 0
  while at < #bytes do
    local count = tonumber(C.toyspec_write(file, ffi.cast("const char *", bytes) + at, #bytes - at))
    local number = count < 0 and ffi.errno() or ENOSPC
    at, tries = at + math.max(count, 0), count > 0 and 0 or tries + 1
    if count < 0 and number ~= EINTR or tries > (count < 0 and MAX_TRIES or 3) then fail(number) end
  end
end

--- Takes both kinds of locks, as far as they are available, or gives them up; returns false if another writer has one.
local function lock(file, gives_up)
  local function is_held(answer)
    local number = ffi.errno()
    return answer ~= 0 and (number == EAGAIN or number == EACCES)
  end
  if is_held(C.toyspec_flock(file, gives_up and 8 or 6)) then return false end -- LOCK_UN, or LOCK_EX and LOCK_NB
  return not is_held(C.toyspec_fcntl(file, 37, Lock(gives_up and 2 or 1, 0, 0, 0, 0))) -- F_OFD_SETLK: F_UNLCK or F_WRLCK
end

--- Returns a descriptor of the regular file at a path, with both locks.
local function locked(path, flags)
  while true do
    local there = stat(path)
    if there and not is_regular(there) then refuse("this is not a regular file") end
    local file = open(path, bit.bor(O_RDWR, O_APPEND, O_NONBLOCK, flags))
    local is_done, mine = pcall(stat_of, file)
    local problem = not is_done and mine or not is_regular(mine) and { fact = "this is not a regular file" }
      or not lock(file) and { fact = "another writer holds this stream (it is locked)" }
    -- Between opening and locking, another writer may have moved the file.
    if not problem and is_same(stat(path), mine) then return file end
    C.toyspec_close(file)
    if problem then error(problem, 0) end
  end
end

--- Returns the name, or the first of its numbered siblings that is not there.
local function free(name, number, stem)
  while is_there(name) do name, number = stem .. "-" .. number, number + 1 end
  return name
end

local function rename(from, to)
  if C.toyspec_rename(from, to) ~= 0 then fail() end
end

--- Renames the file at a path to `.prev`, and an earlier one of that name to the first free `.prev-N`.
local function keep(path, undo)
  local previous = path .. ".prev"
  if is_there(previous) then
    local older = free(previous .. "-1", 1, previous)
    rename(previous, older)
    undo[#undo + 1] = function() rename(older, previous) end
  end
  rename(path, previous)
  undo[#undo + 1] = function() rename(previous, path) end
end

local function names_in(directory)
  local names, folder = {}, C.toyspec_opendir(directory)
  if folder == nil then return names end
  local entry = C.toyspec_readdir(folder)
  while entry ~= nil do
    names[#names + 1] = ffi.string(ffi.cast(Entry, entry).name)
    entry = C.toyspec_readdir(folder)
  end
  C.toyspec_closedir(folder)
  return names
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
local LEAST = { [2] = 0x80, [3] = 0x800, [4] = 0x10000 }

local function is_utf8(text)
  local at = text:find("[\128-\255]")
  while at do
    local first = text:byte(at)
    local size = first >= 0xF0 and 4 or first >= 0xE0 and 3 or 2
    if first < 0xC2 or first > 0xF4 or at + size - 1 > #text then return false end
    local point = bit.band(first, bit.rshift(0x7F, size))
    for next = at + 1, at + size - 1 do
      local byte = text:byte(next)
      if bit.rshift(byte, 6) ~= 2 then return false end
      point = point * 64 + bit.band(byte, 0x3F)
    end
    if point < LEAST[size] or point > 0x10FFFF or point >= 0xD800 and point < 0xE000 then return false end
    at = text:find("[\128-\255]", at + size)
  end
  return true
end

local function text_json(text)
  if not is_utf8(text) then refuse("text is not UTF-8") end
  return '"' .. text:gsub('[%z\1-\31"\\]', function(sign) return ESCAPES[sign] or string.format("\\u%04x", sign:byte()) end) .. '"'
end

local function is_finite(number) return number == number and number ~= math.huge and number ~= -math.huge end

--- Returns the shortest digits that read back as the same number.
local function number_json(number)
  if not is_finite(number) then refuse("a number that is not finite cannot be written here") end
  if number == 0 and 1 / number < 0 then return "-0.0" end
  if number == math.floor(number) and math.abs(number) < 2 ^ 53 then return string.format("%.0f", number) end
  for digits = 15, 17 do
    local text = string.format("%." .. digits .. "g", number)
    if tonumber(text) == number then return text end
  end
end

local function json(value, depth)
  if depth == 0 then refuse("a record is nested more than %d levels deep", MAX_DEPTH) end
  local kind = type(value)
  if value == toyspec.null then return "null" end
  if kind == "string" then return text_json(value) end
  if kind == "number" then return number_json(value) end
  if kind == "boolean" then return tostring(value) end
  if ffi.istype("int64_t", value) or ffi.istype("uint64_t", value) then return (tostring(value):gsub("U?LL$", "")) end
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
  if step ~= nil and not (type(step) == "number" and step >= 0 and step < 2 ^ 53 and step == math.floor(step)) then
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
    local stop = line:find('[%z\1-\31"\\]', from)
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
  if is_json and line:find("^%s*{") and line:find("^%s*$", after) and is_utf8(line) then return value end
  refuse("a line is damaged; `toyspec check` says where")
end

--- Returns the values as they are written: null for what is not finite, whose word goes into `nonfinite`.
local function finite(values, prefix, nonfinite)
  local kept = {}
  for name, value in pairs(values) do
    if type(value) == "boolean" then value = value and 1 or 0 end
    if type(value) == "number" and not is_finite(value) then
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
  if type(problem) == "string" and problem:find("interrupted!", 1, true) then error(problem, 0) end
  self.error = self.path .. ": " .. (type(problem) == "table" and problem.fact or tostring(problem))
  if not self._was_reported then report(self.error .. "; this call wrote nothing") end
  self._was_reported = true
  return false
end

function Run:_t()
  self._last_t = math.max(self._last_t, math.floor((clock() - self._origin) * 1e6 + 0.5) / 1e6)
  return self._last_t
end

function Run:_check_process()
  if C.toyspec_getpid() ~= self._process then
    refuse("this process was forked from the one that opened the run, which alone writes to it")
  end
end

--- Locks the stream that is there, and reads what a resumption needs; changes nothing in it.
function Run:_open()
  make_directory(self.directory)
  if is_there(self.path) then
    if self._exist == "fail" then refuse("there is a stream already; resume it, replace it, or use another directory") end
    self._file = locked(self.path, 0)
    local is_done, problem = pcall(function() if self._exist == "resume" then self:_scan() end end)
    if not is_done then
      self:close()
      error(problem, 0)
    end
  end
  self._is_open = true
end

--- Takes in the last step and time of the stream; raises unless it is toy/v1 and not damaged.
function Run:_scan()
  local bytes = read_all(self._file, 0, size_of(self._file))
  local stop = bytes:match(".*\n()") or 1
  self._fragment = bytes:sub(stop)
  local is_first = true
  for line in bytes:sub(1, stop - 1):gmatch("([^\n]*)\n") do
    if line:find("%S") then
      local record = parsed(line)
      if is_first and (record.kind ~= "run_start" or (record.schema or "toy/v1") ~= "toy/v1") then refuse("the stream is not of toy/v1") end
      is_first = false
      if record.kind == "step" and type(record.step) == "number" then self.last_step = record.step end
      if type(record.t) == "number" then self._last_t = math.max(self._last_t, record.t) end
    end
  end
  self._origin = clock() - self._last_t
end

--- Writes the first record of this process; if that fails, every file is as it was.
function Run:_begin(first)
  if not self._is_open or self._is_begun then refuse(self._is_open and "the run has begun" or "the stream is not open") end
  self:_check_process()
  local line, undo, old = line_of(first), {}, nil
  local is_done, problem = pcall(function()
    if first.kind == "run_start" and self._file and size_of(self._file) > 0 then
      if self._exist ~= "replace" then refuse("the stream has records; resume it") end
      old, self._file = self._file, nil
      undo[1] = function() self._file = old end
      keep(self.path, undo)
    end
    if not self._file then
      make_directory(self.directory)
      self._file = locked(self.path, O_NEW)
      undo[#undo + 1] = function()
        C.toyspec_unlink(self.path)
        if self._file then C.toyspec_close(self._file) end
        self._file = nil
      end
    end
    if #self._fragment > 0 then self:_move_fragment() end
    self:_append(line, true)
  end)
  if not is_done then
    for at = #undo, 1, -1 do undo[at]() end
    error(problem, 0)
  end
  self._is_begun, self._fragment = true, ""
  if not old then return end
  C.toyspec_close(old)
  self:_move_ranks()
end

--- Keeps the streams of the other ranks of the run that was replaced; one that a writer holds is of the new run.
function Run:_move_ranks()
  for _, name in ipairs(names_in(self.directory)) do
    if name:find("^events%.rank%-[1-9]%d*%.jsonl$") and #name <= #"events.rank-123456789.jsonl" then
      local path = self.directory .. "/" .. name
      local is_locked, file = pcall(locked, path, 0)
      if is_locked then
        if size_of(file) > 0 then pcall(keep, path, {}) end
        C.toyspec_close(file)
      end
    end
  end
end

--- Copies the bytes after the last LF to a side file, then cuts them off.
function Run:_move_fragment()
  local offset = size_of(self._file) - #self._fragment
  local stem = self.path .. ".torn-" .. offset
  local side = free(stem, 2, stem)
  local copy = open(side, bit.bor(O_RDWR, O_NEW))
  local is_done, problem = pcall(function()
    without_signal(write_all, copy, self._fragment)
    sync(copy)
    sync_directory(self.directory)
    if C.toyspec_ftruncate(self._file, offset) ~= 0 then fail() end
  end)
  C.toyspec_close(copy)
  if is_done then return end
  C.toyspec_unlink(side)
  error(problem, 0)
end

--- Writes a line whole, or takes back what was written of it; after a failure that may last, closes the stream.
function Run:_append(line, is_synced)
  local begin = size_of(self._file)
  local is_done, problem = pcall(without_signal, write_all, self._file, line)
  if not is_done then
    local was_read, is_safe = pcall(self._take_back, self, begin, line)
    local is_temporary = type(problem) == "string" or TEMPORARY[problem.number]
    if self._is_begun and not (was_read and is_safe and is_temporary) then self:close() end
    error(problem, 0)
  end
  if not is_synced then return end
  sync(self._file)
  sync_directory(self.directory)
end

--- Removes the part of a line that was written; returns false if another process has written into it.
function Run:_take_back(begin, line)
  local part = size_of(self._file) - begin
  if part <= 0 or part >= #line then return true end
  return read_all(self._file, begin, part) == line:sub(1, part) and C.toyspec_ftruncate(self._file, begin) == 0
end

function Run:_write(record, is_synced)
  self:_check_process()
  if not self._is_begun or not self._file then refuse("the run is not open; call start() or resume() first") end
  local line = line_of(record)
  self:_follow_path()
  local is_done, problem = pcall(self._append, self, line, is_synced)
  if not is_done then
    if type(problem) == "table" then self.dropped, self._unsaid = self.dropped + 1, self._unsaid + 1 end
    error(problem, 0)
  end
  if record.kind == "step" then self.last_step = record.step end
  if self._unsaid == 0 or not self._file then return end
  local text = self._unsaid .. " records were dropped: they could not be written"
  local note = { kind = "note", t = self:_t(), text = text, topic = "left-out", dropped = { record = self._unsaid } }
  -- The next record that fits tries again.
  if pcall(self._append, self, line_of(note), false) then self._unsaid = 0 end
end

--- Once a second, starts the stream again at its path if another file, or none, is there.
function Run:_follow_path()
  local now = clock()
  if now - self._looked < 1 then return end
  self._looked = now
  if is_same(stat(self.path), stat_of(self._file)) then return end
  report(self.path .. " was moved away; it is started again with its records")
  local bytes = read_all(self._file, 0, size_of(self._file)):match(".*\n") or ""
  make_directory(self.directory)
  if is_there(self.path) then keep(self.path, {}) end
  local again = locked(self.path, O_NEW)
  without_signal(write_all, again, bytes)
  C.toyspec_close(self._file)
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
  if self._is_open and not self._file then return self:start() end
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

--- Closes the stream and releases its locks, without a record.
function Run:close()
  if self._file and C.toyspec_getpid() == self._process then
    lock(self._file, true) -- a child that was forked has the file open, too, and would keep the locks
    C.toyspec_close(self._file)
  end
  self._file, self._is_open = nil, false
end

--- Returns the run in a directory, whose stream is `events.jsonl`. `options.exist` says what happens to one that is there:
--- "replace" keeps it as `events.jsonl.prev`, "fail" refuses it, and "resume" goes on with it. `options.run_id` is the name
--- of the directory by default.
function toyspec.run(directory, options)
  options, directory = options or {}, absolute(directory)
  local self = setmetatable({
    directory = directory, path = directory .. "/events.jsonl", run_id = options.run_id or directory:match("([^/]*)$"),
    dropped = 0, last_step = 0, _exist = options.exist or "replace", _fragment = "", _last_t = 0, _looked = 0, _unsaid = 0,
    _origin = clock(), _process = C.toyspec_getpid(),
  }, Run)
  self:_do(function() self:_open() end)
  return self
end

return toyspec
