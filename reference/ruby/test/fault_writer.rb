# frozen_string_literal: true

# Writes the requested records, one for each line of input, for the fault runner: see conformance/faults/programs.py.

require_relative "../lib/toyspec"

# Holds at most one writer.
class FaultWriter
  ENTRY = { wall_time_ms: 1.0, loss: 0.5, grad_norm: 0.5, throughput_samples_per_sec: 1.0, extra: {} }.freeze
  VALUES = {
    "long-integer" => -> { { kind: "step", phase: "train", step: 10**400 } },
    "bad-utf8" => -> { { kind: "note", text: "a\xff" } },
    "twin-keys" => -> { { kind: "mine", m: { "a" => 1, a: 2 } } },
    "nan" => -> { { kind: "step", phase: "train", step: 1000, loss: Float::NAN } },
    "deep" => -> { { kind: "mine", m: 100.times.reduce([]) { |nested, _| [nested] } } },
    "long" => -> { { kind: "note", text: "x" * 17_000_000 } },
    "no-kind" => -> { { m: 1 } }
  }.freeze

  def answer(line)
    command, rest = line.split(" ", 2)
    obey(command, rest) || "ok"
  rescue Toyspec::Error, SystemCallError, ArgumentError, TypeError => error
    "failed #{error.class}: #{error.message}".gsub("\n", " ")
  rescue Interrupt
    "failed interrupted"
  end

  private

  def obey(command, rest)
    case command
    when "open" then open(*rest.split(" ", 2))
    when "append" then @writer = Toyspec::StreamWriter.append(rest, "metrics/v1")
    when "close" then @writer&.close
    when "dropped" then return "ok #{@writer.dropped}"
    when "fork" then return in_child { answer("step #{rest}") == "ok" }
    when "bundle" then return bundle(rest)
    when "read" then Toyspec.read(rest)
    when "value" then return value(rest)
    else @writer.write(record(command, rest))
    end
    nil
  end

  def open(exist, directory)
    @writer = Toyspec::StreamWriter.open(directory, exist:)
  end

  def record(command, rest)
    case command
    when "start" then { kind: "run_start", run_id: "demo" }
    when "resume" then { kind: "run_resume", from_step: Integer(rest) }
    when "step" then { kind: "step", phase: "train", step: Integer(rest), loss: 0.5 }
    when "entry" then { step: Integer(rest), **ENTRY }
    when "end" then { kind: "run_end", reason: "completed" }
    when "note"
      step, size = rest.split.map { |word| Integer(word) }
      { kind: "note", text: "x" * size, step: }
    end
  end

  def value(name)
    return "untestable Ruby has no such value" unless VALUES.key?(name)

    @writer.write(VALUES[name].call)
    nil
  end

  def bundle(directory)
    bundle = Toyspec::RunBundle.new(*File.split(directory))
    bundle.run_start!("llama", 1, 1, 1, 1, 1, 0.5, 1)
    bundle.step!(1, 0.5)
    said = in_child { bundle.step!(2, 0.5) || true }
    bundle.step!(3, 0.5)
    bundle.run_end!(3, 0.5)
    said
  end

  def in_child
    child = fork do
      status = 2
      status = yield ? 0 : 1
    ensure
      exit!(status)
    end
    _, status = Process.wait2(child)
    { 0 => "ok", 1 => "failed in the child" }.fetch(status.exitstatus, "failed child crashed")
  end
end

writer = FaultWriter.new
$stdout.sync = true
$stdin.each_line { |line| puts writer.answer(line.chomp) }
