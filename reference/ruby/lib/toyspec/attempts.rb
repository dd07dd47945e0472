# frozen_string_literal: true

module Toyspec
  # Finds the latest attempt of a toy/v1 run: a run_resume replaces the earlier events of train steps after its from_step.
  class Attempts
    FRAME = %w[run_start run_resume run_config run_end].freeze

    # Returns the records of the latest attempt, in order. Records are those of the whole stream.
    def self.latest(records)
      new(records).latest
    end

    # Returns the run's own phase: that of the first run_start where it is valid, else train.
    def self.own_phase(records)
      start = records.find { |record| record.kind == "run_start" }
      start ? phase(start) { "train" } : "train"
    end

    # Returns the phase that a record states where that is valid, else the block's value.
    def self.phase(record, &block)
      Validity.member(record.value, PROFILES["toy/v1"]["kinds"][record.kind], "phase", &block)
    end

    def initialize(records)
      @records = records
      @own_phase = Attempts.own_phase(records)
    end

    def latest
      limit = nil
      kept = @records.reverse_each.reject do |record|
        next true if limit && replaced?(record, limit)

        from = resumed_from(record)
        limit = [limit, from].compact.min if from
        false
      end
      kept.reverse
    end

    private

    def resumed_from(record)
      return unless record.kind == "run_resume"

      Validity.member(record.value, fields(record), "from_step") { nil }
    end

    def replaced?(record, limit)
      return false if FRAME.include?(record.kind) || fields(record).nil?

      step = Validity.member(record.value, fields(record), "step") { nil }
      return false unless step.is_a?(Integer) && step > limit

      phase = Attempts.phase(record) { @own_phase }
      phase == "train" || (phase == "eval" && record.kind != "step")
    end

    def fields(record)
      PROFILES["toy/v1"]["kinds"][record.kind]
    end
  end
end
