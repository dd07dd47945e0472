# frozen_string_literal: true

module Toyspec
  # Holds a toy/v1 stream to what its records owe to each other: run_start first and once, nothing behind run_end, t and
  # the steps of a phase never back.
  class Sequence
    attr_reader :last, :ended

    def initialize
      @started = @ended = false
      @last = 0.0
      @phase = "train"
      @bases = {}
    end

    # Returns the record to be written, its t not smaller than the one before; keys are strings. Raises RefusedError.
    def admit(record)
      kind = record["kind"]
      raise RefusedError, "the run has ended" if @ended
      raise RefusedError, "the first record is a run_start" if !@started && kind != "run_start"
      raise RefusedError, "the run has started" if @started && kind == "run_start"

      base, step = @bases[phase_of(record)], record["step"]
      if kind == "step" && base && step.is_a?(Integer) && step <= base
        raise RefusedError, "step #{step} after step #{base}; write run_resume first"
      end
      t = record["t"]
      t.is_a?(Numeric) && t < @last ? record.merge("t" => @last) : record
    end

    # Takes in a record that is in the stream.
    def note(record)
      t = record["t"]
      @last = [@last, t.to_f].max if t.is_a?(Numeric) && !t.to_f.nan?
      case record["kind"]
      when "run_start" then @phase = record["phase"] if !@started && record["phase"].is_a?(String)
      when "run_end" then @ended = true
      when "run_resume" then @bases = record["from_step"].is_a?(Integer) ? { "train" => record["from_step"] } : {}
      when "step" then @bases[phase_of(record)] = record["step"] if record["step"].is_a?(Integer)
      end
      @started = true
    end

    private

    def phase_of(record)
      record["phase"].is_a?(String) ? record["phase"] : @phase
    end
  end
end
