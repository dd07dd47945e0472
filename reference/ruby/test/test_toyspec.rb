# frozen_string_literal: true

require "minitest/autorun"
require "stringio"
require "tmpdir"
require_relative "../lib/toyspec"

# What the corpus cannot show: files, locks, and the source system's own methods.
class TestToyspec < Minitest::Test
  START = %({"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n)
  STOP = %({"kind":"run_end","t":9.0,"reason":"completed"}\n)
  Llama = Struct.new(:vocab, :d_model, :n_layers, :ctx)
  Vit = Struct.new(:image_size, :patch_size, :d_model, :n_layers, :num_classes)

  def setup
    @dir = Dir.mktmpdir
    @path = File.join(@dir, "events.jsonl")
  end

  def teardown
    FileUtils.rm_r(@dir)
  end

  def test_every_cut_is_accounted_for
    stream = "#{START}#{STOP}".b
    stream.bytesize.times do |cut|
      report = Toyspec.read(StringIO.new(stream.byteslice(0, cut)))
      assert_equal "torn", report.state
      assert_equal cut, report.committed + report.fragment + report.gap_bytes
    end
  end

  def test_modes
    damaged = "#{START}{\n#{STOP}"
    assert_equal 2, Toyspec.read(StringIO.new(damaged), mode: "salvage").records
    assert_equal %w[invalid-json stopped], Toyspec.read(StringIO.new(damaged), mode: "prefix").gaps.map(&:reason)
    error = assert_raises(Toyspec::StreamError) { Toyspec.read(StringIO.new(damaged)) }
    assert_equal [2, "invalid-json"], [error.line, error.reason]
    assert_raises(Toyspec::StreamError) { Toyspec.read(StringIO.new(START), mode: "strict") }
  end

  def test_numbers_read_back
    random = Random.new(7)
    20_000.times do
      number = random.bytes(8).unpack1("E")
      assert_equal number, Toyspec::Numbers.binary64_text(number).to_f if number.finite?
      narrow = random.bytes(4).unpack1("e")
      assert_equal narrow, Toyspec::Numbers.to_binary32(Toyspec::Numbers.binary32_text(narrow).to_f) if narrow.finite?
    end
  end

  def test_records_that_no_reader_accepts_are_refused
    [{ kind: "step", t: 1 }, { kind: "step", t: -1, step: 1 }, { kind: "step", t: 1, step: 1.5 }, { t: 1 },
     { kind: "run_start", schema: "toy/v1", t: 0, run_id: "a/b" }].each do |record|
      assert_raises(Toyspec::RefusedError) { Toyspec::Canonical.encode("toy/v1", record) }
    end
  end

  def test_bundle_writes_what_the_source_writes
    bundle = Toyspec::RunBundle.new(@dir, "llama-1")
    bundle.git!("4bf48d3", "main")
    bundle.run_start_llama!(Llama.new(256, 64, 2, 128), steps: 2, lr: 3e-4, seed: 7)
    bundle.step!(1, 2.5)
    bundle.step!(2, Float::NAN)
    bundle.run_end!(2, Float::NAN)
    bundle.step!(3, 1.0)
    lines = File.readlines(bundle.events_path)
    assert_match(/\A\{"kind":"run_start","schema":"toy\/v1","t":[^,]+,"started_at":"[^"]+Z","run_id":"llama-1","phase":"train","host":/, lines[0])
    assert_match(/"git":\{"sha":"4bf48d3","branch":"main"\},"model":\{"arch":"llama","vocab":256,"d_model":64,"n_layers":2\}/, lines[0])
    assert_match(/\A\{"kind":"step","phase":"train","t":[^,]+,"step":2,"loss":null\}\n\z/, lines[2])
    assert_match(/"reason":"completed","final_step":2,"final_loss":null,"exit_code":0\}\n\z/, lines[3])
    assert_equal [false, 4], [bundle.active, lines.size]
    assert_path_exists File.join(@dir, "llama-1", "events.jsonl")
  end

  def test_vision_bundle_has_no_context
    bundle = Toyspec::RunBundle.new(@dir, "vit-1")
    bundle.run_start_vit!(Vit.new(32, 4, 64, 2, 10), steps: 2, lr: 1, seed: 7)
    event = JSON.parse(File.read(bundle.events_path))
    assert_equal [%w[steps lr seed].sort, 10], [event["config"].keys, event["model"]["num_classes"]]
  end

  def test_log_reads_runs_back_in_order_of_their_loss
    { "a" => 2.0, "b" => 1.0, "c" => nil }.each do |id, loss|
      bundle = Toyspec::RunBundle.new(@dir, id)
      bundle.run_start!(arch: "x", vocab: 1, d_model: 1, n_layers: 1, context: 1, steps: 1, lr: 1, seed: 1)
      bundle.step!(1, loss) if loss
    end
    logs = Toyspec::RunLog.scan(@dir)
    assert_equal %w[b a c], logs.map(&:run_id)
    assert_equal [[[1, 1.0]], 1.0, nil], [logs[0].loss_curve, logs[0].final_loss, logs[0].run_end]
    assert_raises(Toyspec::Error) { Toyspec::RunLog.open(@dir) }
  end

  def test_existing_streams
    { START + STOP => "complete", "#{START}{\n" => "damaged" }.each do |stream, state|
      File.write(@path, stream)
      error = assert_raises(Toyspec::StreamRefusedError) { Toyspec::StreamWriter.open(@dir, exist: "resume") }
      assert_includes error.message, state
      assert_equal stream, File.read(@path)
    end
    assert_raises(Toyspec::StreamRefusedError) { Toyspec::StreamWriter.open(@dir, exist: "fail") }
    Toyspec::StreamWriter.open(@dir).close
    assert_path_exists "#{@path}.prev"
  end

  def test_fragment_is_set_aside_and_the_stream_is_held
    File.write(@path, %(#{START}{"kind":"step","t":5.0,"step":1}\n{"kind":"st))
    writer = Toyspec::StreamWriter.open(@dir, exist: "resume")
    assert_raises(Toyspec::StreamRefusedError) { Toyspec::StreamWriter.open(@dir, exist: "resume") }
    writer.write(kind: "run_resume", from_step: 1)
    writer.close
    assert_equal '{"kind":"st', File.read("#{@path}.torn-#{START.bytesize + 33}")
    times = []
    Toyspec.read(@dir) { |record| times << record.value["t"] }
    assert_equal 3, times.size
    assert_operator times.last, :>=, 5
  end

  def test_records_that_break_a_stream_are_refused
    File.write(@path, START)
    writer = Toyspec::StreamWriter.open(@dir, exist: "resume")
    writer.write(kind: "step", step: 2)
    [{ kind: "step", step: 2 }, { kind: "run_start", schema: "toy/v1", run_id: "run" }].each do |record|
      assert_raises(Toyspec::RefusedError) { writer.write(record) }
    end
    writer.close
  end

  def test_forked_child_does_not_write
    File.write(@path, START)
    writer = Toyspec::StreamWriter.open(@dir, exist: "resume")
    child = fork do
      writer.write(kind: "note", text: "child")
      exit!(1)
    rescue Toyspec::StreamRefusedError
      exit!(0)
    end
    Process.wait(child)
    assert_equal [0, START], [$?.exitstatus, File.read(@path)]
    writer.close
  end
end
