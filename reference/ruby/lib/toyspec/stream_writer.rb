# frozen_string_literal: true

require "fileutils"

module Toyspec
  # Appends records to one stream: one write for each record with its LF.
  class StreamWriter
    # What to do with a toy/v1 stream that is there. The old stream of replace moves to events.jsonl.prev.
    EXIST = %w[replace fail resume].freeze
    # How often a writer checks whether its path still names its file.
    LOOK_SECONDS = 1.0
    GONE = "the file was deleted, renamed or replaced while it was open; logging goes on in a new file"

    attr_reader :path

    # The number of records that could not be written.
    attr_reader :dropped

    # Opens a toy/v1 stream in a directory, which is made. With a block, yields the writer and ends the run: as
    # completed, as interrupted by an Interrupt, or as errored by another exception.
    def self.open(directory, exist: "replace", clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }, &block)
      raise ArgumentError, "exist is #{exist.inspect}, it must be one of #{EXIST.join(", ")}" unless EXIST.include?(exist)

      FileUtils.mkdir_p(directory)
      writer = new(File.join(directory, PROFILES["toy/v1"]["file"]), "toy/v1", exist, clock)
      block ? writer.run(&block) : writer
    end

    # Opens a metrics/v1 or kaun/v1 stream and goes on at its end. The clock gives seconds since the Unix epoch.
    def self.append(path, profile, clock: -> { Time.now.to_f })
      FileUtils.mkdir_p(File.dirname(path))
      new(path, profile, "resume", clock)
    end
    private_class_method :new

    def initialize(path, profile, exist, clock)
      @path, @profile, @clock = path, profile, clock
      @process, @mutex, @sequence = Process.pid, Mutex.new, Sequence.new
      @dropped = @unsaid = 0
      @look_at = now + LOOK_SECONDS
      @file = exist == "replace" ? StreamFile.replace(path) : StreamFile.open(path)
      @start = clock.call
      reopen(exist)
    rescue Error, SystemCallError
      @file&.discard
      raise
    end

    # Appends a record. A toy/v1 record without t gets the seconds since the start, a kaun/v1 scalar without wall_time the
    # current time. Raises RefusedError for a record that no reader would accept; then the stream is as it was. Raises SystemCallError for one that could not be written;
    # unless the stream is closed for good, later records are tried again. as_given names the open maps whose keys keep
    # their order; in canonical form they are sorted.
    def write(record, as_given = [])
      # A timeout must not leave the state of the file unknown.
      Thread.handle_interrupt(Object => :never) do
        @mutex.synchronize { write_locked(Canonical.string_keys(record), as_given) }
      end
    end

    # Writes a picture, a sound, a table or another file into the folder media of the bundle, and then the media record
    # that names it. The record has name and media_type; its sha256 follows from the content. Raises RefusedError for
    # another one, and where media is not a folder of the bundle; then neither is written.
    def write_media(record, content)
      record = Canonical.string_keys(record).merge("kind" => "media")
      digest = Digest::SHA256.hexdigest(content)
      given = record.fetch("sha256", digest)
      raise RefusedError, "the content has the sha256 #{digest}, and not #{given}" if given != digest

      record["sha256"] = digest
      Thread.handle_interrupt(Object => :never) do
        @mutex.synchronize do
          demand_open
          # What is refused leaves no file.
          line_of(timed(record), [])
          BundleFiles.store(File.dirname(@path), digest, record["media_type"], content)
          write_locked(record, [])
        end
      end
    end

    # Writes run_end with the last train step and its loss, unless the run has ended, and closes the stream.
    def finish(reason: "completed", error: nil)
      record = { kind: "run_end", reason:, **@sequence.final }
      record[:error] = error if error
      write(record) if @sequence.open?
    ensure
      close
    end

    # Closes the stream and gives up its lock; a run without run_end stays torn. A stream that was created and has no record is removed.
    def close
      @profile == "toy/v1" ? @file&.discard : @file&.close
      @file = nil
    end

    # Returns whether no record can be written any more.
    def closed?
      @file.nil? || @file.closed? || @sequence.ended
    end

    # Returns whether this process was forked from the one that opened the stream.
    def foreign?
      @process != Process.pid
    end

    # Returns whether the stream is a run of toy/v1, which is started and ended.
    def toy?
      @profile == "toy/v1"
    end

    # Yields the writer and ends the run.
    def run
      result = yield self
      finish
      result
    rescue Interrupt
      finish(reason: "interrupted")
      raise
    rescue Exception => error
      finish(reason: "errored", error: "#{error.class}: #{error.message}") unless closed?
      raise
    ensure
      close
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def demand_open
      refuse(foreign? ? "a forked process does not write" : "the writer is closed#{why_closed}") if foreign? || closed?
    end

    def write_locked(record, as_given)
      demand_open
      record = timed(record)
      BundleFiles.check_artifact(record) if toy?
      # A new run's id must be a safe name of a directory; readers accept more.
      RunIds.check(record["run_id"]) if record["kind"] == "run_start" && record["run_id"].is_a?(String)
      # A record that is refused is refused before anything is written.
      line_of(record, as_given)
      append(record, as_given)
      @file.sync if toy? && (@sequence.ended || record["kind"] == "run_start")
      # The run is over; another program may have the file.
      @file.close if @sequence.ended
    end

    # Returns a record with its time, where it has none.
    def timed(record)
      return { "t" => @clock.call - @start }.merge(record) if toy?
      return record unless @profile == "kaun/v1" && record["type"] == "scalar"

      { "wall_time" => @clock.call }.merge(record)
    end

    # Writes a record, after a note on those that were dropped before it.
    def append(record, as_given)
      look(due: record["kind"] == "run_end")
      say_dropped(record["t"])
      @file.append(line_of(record, as_given)) { @sequence.note(record) if toy? }
    rescue SystemCallError
      @dropped += 1
      @unsaid += 1
      raise
    end

    def why_closed
      @file&.closed_because && ": #{@file.closed_because}"
    end

    def line_of(record, as_given)
      Canonical.encode(@profile, toy? ? @sequence.admit(record) : record, as_given:)
    end

    # After a failure, writes a note with the number of records that were dropped.
    def say_dropped(t)
      return unless toy? && @unsaid.positive? && @sequence.open?

      text = "toyspec: #{@unsaid} records could not be written and were dropped"
      note = @sequence.admit({ "kind" => "note", "t" => t, "text" => text })
      @file.append(Canonical.encode(@profile, note)) { @sequence.note(note) }
      @unsaid = 0
    end

    # Checks now and then whether the path still names the file, and starts the stream again there where it does not.
    def look(due: false)
      return if now < @look_at && !due

      @look_at = now + LOOK_SECONDS
      move unless @file.at_path?
    end

    def move
      warn("toyspec: #{@path}: #{GONE}") unless @has_moved
      @has_moved = true
      FileUtils.mkdir_p(File.dirname(@path))
      toy? ? start_again : continue_again
    rescue StreamRefusedError => error
      @file.close_for_good(error.message)
      raise
    rescue SystemCallError
      # The next record tries again; this one would be nowhere.
      @look_at = now
      raise
    end

    # Creates the stream again with all that it held.
    def start_again
      new_file = StreamFile.replace(@path)
      new_file.copy(@file)
      take_file(new_file)
    rescue SystemCallError
      new_file&.abandon
      raise
    end

    # Goes on at the end of the file that is at the path now, which may be new.
    def continue_again
      old, @file = @file, StreamFile.open(@path)
      reopen("resume")
      old.close
    rescue Error, SystemCallError
      @file.close unless @file.equal?(old)
      @file = old
      raise
    end

    def take_file(file)
      @file.close
      @file = file
    end

    # Brings the stream to a line end, or says why it cannot be written to.
    def reopen(exist)
      # An empty file too: its creator may be about to write to it.
      refuse("the stream exists") if exist == "fail" && !@file.created?
      return if @file.size.zero?

      refuse("the stream exists") if exist != "resume"
      report = @file.read do |file|
        Toyspec.read(file, mode: "salvage", name: @path, manifest: Profiles.manifest?(File.dirname(@path))) { |record| @sequence.note(record.value) }
      end
      check_state(report)
      @sequence.resume
      @start -= @sequence.last
      @file.move_fragment(@file.size - report.fragment) if report.fragment.positive?
    end

    def check_state(report)
      refuse("the stream has no known format") if report.profile.nil?
      refuse("the stream is #{report.profile}") if report.profile != @profile && report.records.positive?
      refuse("the stream is #{report.state}") if report.state == "damaged"
    end

    def refuse(reason)
      raise StreamRefusedError, "#{@path}: #{reason}"
    end
  end
end
