# frozen_string_literal: true

require "json"

module Toyspec
  # One committed JSON object: its bytes, line number from 1, byte offset from 0, declared kind and value.
  Record = Struct.new(:raw, :line, :offset, :kind, :value)

  # Bytes that gave no record; the reason is the rule that the line breaks, or "stopped" for what was left unread.
  Gap = Struct.new(:line, :offset, :length, :reason)

  # The account of one reading. Always: committed + fragment + gap_bytes is the size of the stream. The profile is nil
  # where the stream follows none.
  Report = Struct.new(:profile, :state, :records, :committed, :fragment, :gaps, :gap_bytes)

  # Raised where a mode refuses a stream.
  class StreamError < Error
    attr_reader :report, :reason, :line, :offset

    def initialize(name, reason, line, offset, report)
      super("#{name}:#{line}: #{reason} at byte #{offset}")
      @report, @reason, @line, @offset = report, reason, line, offset
    end
  end

  # Reads a stream; see Toyspec.read.
  class Reader
    MODES = %w[strict tail prefix salvage].freeze
    LISTED_GAPS = LIMITS.fetch("max_listed_gaps")

    # manifest says whether the manifest of a kaun/v1 run is beside the stream.
    def initialize(io, mode:, profile:, name:, max_line_bytes:, manifest: false)
      raise ArgumentError, "mode is #{mode.inspect}, it must be one of #{MODES.join(", ")}" unless MODES.include?(mode)

      @io, @mode, @profile, @name, @limit, @manifest = io, mode, profile, name, max_line_bytes, manifest
      @has_profile = !profile.nil?
      @offset = @records = @committed = @fragment = @gap_bytes = 0
      @gaps = []
      @last = nil
    end

    # Calls the block for every record and returns the report; raises StreamError where the mode refuses the stream.
    def each(&block)
      number = 0
      while (line = next_line)
        stopped = take(line, number += 1, &block)
        return stop(stopped) if stopped
      end
      finish
    end

    private

    # Returns the next committed line without its LF, :long for one beyond the limit; nil at the end.
    def next_line
      # One byte more than the limit, and the LF.
      line = @io.gets("\n", @limit + 2)
      return if line.nil?

      @length = line.bytesize
      long = false
      until line.end_with?("\n")
        more = @io.gets("\n", 1 << 16)
        if more.nil?
          @fragment = @length
          return
        end
        @length += more.bytesize
        long = @length - 1 > @limit
        line = long ? more : line << more
      end
      long || @length - 1 > @limit ? :long : line.chomp("\n")
    end

    # Takes a line in; returns its gap where reading stops at it.
    def take(line, number)
      offset = @offset
      @offset += @length
      reason = line == :long ? "line-too-long" : nil
      if reason.nil? && LineValidator.blank?(line)
        @committed += @length
        return
      end
      reason ||= LineValidator.validate(line, first: number == 1)
      return gap(Gap.new(number, offset, @length, reason)) if reason

      value = Toyspec.parse(line)
      decide(value)
      @last = Profiles.kind(@profile, value)
      Integers.settle(value, @profile)
      @records += 1
      @committed += @length
      yield Record.new(line, number, offset, @last, value)
      nil
    end

    def decide(record)
      @profile = Profiles.of_record(record, manifest: @manifest) unless @has_profile
      @has_profile = true
    end

    def gap(gap)
      @gap_bytes += gap.length
      @gaps << gap if @gaps.size < LISTED_GAPS || gap.reason == "stopped"
      gap unless @mode == "salvage" || gap.reason == "stopped"
    end

    def stop(stopped)
      rest = 0
      while (chunk = @io.read(1 << 16))
        rest += chunk.bytesize
      end
      gap(Gap.new(stopped.line + 1, @offset, rest, "stopped")) if rest.positive?
      raise StreamError.new(@name, stopped.reason, stopped.line, stopped.offset, report) unless @mode == "prefix"

      report
    end

    def finish
      done = report
      raise StreamError.new(@name, done.state, 1, @committed, done) if @mode == "strict" && done.state != "complete"

      done
    end

    def report
      @profile = Profiles.of_name(@name, manifest: @manifest, gap: @gap_bytes.positive?) unless @has_profile
      last = @profile && PROFILES[@profile]["last"]
      torn = @fragment.positive? || @records.zero? || (last && @last != last)
      state = @gap_bytes.positive? ? "damaged" : torn ? "torn" : "complete"
      Report.new(@profile, state, @records, @committed, @fragment, @gaps, @gap_bytes)
    end
  end

  module_function

  # Reads the stream at a path, a bundle's directory or an IO, calls the block for every record and returns the report.
  # Modes: strict (anything but complete raises), tail (damage raises), prefix (stops at damage), salvage (skips it).
  # manifest says whether the manifest of a kaun/v1 run is beside an IO's stream.
  def read(source, mode: "tail", profile: nil, name: nil, manifest: false, max_line_bytes: LIMITS["max_line_bytes"], &block)
    block ||= proc {}
    options = { mode:, profile:, max_line_bytes: }
    return Reader.new(source.binmode, name:, manifest:, **options).each(&block) if source.respond_to?(:gets)

    path = File.directory?(source) ? stream_in(source) : source
    manifest = Profiles.manifest?(File.dirname(path))
    File.open(path, "rb") { |file| Reader.new(file, name: name || path, manifest:, **options).each(&block) }
  end

  # Returns the object in a file of JSON; nil where it cannot be read or holds something else.
  def read_object(path)
    text = File.binread(path, LIMITS["max_line_bytes"] + 1)
    parse(text) if text && text.bytesize <= LIMITS["max_line_bytes"] && !LineValidator.blank?(text) && LineValidator.validate(text, first: true).nil?
  rescue SystemCallError
    nil
  end

  # Returns the object that a validated line holds; of a repeated key the last value.
  def parse(line)
    # The library reads numbers with many digits by the first of them.
    exact = /[0-9][0-9.]{#{Numbers::SURE_DIGITS - 1}}/n.match?(line)
    options = exact ? { decimal_class: Numbers } : {}
    JSON.parse(line.dup.force_encoding(Encoding::UTF_8), max_nesting: LIMITS["max_depth"], **options)
  end

  def stream_in(directory)
    %w[events.jsonl metrics.jsonl].map { |name| File.join(directory, name) }.find { |path| File.exist?(path) } or
      raise Error, "#{directory}: no events.jsonl or metrics.jsonl in it"
  end
end
