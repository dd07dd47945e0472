# frozen_string_literal: true

require "socket"
require "timeout"
require_relative "bundle_test"

# Existing streams, side files and locks.
class TestStreamWriter < BundleTest
  LONG = "#{'{"kind":"note","text":"'}#{"x" * 200_000}"

  def test_existing_streams
    { "#{START}{\n" => "damaged", "{}\n" => "no known format", %({"type":"scalar"}\n) => "kaun" }.each do |stream, state|
      File.write(@path, stream)
      error = assert_raises(Toyspec::StreamRefusedError) { start(exist: "resume") }
      assert_includes error.message, state
      assert_equal [stream, %w[events.jsonl]], [content, names]
    end
    assert_raises(Toyspec::StreamRefusedError) { start(exist: "fail") }
  end

  def test_run_goes_on_after_its_end
    File.write(@path, START + STOP)
    writer = start(exist: "resume")
    assert_raises(Toyspec::RefusedError) { writer.write({ kind: "note", text: "before run_resume" }) }
    writer.write({ kind: "run_resume", from_step: 0 })
    writer.finish
    assert_equal %w[run_start run_end run_resume run_end], content.lines.map { |line| JSON.parse(line)["kind"] }
  end

  def test_append_refuses_streams_of_other_formats
    File.write(File.join(@dir, "metrics.jsonl"), "{}\n")
    assert_raises(Toyspec::StreamRefusedError) { Toyspec::StreamWriter.append(File.join(@dir, "metrics.jsonl"), "metrics/v1") }
  end

  def test_every_earlier_log_is_kept
    5.times { |number| start.tap { |writer| writer.write(RUN_START.merge(run_id: "run-#{number}")) }.close }
    assert_equal %w[events.jsonl events.jsonl.prev events.jsonl.prev-1 events.jsonl.prev-2 events.jsonl.prev-3], names
    kept = ["prev-1", "prev-2", "prev-3", "prev"].map { |name| File.read("#{@path}.#{name}")[/run-\d/] }
    assert_equal %w[run-0 run-1 run-2 run-3], kept
  end

  def test_empty_stream_is_not_kept
    File.write("#{@path}.prev", START)
    File.write(@path, "")
    started.close
    assert_equal [%w[events.jsonl events.jsonl.prev], START], [names, File.read("#{@path}.prev")]
  end

  def test_start_that_is_refused_leaves_no_file
    assert_raises(Toyspec::RefusedError) { start.tap { |writer| @writer = writer }.write(RUN_START.merge(run_id: "a b")) }
    @writer.close
    assert_empty names
    File.write(@path, START)
    start.close
    assert_equal [START, %w[events.jsonl]], [content, names]
  end

  def test_fragments_of_any_length_are_kept_each_in_its_own_file
    [LONG, '{"kind":"st', LONG.upcase].each do |fragment|
      File.write(@path, START + fragment)
      start(exist: "resume").close
      assert_equal START, content
    end
    side = "#{@path}.torn-#{START.bytesize}"
    assert_equal [LONG, '{"kind":"st', LONG.upcase], ["", "-2", "-3"].map { |tail| File.read(side + tail) }
  end

  def test_side_file_that_does_not_fit_is_removed_and_the_lock_is_released
    File.write(@path, START + LONG)
    child = fork do
      Process.setrlimit(Process::RLIMIT_FSIZE, 100_000)
      start(exist: "resume")
      exit!(1)
    rescue Errno::EFBIG
      exit!(Toyspec::Locks.take(File.open(@path, "r+")) ? 0 : 2)
    end
    Process.wait(child)
    assert_equal [0, START + LONG, %w[events.jsonl]], [$?.exitstatus, content, names]
  end

  def test_cut_that_fails_leaves_no_side_file
    File.write(@path, "#{START}{")
    original = File.instance_method(:truncate)
    File.silenced_define(:truncate) { |_| raise Errno::EIO, "injected" }
    assert_raises(Errno::EIO) { start(exist: "resume") }
    assert_equal ["#{START}{", %w[events.jsonl]], [content, names]
  ensure
    File.silenced_define(:truncate, original)
  end

  def test_directory_of_the_side_file_is_synced_before_the_cut
    left_out "strace is not installed" unless system("strace -o /dev/null true", err: File::NULL)
    File.write(@path, "#{START}{")
    script = "Toyspec::StreamWriter.open(ARGV[0], exist: 'resume')"
    library = File.expand_path("../lib/toyspec", __dir__)
    log = File.join(Dir.tmpdir, "toyspec-#{Process.pid}.strace")
    system("strace", "-f", "-y", "-o", log, "-e", "trace=fsync,ftruncate", "ruby", "-r#{library}", "-e", script, @dir)
    calls = File.readlines(log).map { |line| line[/(fsync|ftruncate)\(\d+<[^>]*?([^\/>]+)>/] && "#{$1} #{$2}" }.compact
    assert_equal ["fsync events.jsonl.torn-#{START.bytesize}", "fsync #{File.basename(@dir)}", "ftruncate events.jsonl", "fsync events.jsonl"], calls
  ensure
    FileUtils.rm_f(log) if log
  end

  def test_a_second_writer_is_refused
    writer = resumed
    %w[resume replace fail].each { |exist| assert_raises(Toyspec::StreamRefusedError, exist) { start(exist:) } }
    refute File.open(@path).flock(File::LOCK_EX | File::LOCK_NB)
    writer.close
    start(exist: "resume").close
  end

  # Python's lockf takes the kind of lock that a program on the JVM takes.
  def test_writers_that_take_record_locks_are_seen_and_see_this_one
    left_out "python3 is not installed" unless system("python3 -c 'import fcntl'", err: File::NULL)
    try = ["python3", "-c", "import fcntl,sys\nf = open(sys.argv[1], 'r+')\nfcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint(1, flush=True)\nsys.stdin.read()", @path]
    writer = resumed
    refute system(*try, in: File::NULL, out: File::NULL, err: File::NULL)
    writer.close
    IO.popen(try, "r+") do |holder|
      holder.gets
      assert_raises(Toyspec::StreamRefusedError) { start(exist: "resume") }
      holder.close_write
    end
    start(exist: "resume").close
  end

  def test_missing_kinds_of_locks_do_not_mean_another_writer
    [Errno::ENOLCK, Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EINVAL].each do |error|
      file = Struct.new(:second) do
        define_method(:flock) { |_| raise error }
        define_method(:fcntl) { |*| raise second }
      end
      assert Toyspec::Locks.take(file.new(error))
      refute Toyspec::Locks.take(file.new(Errno::EAGAIN))
    end
  end

  def test_file_that_is_replaced_between_opening_and_locking_is_opened_again
    File.write(@path, START)
    path, replaced = @path, false
    locks = Toyspec::Locks.singleton_class
    locks.alias_method(:original_take, :take)
    locks.silenced_define(:take) do |file|
      unless replaced
        replaced = true
        File.rename(path, "#{path}.old")
        File.write(path, File.read("#{path}.old"))
      end
      original_take(file)
    end
    resumed_writer = start(exist: "resume")
    resumed_writer.write(kind: "run_resume", from_step: 0)
    assert_equal [2, START], [content.lines.size, File.read("#{path}.old")]
  ensure
    locks.silenced_define(:take, locks.instance_method(:original_take))
  end

  def test_only_regular_files_are_opened
    outside = Dir.mktmpdir
    makers = [-> { Dir.mkdir(@path) }, -> { File.mkfifo(@path) }, -> { File.symlink("/dev/null", @path) },
              -> { Dir.chdir(outside) { UNIXServer.new("s") } && File.symlink(File.join(outside, "s"), @path) }]
    makers.each do |make|
      make.call
      %w[replace resume fail].each do |exist|
        error = Timeout.timeout(5) { assert_raises(Toyspec::StreamRefusedError) { start(exist:) } }
        assert_includes error.message, @path
      end
      assert_equal %w[events.jsonl], names
      FileUtils.rm_r(@path)
    end
  ensure
    FileUtils.rm_r(outside)
  end

  def test_run_is_ended_as_its_block_is_left
    [[nil, "completed"], [Interrupt, "interrupted"], [ArgumentError, "errored"]].each do |error, reason|
      begin
        start do |writer|
          writer.write(RUN_START)
          writer.write(kind: "step", step: 3, loss: 2.5)
          raise error, "why" if error
        end
      rescue Interrupt, ArgumentError
        nil
      end
      ending = JSON.parse(content.lines.last)
      assert_equal [reason, 3, 2.5, error == ArgumentError ? "ArgumentError: why" : nil], ending.values_at("reason", "final_step", "final_loss", "error")
    end
  end

  def test_records_that_break_a_stream_are_refused
    writer = resumed
    writer.write(kind: "step", step: 2)
    [{ kind: "step", step: 2 }, RUN_START].each { |record| assert_raises(Toyspec::RefusedError) { writer.write(record) } }
    writer.close
  end

  def test_resumed_run_begins_with_run_resume
    File.write(@path, %(#{START}{"kind":"step","t":5.0,"step":1.0}\n))
    writer = start(exist: "resume")
    before = content
    assert_raises(Toyspec::RefusedError) { writer.write(kind: "step", step: 2) }
    assert_equal before, content
    writer.write(kind: "run_resume", from_step: 1)
    assert_raises(Toyspec::RefusedError) { writer.write(kind: "step", step: 1) }
    writer.write(kind: "step", step: 2)
    writer.close
    times = []
    Toyspec.read(@dir) { |record| times << record.value["t"] }
    assert_operator times.last, :>=, 5
  end

  def test_forked_child_does_not_write
    writer = resumed
    before = content
    child = fork do
      writer.write(kind: "note", text: "child")
      exit!(1)
    rescue Toyspec::StreamRefusedError
      exit!(0)
    end
    Process.wait(child)
    assert_equal [0, before], [$?.exitstatus, content]
    writer.close
  end

  private

  # Skips a test and reports the reason; in CI, where it must run, fails it.
  def left_out(reason)
    flunk "this test must run in CI: #{reason}" if ENV["CI"]

    warn "left out: #{reason}"
    skip reason
  end
end

# Defines a method again without a warning.
class Module
  def silenced_define(...)
    verbose, $VERBOSE = $VERBOSE, nil
    define_method(...)
  ensure
    $VERBOSE = verbose
  end
end
