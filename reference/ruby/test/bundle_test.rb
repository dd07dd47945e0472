# frozen_string_literal: true

require "minitest/autorun"
require "stringio"
require "tmpdir"
require_relative "../lib/toyspec"

# A test with a directory for one bundle.
class BundleTest < Minitest::Test
  START = %({"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n)
  STOP = %({"kind":"run_end","t":9.0,"reason":"completed"}\n)
  RUN_START = { kind: "run_start", schema: "toy/v1", run_id: "run" }.freeze

  def setup
    @dir = Dir.mktmpdir
    @path = File.join(@dir, "events.jsonl")
  end

  def teardown
    FileUtils.rm_r(@dir)
  end

  def content
    File.binread(@path)
  end

  # Returns the names of the files in the bundle.
  def names
    Dir.children(@dir).sort
  end

  def start(**options, &block)
    Toyspec::StreamWriter.open(@dir, **options, &block)
  end

  # Returns a writer of a new run.
  def started
    start.tap { |writer| writer.write(RUN_START) }
  end

  # Returns a writer that goes on after a run_start.
  def resumed
    File.write(@path, START)
    start(exist: "resume").tap { |writer| writer.write(kind: "run_resume", from_step: 0) }
  end

  def steps(count, from: 1)
    (from...from + count).each { |step| yield({ kind: "step", step: }) }
  end
end

# Lets calls on the file of a writer fail.
module Faults
  module_function

  # Returns the IO of a writer.
  def io(writer)
    writer.instance_variable_get(:@file).instance_variable_get(:@file)
  end

  # From now on a call fails with an error; after a partial one where so many bytes are given.
  def break(writer, call, error, taken: 0)
    file = io(writer)
    left = taken
    file.define_singleton_method(call) do |*arguments|
      raise error, "injected" unless left.positive?

      count, left = left, 0
      super(arguments[0].byteslice(0, count))
    end
  end

  def repair(writer, call)
    io(writer).singleton_class.remove_method(call)
  end
end
