# frozen_string_literal: true

require "etc"
require "rbconfig"
require "socket"
require "time"

module Toyspec
  # Writes one run, as Toy does: run_start!, step! for each step, run_end!. What cannot be written is reported on standard
  # error and never stops the training; after run_end!, in a forked process and when it is not active, every call does
  # nothing. A step that goes back is logged as plain values of that step, and reported once. A value that is not
  # allowed raises RefusedError.
  class RunBundle
    ANONYMOUS = "anonymous"

    attr_reader :root, :run_id, :dir, :git_sha, :git_branch

    # Makes both directories and opens the stream; one that is there already moves to events.jsonl.prev. backend is what
    # run_start states as backend.kind: cpu, cuda, metal and others. A run without an id is anonymous.
    def initialize(root, run_id = ANONYMOUS, backend: "cpu")
      @root, @run_id, @backend = root, RunIds.check(run_id.empty? ? ANONYMOUS : run_id), backend
      @dir = File.join(root, @run_id)
      @writer = StreamWriter.open(@dir)
    rescue SystemCallError, StreamRefusedError => error
      warn("toyspec: #{@dir}: nothing is logged: #{error.message}")
    end

    def active
      !@writer.nil? && !@writer.foreign?
    end
    alias active? active

    # The number of records that could not be written.
    def dropped
      @writer ? @writer.dropped : @dropped.to_i
    end

    def events_path
      File.join(@dir, PROFILES["toy/v1"]["file"])
    end

    # Returns the directory of checkpoints, which is made when it is first asked for.
    def weights_dir
      File.join(@dir, "weights").tap { |path| make_directory(path) if active }
    end

    # Sets the source revision that run_start states; an empty sha states none. Call it before the start.
    def git!(sha, branch = "")
      @git_sha, @git_branch = sha, branch
    end

    # Writes the first record.
    def run_start!(arch, vocab, d_model, n_layers, context, steps, lr, seed)
      start({ arch:, vocab:, d_model:, n_layers: }, { context:, steps:, lr: lr&.to_f, seed: })
    end

    # Writes the first record of a llama; the configuration has vocab, d_model, n_layers and ctx.
    def run_start_llama!(cfg, steps, lr, seed)
      run_start!("llama", cfg.vocab, cfg.d_model, cfg.n_layers, cfg.ctx, steps, lr, seed)
    end

    # Writes the first record of a vision transformer; it has no context.
    def run_start_vit!(cfg, steps, lr, seed)
      model = %i[image_size patch_size d_model n_layers num_classes].to_h { |name| [name, cfg.public_send(name)] }
      start({ arch: "vit", **model }, { steps:, lr: lr&.to_f, seed: })
    end

    # Logs a train step; the first is 1.
    def step!(step, loss)
      write({ kind: "step", phase: "train", step:, loss: loss&.to_f })
    rescue StepOrderError => error
      warn("toyspec: #{events_path}: #{error.message}; its loss is logged as scalars") unless @went_back
      @went_back = true
      write({ kind: "scalars", phase: "train", step:, values: { loss: loss&.to_f } })
    end

    # Ends the run as completed and closes the stream.
    def run_end!(final_step, final_loss)
      write({ kind: "run_end", ended_at: now, reason: "completed", final_step:, final_loss: final_loss&.to_f, exit_code: 0 })
      close
    end

    # Closes the stream without a run_end, as a crash would.
    def close
      return unless active

      warn("toyspec: #{events_path}: #{dropped} records could not be written") if dropped.positive?
      stop
    end

    private

    def start(model, config)
      git = @git_sha.to_s.empty? ? {} : { git: { sha: @git_sha, branch: @git_branch } }
      @start = { kind: "run_start", schema: "toy/v1", started_at: now, run_id: @run_id, phase: "train",
                 host:, backend: { kind: @backend }, **git, model:, config: }
      write(nil)
    end

    def host
      { name: Socket.gethostname, os: Etc.uname[:sysname].downcase, arch: RbConfig::CONFIG["host_cpu"] }
    end

    def now
      Time.now.utc.strftime("%Y-%m-%dT%H:%M:%SZ")
    end

    def make_directory(path)
      FileUtils.mkdir_p(path)
    rescue SystemCallError => error
      warn("toyspec: #{path}: #{error.message}")
    end

    # Writes a record, after a run_start that is not in the stream yet.
    def write(event)
      return unless active

      if @start
        @writer.write(@start, %w[model config])
        @start = nil
      end
      @writer.write(event) if event
    rescue SystemCallError, StreamRefusedError => error
      report(error)
    rescue RefusedError
      @start = nil
      raise
    end

    # Reports the first failure. Logging stops where no later record can be written.
    def report(error)
      warn("toyspec: #{events_path}: a record was not written: #{error.message}") unless @has_reported
      @has_reported = true
      return unless @writer.closed?

      warn("toyspec: #{events_path}: logging stops")
      stop
    end

    def stop
      @dropped = @writer.dropped
      @writer.close
      @writer = nil
    end
  end
end
