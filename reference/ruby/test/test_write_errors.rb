# frozen_string_literal: true

require "timeout"
require_relative "bundle_test"

# Full disks, failing devices, interrupted calls, and files that others change.
class TestWriteErrors < BundleTest
  def kinds
    content.lines.map { |line| JSON.parse(line)["kind"] }
  end

  def warned(&block)
    capture_io(&block)[1]
  end

  def test_record_that_does_not_fit_is_dropped_and_counted
    writer = resumed
    before = content
    Faults.break(writer, :syswrite, Errno::ENOSPC, taken: 10)
    steps(3) { |step| assert_raises(Errno::ENOSPC) { writer.write(step) } }
    assert_equal [before, 3], [content, writer.dropped]
    Faults.repair(writer, :syswrite)
    steps(1, from: 4) { |step| writer.write(step) }
    assert_equal %w[run_start run_resume note step], kinds
    assert_includes JSON.parse(content.lines[2])["text"], "3 records"
  end

  def test_device_that_fails_closes_the_stream_for_good
    writer = resumed
    before = content
    Faults.break(writer, :syswrite, Errno::EIO, taken: 10)
    steps(1) { |step| assert_raises(Errno::EIO) { writer.write(step) } }
    assert_equal [before, true], [content, writer.closed?]
    error = assert_raises(Toyspec::StreamRefusedError) { writer.write(kind: "note", text: "") }
    assert_includes error.message, "Input/output"
  end

  def test_real_size_limit_gives_an_error_and_no_signal
    child = fork do
      Process.setrlimit(Process::RLIMIT_FSIZE, 1000)
      writer = started
      steps(100) { |step| writer.write(step) }
      exit!(1)
    rescue Errno::EFBIG
      exit!(0)
    end
    Process.wait(child)
    assert_equal [0, "torn", 0], [$?.exitstatus, Toyspec.read(@dir).state, Toyspec.read(@dir).fragment]
    assert_operator Toyspec.read(@dir).records, :>, 3
  end

  def test_stream_that_was_emptied_does_not_grow_when_the_disk_is_full
    writer = resumed
    File.truncate(@path, 0)
    Faults.break(writer, :syswrite, Errno::ENOSPC, taken: 10)
    steps(1) { |step| assert_raises(Errno::ENOSPC) { writer.write(step) } }
    assert_equal "", content
  end

  def test_stream_that_is_emptied_while_a_part_is_taken_back_does_not_grow
    writer = resumed
    path, taken = @path, false
    Faults.io(writer).define_singleton_method(:syswrite) do |line|
      next (taken = true) && super(line.byteslice(0, 10)) unless taken

      File.truncate(path, 0)
      raise Errno::ENOSPC
    end
    steps(1) { |step| assert_raises(Errno::ENOSPC) { writer.write(step) } }
    assert_equal "", content
  end

  def test_lines_of_others_are_not_cut_when_the_disk_is_full
    writer = resumed
    foreign = %({"kind":"note","t":1.0,"text":"other"}\n)
    File.write(@path, foreign, mode: "a")
    before = content
    Faults.break(writer, :syswrite, Errno::ENOSPC, taken: 10)
    steps(1) { |step| assert_raises(Errno::ENOSPC) { writer.write(step) } }
    assert_equal before, content
  end

  def test_part_that_is_followed_by_lines_of_others_is_not_removed
    writer = resumed
    path = @path
    before = content
    Faults.break(writer, :syswrite, Errno::ENOSPC, taken: 10)
    Faults.io(writer).define_singleton_method(:size) do
      File.write(path, "foreign\n", mode: "a")
      super()
    end
    steps(1) { |step| assert_raises(Errno::ENOSPC) { writer.write(step) } }
    assert_equal [true, true], [content.start_with?("#{before}{\"kind\":"), content.end_with?("foreign\n")]
    assert writer.closed?
  end

  def test_timeout_inside_a_write_waits_for_its_end
    writer = resumed
    Faults.io(writer).define_singleton_method(:syswrite) do |line|
      taken = super(line)
      sleep 0.2
      taken
    end
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { steps(1) { |step| writer.write(step) } } }
    Faults.repair(writer, :syswrite)
    Faults.break(writer, :syswrite, Errno::ENOSPC, taken: 10)
    steps(1, from: 2) { |step| assert_raises(Errno::ENOSPC) { writer.write(step) } }
    assert_equal %w[run_start run_resume step], kinds
  end

  def test_timeout_after_a_write_waits_until_the_record_is_noted
    writer = resumed
    writer.instance_variable_get(:@sequence).define_singleton_method(:note) do |record|
      sleep 0.2
      super(record)
    end
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { steps(1) { |step| writer.write(step) } } }
    steps(1) { |step| assert_raises(Toyspec::RefusedError) { writer.write(step) } }
  end

  def test_signal_inside_a_write_leaves_whole_lines
    [0, 10, 1000].each do |taken|
      File.write(@path, START)
      writer = start(exist: "resume")
      writer.write(kind: "run_resume", from_step: 0)
      Faults.io(writer).define_singleton_method(:syswrite) do |line|
        super(line.byteslice(0, taken)) if taken.positive?
        raise Interrupt
      end
      steps(1) { |step| assert_raises(Interrupt) { writer.write(step) } }
      Faults.repair(writer, :syswrite)
      steps(1) { |step| taken > 10 ? assert_raises(Toyspec::RefusedError) { writer.write(step) } : writer.write(step) }
      steps(1, from: 2) { |step| writer.write(step) }
      assert_equal [[1, 2]], [content.lines.filter_map { |line| JSON.parse(line)["step"] }]
      writer.close
    end
  end

  def test_failed_sync_is_not_repeated_and_run_end_is_not_acknowledged
    writer = start
    Faults.break(writer, :fsync, Errno::EIO)
    assert_raises(Errno::EIO) { writer.write(RUN_START) }
    assert_raises(Toyspec::StreamRefusedError) { writer.write(kind: "run_end", reason: "completed") }
    assert_equal %w[run_start], kinds
  end

  def test_directory_that_cannot_be_synced_does_not_end_logging
    original = File.method(:open)
    dir = @dir
    [[Errno::EINVAL, true], [Errno::EIO, false]].each do |error, goes_on|
      writer = start
      File.singleton_class.silenced_define(:open) do |path, *rest, **options, &block|
        raise error, "injected" if path == dir

        original.call(path, *rest, **options, &block)
      end
      goes_on ? writer.write(RUN_START) : assert_raises(error) { writer.write(RUN_START) }
      assert_equal !goes_on, writer.closed?
    ensure
      File.singleton_class.silenced_define(:open, original.unbind) if original.respond_to?(:unbind)
      writer&.close
    end
  end

  def test_interrupted_call_is_repeated
    writer = resumed
    left = 3
    Faults.io(writer).define_singleton_method(:syswrite) { |line| (left -= 1).negative? ? super(line) : raise(Errno::EINTR) }
    steps(1) { |step| writer.write(step) }
    assert_equal %w[run_start run_resume step], kinds
  end

  def test_run_whose_file_is_gone_starts_again_with_all_its_records
    [-> { File.unlink(@path) }, -> { File.rename(@path, "#{@path}.moved") }, -> { FileUtils.rm_r(@dir) },
     -> { File.write("#{@path}.new", "#{START}{"); File.rename("#{@path}.new", @path) }].each do |remove|
      FileUtils.mkdir_p(@dir)
      writer = started
      steps(2) { |step| writer.write(step) }
      remove.call
      message = warned do
        writer.instance_variable_set(:@look_at, 0)
        steps(2, from: 3) { |step| writer.write(step) }
        writer.write(kind: "run_end", reason: "completed")
      end
      assert_equal [1, %w[run_start step step step step run_end]], [message.lines.size, kinds]
      assert_raises(Toyspec::StreamRefusedError) { writer.write(kind: "note", text: "") }
    end
    assert_equal "#{START}{", File.read("#{@path}.prev")
  end

  def test_each_writer_reports_once_that_its_file_is_gone
    writer = started
    message = warned do
      3.times do |number|
        File.unlink(@path)
        writer.instance_variable_set(:@look_at, 0)
        steps(1, from: number + 1) { |step| writer.write(step) }
      end
    end
    assert_equal [1, %w[run_start step step step]], [message.lines.size, kinds]
  end

  def test_file_that_vanishes_shortly_before_the_end_is_there_afterwards
    writer = started
    File.unlink(@path)
    warned { writer.finish }
    assert_equal %w[run_start run_end], kinds
  end

  def test_log_that_is_appended_to_goes_on_in_a_new_file
    path = File.join(@dir, "metrics.jsonl")
    entry = { step: 1, wall_time_ms: 1.0, loss: 1.0, grad_norm: 1.0, throughput_samples_per_sec: 1.0 }
    writer = Toyspec::StreamWriter.append(path, "metrics/v1")
    writer.write(entry)
    File.rename(path, "#{path}.1")
    writer.instance_variable_set(:@look_at, 0)
    assert_match(/deleted, renamed or replaced/, warned { writer.write(entry.merge(step: 2)) })
    assert_equal [1, 2], ["#{path}.1", path].map { |name| JSON.parse(File.read(name))["step"] }
  end

  def test_threads_share_a_writer
    writer = started
    threads = Array.new(4) { |thread| Thread.new { 200.times { |step| writer.write(kind: "note", text: "#{thread} #{step}") } } }
    threads.each(&:join)
    assert_equal [801, 0], [Toyspec.read(@dir).records, Toyspec.read(@dir).gap_bytes]
  end
end
