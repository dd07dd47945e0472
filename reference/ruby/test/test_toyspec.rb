# frozen_string_literal: true

# Runs all tests. What the corpus cannot show: files, locks, problems, and the source system's own methods.
require_relative "bundle_test"
Dir[File.join(__dir__, "test_*.rb")].each { |path| require path unless path == File.expand_path(__FILE__) }

# Reading, and the text of records.
class TestToyspec < BundleTest
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

  def test_values_that_no_reader_accepts_are_refused
    note = { kind: "note", t: 1, text: "" }
    [{ text: "\xff" }, { "\xff" => 1 }, { text: "\xff".b }, { big: 10**400 }, { big: [-10**400] }, { a: 1, "a" => 2 },
     { map: { b: 1, "b" => 2 } }, { text: "\xED\xA0\x80" }].each do |members|
      assert_raises(Toyspec::RefusedError, members.inspect) { Toyspec::Canonical.encode("toy/v1", note.merge(members)) }
    end
    assert_equal %({"kind":"note","t":1.0,"text":"\u00e9"}\n), Toyspec::Canonical.encode("toy/v1", note.merge(text: "\u00e9".b))
  end

  def test_integers_may_be_written_with_a_fraction
    values = []
    stream = %(#{START}{"kind":"step","t":1,"step":1.0,"wall_us":71200.0,"tokens":1.5,"loss":2.0,"x":3.0}\n)
    Toyspec.read(StringIO.new(stream)) { |record| values << record.value }
    assert_equal [Integer, Integer, Float, Float, Float], values[1].values_at("step", "wall_us", "tokens", "loss", "x").map(&:class)
    Toyspec.read(StringIO.new(%({"step":1.0,"wall_time_ms":2.0}\n))) { |record| assert_kind_of Float, record.value["step"] }
  end

  def test_first_record_decides_the_profile
    { %({"kind":"run_start"}) => "toy/v1", %({"kind":"x","t":1}) => "toy/v1", %({"kind":"x","t":"1"}) => nil,
      %({"type":"scalar"}) => "kaun/v1", %({"type":"user"}) => nil, %({"step":1,"wall_time_ms":2}) => "metrics/v1",
      %({"step":1}) => nil, "" => "toy/v1", "x" => nil }.each do |line, profile|
      report = Toyspec.read(StringIO.new("#{line}\n"), mode: "salvage", name: "log.jsonl")
      assert_equal [profile], [report.profile], line
    end
    assert_equal "metrics/v1", Toyspec.read(StringIO.new("x\n"), mode: "salvage", name: "metrics.jsonl.gz").profile
    assert_equal "toy/v1", Toyspec.read(StringIO.new("x\n"), mode: "salvage", name: "events.jsonl").profile
    assert_equal "complete", Toyspec.read(StringIO.new("{}\n")).state
  end

  def test_manifest_decides_where_the_record_does_not
    File.write(@path, %({"type":"image"}\n))
    assert_nil Toyspec.read(@dir).profile
    File.write(File.join(@dir, "run.json"), %({"run_id":"r"}))
    assert_equal "kaun/v1", Toyspec.read(@dir).profile
    File.write(File.join(@dir, "run.json"), %({"run_id":"r","kind":"run_start"}))
    assert_nil Toyspec.read(@path).profile
  end
end
