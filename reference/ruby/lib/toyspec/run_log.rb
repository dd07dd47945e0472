# frozen_string_literal: true

module Toyspec
  # Reads one run back. A run without run_end is fine; a damaged stream is not.
  class RunLog
    # The directory of the run, its run_start, the step events of its latest attempt in every phase, and its run_end, nil while
    # the run goes on.
    attr_reader :dir, :config, :steps, :run_end

    # The loss of each step in the run's own phase that has one; nil is a loss that was not finite.
    attr_reader :loss_curve

    # Pairs of step and loss, one for each item of the loss curve.
    attr_reader :loss_points

    # The loss that run_end states, else the last of the loss curve; nil where there is none or it was not finite.
    attr_reader :final_loss

    # Returns the run in a directory; raises StreamError at a damaged line, Error where there is no stream or no run_start.
    def self.open(directory)
      new(directory)
    end

    # Returns the runs in the subdirectories of a root, the smallest final loss first and runs without one last. A run
    # that cannot be opened raises; with on_error: "skip" it is reported on standard error and left out.
    def self.scan(root, on_error: "raise")
      raise ArgumentError, "on_error is #{on_error.inspect}, it must be raise or skip" unless %w[raise skip].include?(on_error)

      directories = Dir.children(root).sort.map { |name| File.join(root, name) }
      runs = directories.select { |path| File.exist?(File.join(path, PROFILES["toy/v1"]["file"])) }
      logs = runs.filter_map { |path| on_error == "skip" ? open_or_report(path) : open(path) }
      logs.sort_by.with_index { |log, index| [log.final_loss ? 0 : 1, log.final_loss || 0, index] }
    end

    def self.open_or_report(path)
      open(path)
    rescue Error, SystemCallError => error
      warn("toyspec: #{path}: left out: #{error.message}")
    end
    private_class_method :new, :open_or_report

    def initialize(directory)
      @dir = directory
      path = File.join(directory, PROFILES["toy/v1"]["file"])
      raise Error, "#{path} is missing" unless File.exist?(path)

      records = []
      Toyspec.read(path, profile: "toy/v1") { |record| records << record }
      take(records)
      raise Error, "#{path} has no run_start" unless @config
    end

    def run_id
      config["run_id"]
    end

    private

    def take(records)
      latest, views = Attempts.latest(records), Summary.toy(records)
      @config = records.find { |record| record.kind == "run_start" }&.value
      @steps = latest.select { |record| record.kind == "step" }.map(&:value)
      @run_end = Summary.ending(latest)&.value
      @loss_points = Summary.loss_points(Summary.own_steps(latest, views["phase"]))
      @loss_curve = views["loss_curve"]
      @final_loss = views["final_loss"] == Summary::ABSENT ? nil : views["final_loss"]
    end
  end
end
