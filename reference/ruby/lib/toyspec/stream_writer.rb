# frozen_string_literal: true

require "fileutils"

module Toyspec
  # Raised for a stream that cannot be written to: it is there, complete, damaged, or held by another writer.
  class StreamRefusedError < Error; end

  # Appends records to one stream: one write for each record with its LF.
  class StreamWriter
    # What to do with a toy/v1 stream that is there. The old stream of replace moves to events.jsonl.prev.
    EXIST = %w[replace fail resume].freeze

    attr_reader :path

    # Opens a toy/v1 stream in a directory, which is made.
    def self.open(directory, exist: "replace", clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
      raise ArgumentError, "exist is #{exist.inspect}, it must be one of #{EXIST.join(", ")}" unless EXIST.include?(exist)

      FileUtils.mkdir_p(directory)
      path = File.join(directory, PROFILES["toy/v1"]["file"])
      move_aside(path) if exist == "replace"
      new(path, "toy/v1", exist, clock)
    end

    # Opens a metrics/v1 or kaun/v1 stream and goes on at its end.
    def self.append(path, profile)
      FileUtils.mkdir_p(File.dirname(path))
      new(path, profile, "resume", -> { 0.0 })
    end

    def self.move_aside(path)
      return unless File.size?(path)

      File.open(path, "r+b") do |file|
        file.flock(File::LOCK_EX | File::LOCK_NB) or raise StreamRefusedError, "#{path}: another writer holds the stream"
        File.rename(path, "#{path}.prev")
      end
    end
    private_class_method :new, :move_aside

    def initialize(path, profile, exist, clock)
      @path, @profile, @clock = path, profile, clock
      @file = File.open(path, File::RDWR | File::APPEND | File::CREAT | File::BINARY, 0o666)
      @file.sync = true
      @process, @mutex, @sequence = Process.pid, Mutex.new, Sequence.new
      @start = clock.call
      take_over(exist)
    rescue Error
      @file&.close
      raise
    end

    # Appends a record. A toy/v1 record without t gets the seconds since the start. Raises RefusedError for a record that
    # no reader would accept; then the stream is as it was.
    def write(record)
      @mutex.synchronize do
        raise StreamRefusedError, "#{@path}: the writer is closed" unless @file && !@sequence.ended && @process == Process.pid

        record = record.transform_keys(&:to_s)
        toy = @profile == "toy/v1"
        record = @sequence.admit({ "t" => @clock.call - @start }.merge(record)) if toy
        append(Canonical.encode(@profile, record))
        next unless toy

        @sequence.note(record)
        sync if @sequence.ended || record["kind"] == "run_start"
      end
    end

    # Lets go of the stream; a run without run_end stays torn.
    def close
      @file&.close
      @file = nil
    end

    private

    # Writes a whole line, or takes back what was written of it; where that fails too, nothing more is written.
    def append(line)
      written = 0
      written += @file.syswrite(line.byteslice(written..)) while written < line.bytesize
      @committed += written
    rescue SystemCallError
      begin
        @file.truncate(@committed)
      rescue SystemCallError
        close
      end
      raise
    end

    def sync
      @file.fsync
      File.open(File.dirname(@path), &:fsync) unless Gem.win_platform?
    end

    # Locks the stream and brings it to a line end, or says why it cannot be written to.
    def take_over(exist)
      @file.flock(File::LOCK_EX | File::LOCK_NB) or refuse("another writer holds the stream")
      @committed = @file.size
      return if @committed.zero?

      refuse("the stream exists") if exist != "resume"
      report = Toyspec.read(@file, mode: "salvage", profile: @profile) { |record| @sequence.note(record.value) }
      refuse("the stream is #{report.state}") if report.state == "damaged" || (report.state == "complete" && @profile == "toy/v1")
      @start -= @sequence.last
      @committed -= report.fragment
      set_aside(report.fragment) if report.fragment.positive?
    end

    # Keeps the fragment in a file beside the stream and cuts the stream after its last LF.
    def set_aside(length)
      File.open("#{@path}.torn-#{@committed}", "wb") do |aside|
        aside.write(@file.pread(length, @committed))
        aside.fsync
      end
      @file.truncate(@committed)
    end

    def refuse(reason)
      raise StreamRefusedError, "#{@path}: #{reason}"
    end
  end
end
