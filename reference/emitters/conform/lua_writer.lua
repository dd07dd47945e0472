-- Lets the fault runner drive the Lua emitter: see PROTOCOL.md, durable writers.

local ffi = require("ffi")
package.path = arg[0]:match("^(.*)/conform/") .. "/?.lua;" .. package.path
local toyspec = require("toyspec_emitter")

local function nested(levels)
  local value = toyspec.array({})
  for _ = 1, levels do value = toyspec.array({ value }) end
  return value
end

local records = {
  ["long-integer"] = { kind = "step", step = 1e300 },
  ["bad-utf8"] = { kind = "note", text = "\xff" },
  sparse = { kind = "mine", m = { [1] = 1, [3] = 2 } },
  deep = { kind = "mine", m = nested(100) },
  long = { kind = "note", text = ("x"):rep(17000000) },
  ["no-kind"] = { m = 1 },
}
local run

local function said(is_written) return is_written and "ok" or ("failed " .. run.error):gsub("\n", " ") end

ffi.cdef([[
int fork(void);
int waitpid(int process, int *status, int options);
void _exit(int status);
]])

local function in_child(step)
  local child = ffi.C.fork()
  if child == 0 then ffi.C._exit(run:step(step, { loss = 0.5 }) and 0 or 1) end
  local status = ffi.new("int[1]")
  ffi.C.waitpid(child, status, 0)
  return status[0] == 0 and "ok" or status[0] == 256 and "failed in the child" or "failed child crashed"
end

local function answer(line)
  local command, rest = line:match("^(%S+) ?(.*)$")
  local first, second = rest:match("^(%S+) ?(.*)$")
  if command == "append" or command == "entry" or command == "bundle" then return "untestable the emitter writes toy/v1 alone, without a RunBundle" end
  if command == "fork" then return in_child(tonumber(rest)) end
  if command == "open" then
    local found = toyspec.run(second, { exist = first, run_id = "demo" })
    if found.error then return "failed " .. found.error end
    run = found
  elseif command == "start" then return said(run:start())
  elseif command == "resume" then return said(run:resume(tonumber(rest)))
  elseif command == "step" then return said(run:step(tonumber(rest), { loss = 0.5 }))
  elseif command == "note" then return said(run:note(("x"):rep(tonumber(second)), { step = tonumber(first) }))
  elseif command == "end" then return said(run:finish())
  elseif command == "dropped" then return "ok " .. run.dropped
  elseif command == "read" then io.open(rest, "rb"):close()
  elseif command == "value" and rest == "nan" then return said(run:step(1000, { loss = 0 / 0 }))
  elseif command == "value" then return records[rest] and said(run:write(records[rest])) or "untestable Lua has no such value"
  elseif command == "close" and run then run:close()
  end
  return "ok"
end

for line in io.lines() do
  local is_done, said_or_problem = pcall(answer, line)
  io.write(is_done and said_or_problem or "failed interrupted: " .. said_or_problem, "\n")
  io.flush()
end
