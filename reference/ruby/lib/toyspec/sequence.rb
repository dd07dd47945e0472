# frozen_string_literal: true

module Toyspec
  # A step is not larger than the one before.
  class StepOrderError < RefusedError; end

  # Keeps the order of a toy/v1 stream: run_start first and once, run_resume first after a resumption, nothing after
  # run_end, and t and the steps of a phase never backwards.
  class Sequence
    attr_reader :last, :ended

    def initialize
      @started = @ended = @resumes = false
      @last = 0.0
      @phase = "train"
      @bases = {}
      @final = {}
    end

    # Demands run_resume next, where the stream has a record; a run may go on after its end.
    def resume
      @resumes = @started
      @ended = false
    end

    # Returns whether a record of any kind may be next.
    def open?
      @started && !@ended && !@resumes
    end

    # Returns final_step and final_loss of run_end: those of the last train step that has them.
    def final
      @final.dup
    end

    # Returns the record to be written, its t not smaller than the one before; keys are strings. Raises RefusedError.
    def admit(record)
      check_kind(record["kind"])
      check_step(record)
      t = time_of(record)
      t && t < @last ? record.merge("t" => @last) : record
    end

    # Takes in a record that is in the stream.
    def note(record)
      t = time_of(record)
      @last = [@last, t.to_f].max if t && !t.to_f.nan?
      case record["kind"]
      when "run_start" then @phase = phase_of(record) unless @started
      when "run_end" then @ended = true
      when "run_resume" then note_resume(record["from_step"])
      when "step" then note_step(record)
      end
      @started = true
      @resumes = false
    end

    private

    # Returns the t of a record of a known kind: that of any other takes part in nothing.
    def time_of(record)
      record["t"] if record["t"].is_a?(Numeric) && Profiles.fields("toy/v1", record)
    end

    def check_kind(kind)
      raise RefusedError, "the run has ended; it goes on with run_resume" if @ended && kind != "run_resume"
      raise RefusedError, "the first record must be a run_start" if !@started && kind != "run_start"
      raise RefusedError, "the run has started" if @started && kind == "run_start"
      raise RefusedError, "the first record after a resumption must be a run_resume" if @resumes && kind != "run_resume"
    end

    def check_step(record)
      base, step = @bases[phase_of(record)], record["step"]
      return unless record["kind"] == "step" && base && step.is_a?(Integer) && step <= base

      raise StepOrderError, "step #{step} after step #{base}; write run_resume first"
    end

    def note_resume(from)
      @ended = false
      @bases = from.is_a?(Integer) ? { "train" => from } : {}
    end

    def note_step(record)
      return unless record["step"].is_a?(Integer) && !record["step"].negative?

      phase = phase_of(record)
      @bases[phase] = record["step"]
      return unless phase == "train"

      @final = { "final_step" => record["step"] }
      loss = record["loss"]
      @final["final_loss"] = loss if record.key?("loss") && (loss.nil? || loss.is_a?(Numeric))
    end

    def phase_of(record)
      phases = Profiles.member({ "fields" => PROFILES["toy/v1"]["kinds"]["step"] }, "phase")["enum"]
      phases.include?(record["phase"]) ? record["phase"] : @phase
    end
  end
end
