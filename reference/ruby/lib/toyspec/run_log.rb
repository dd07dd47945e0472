# frozen_string_literal: true

module Toyspec
  # Reads one run back. A run without run_end is fine; a damaged stream is not.
  class RunLog
    attr_reader :config, :steps, :run_end

    # Returns the run in a directory; raises StreamError at a damaged line, Error where there is no stream or no run_start.
    def self.open(directory)
      path = File.join(directory, PROFILES["toy/v1"]["file"])
      raise Error, "#{path} is missing" unless File.exist?(path)

      new(path)
    end

    # Returns the runs in the subdirectories of a root, the smallest final loss first and runs without one last.
    def self.scan(root)
      directories = Dir.children(root).sort.map { |name| File.join(root, name) }
      logs = directories.select { |path| File.exist?(File.join(path, PROFILES["toy/v1"]["file"])) }.map { |path| open(path) }
      logs.sort_by.with_index { |log, index| [log.final_loss ? 0 : 1, log.final_loss || 0, index] }
    end
    private_class_method :new

    def initialize(path)
      @steps = []
      Toyspec.read(path) do |record|
        case record.kind
        when "run_start" then @config ||= record.value
        when "run_resume" then @steps.reject! { |step| step["step"].to_i > record.value["from_step"].to_i }
        when "step" then @steps << record.value
        when "run_end" then @run_end ||= record.value
        end
      end
      raise Error, "#{path} has no run_start" unless @config
    end

    def run_id
      config["run_id"]
    end

    # Returns pairs of step and loss; nil is a loss that was not finite.
    def loss_curve
      steps.filter_map { |step| [step["step"], step["loss"]] if step.key?("loss") }
    end

    # Returns the loss that run_end states, else that of the last step, else nil.
    def final_loss
      return run_end["final_loss"] if run_end&.key?("final_loss")

      steps.last && steps.last["loss"]
    end
  end
end
