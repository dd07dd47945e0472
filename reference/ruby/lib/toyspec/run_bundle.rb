# frozen_string_literal: true

require "etc"
require "rbconfig"
require "socket"
require "time"

module Toyspec
  # Writes one run, as Toy does: run_start!, step! for each step, run_end!. What cannot be written is said once and never
  # stops the training; after run_end!, and when it is not active, every call does nothing.
  class RunBundle
    attr_reader :root, :run_id, :dir, :git_sha, :git_branch

    def initialize(root, run_id)
      @root, @run_id = root, run_id
      @dir = File.join(root, run_id)
      @writer = StreamWriter.open(@dir)
    rescue SystemCallError, Error => error
      warn("toyspec: #{@dir}: nothing is logged: #{error.message}")
    end

    def active
      !@writer.nil?
    end
    alias active? active

    def events_path
      File.join(@dir, PROFILES["toy/v1"]["file"])
    end

    # Returns the directory of checkpoints, which is made when it is first asked for.
    def weights_dir
      File.join(@dir, "weights").tap { |path| FileUtils.mkdir_p(path) if active }
    end

    # Notes the source revision; an empty sha notes nothing. Call it before the start.
    def git!(sha, branch = "")
      @git_sha, @git_branch = sha, branch
    end

    def run_start!(arch:, vocab:, d_model:, n_layers:, context:, steps:, lr:, seed:)
      start({ arch:, vocab:, d_model:, n_layers: }, { context:, steps:, lr:, seed: })
    end

    # Starts as run_start! does, from the configuration of a llama: vocab, d_model, n_layers and ctx.
    def run_start_llama!(cfg, steps:, lr:, seed:)
      run_start!(arch: "llama", vocab: cfg.vocab, d_model: cfg.d_model, n_layers: cfg.n_layers, context: cfg.ctx, steps:, lr:, seed:)
    end

    # Starts a vision transformer; it has no context.
    def run_start_vit!(cfg, steps:, lr:, seed:)
      model = { arch: "vit", d_model: cfg.d_model, n_layers: cfg.n_layers, image_size: cfg.image_size, patch_size: cfg.patch_size, num_classes: cfg.num_classes }
      start(model, { steps:, lr:, seed: })
    end

    # Logs a train step; the first is 1.
    def step!(step, loss)
      write(kind: "step", phase: "train", step:, loss: loss&.to_f)
    end

    # Ends the run as completed.
    def run_end!(final_step, final_loss)
      write(kind: "run_end", ended_at: now, reason: "completed", final_step:, final_loss: final_loss&.to_f, exit_code: 0)
      @writer&.close
      @writer = nil
    end

    private

    def start(model, config)
      event = { kind: "run_start", schema: "toy/v1", started_at: now, run_id: @run_id, phase: "train", host:, backend: { kind: "cpu" }, model:, config: }
      event[:git] = { sha: @git_sha, branch: @git_branch } unless @git_sha.to_s.empty?
      write(event)
    end

    def host
      { name: Socket.gethostname, os: Etc.uname[:sysname].downcase, arch: RbConfig::CONFIG["host_cpu"] }
    end

    def now
      Time.now.utc.strftime("%Y-%m-%dT%H:%M:%SZ")
    end

    def write(event)
      @writer&.write(event)
    rescue SystemCallError => error
      warn("toyspec: #{events_path}: logging stops: #{error.message}")
      @writer = nil
    end
  end
end
