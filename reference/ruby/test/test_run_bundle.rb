# frozen_string_literal: true

require_relative "bundle_test"

# The calls and the bytes of the system that toy/v1 comes from.
class TestRunBundle < BundleTest
  Llama = Struct.new(:vocab, :d_model, :n_layers, :ctx)
  Vit = Struct.new(:image_size, :patch_size, :d_model, :n_layers, :num_classes)

  def bundle(id = "llama-1", **options)
    Toyspec::RunBundle.new(@dir, id, **options)
  end

  def test_writes_what_the_source_writes
    run = bundle(backend: "cuda")
    run.git!("4bf48d3", "main")
    run.run_start_llama!(Llama.new(256, 64, 2, 128), 2, 3e-4, 7)
    run.step!(1, 2.5)
    run.step!(2, Float::NAN)
    run.run_end!(2, Float::NAN)
    run.step!(3, 1.0)
    lines = File.readlines(run.events_path)
    assert_match(/\A\{"kind":"run_start","schema":"toy\/v1","t":[^,]+,"started_at":"[^"]+Z","run_id":"llama-1","phase":"train","host":/, lines[0])
    assert_includes lines[0], %("backend":{"kind":"cuda"},"git":{"sha":"4bf48d3","branch":"main"},)
    assert_includes lines[0], %("model":{"arch":"llama","vocab":256,"d_model":64,"n_layers":2},"config":{"context":128,"steps":2,"lr":0.0003,"seed":7}})
    assert_match(/\A\{"kind":"step","phase":"train","t":[^,]+,"step":2,"loss":null\}\n\z/, lines[2])
    assert_match(/\A\{"kind":"run_end","t":[^,]+,"ended_at":"[^"]+Z","reason":"completed","final_step":2,"final_loss":null,"exit_code":0\}\n\z/, lines[3])
    assert_equal [false, 4], [run.active, lines.size]
  end

  def test_llama_call_writes_what_the_plain_call_writes
    first, second = bundle("a"), bundle("b")
    first.run_start_llama!(Llama.new(256, 64, 2, 128), 2, 1, 7)
    second.run_start!("llama", 256, 64, 2, 128, 2, 1, 7)
    plain = [first, second].map { |run| File.read(run.events_path).gsub(/"(t|started_at|run_id)":[^,]+,/, "") }
    assert_equal plain[0], plain[1]
    assert_includes plain[0], %("lr":1.0)
  end

  def test_vision_bundle_has_no_context
    run = bundle("vit-1")
    run.run_start_vit!(Vit.new(32, 4, 64, 2, 10), 2, 1, 7)
    model = %("model":{"arch":"vit","image_size":32,"patch_size":4,"d_model":64,"n_layers":2,"num_classes":10})
    assert_includes File.read(run.events_path), %(#{model},"config":{"steps":2,"lr":1.0,"seed":7}})
  end

  def test_run_id_is_a_safe_name
    ["../a", "a b", "demo\n", "-rf", "x" * 129].each { |id| assert_raises(Toyspec::RefusedError) { bundle(id) } }
    ["a", "x" * 128, "A-b_C.9Z"].each { |id| assert bundle(id).active }
  end

  def test_run_without_an_id_is_anonymous
    assert_equal %w[anonymous anonymous], [Toyspec::RunBundle.new(@dir).tap(&:close), bundle("")].map(&:run_id)
  end

  def test_stream_that_cannot_be_opened_is_reported_and_training_goes_on
    Dir.mkdir(File.join(@dir, "llama-1"))
    Dir.mkdir(File.join(@dir, "llama-1", "events.jsonl"))
    run = nil
    _, err = capture_io { run = bundle }
    assert_match(/events.jsonl: not a regular file/, err)
    run.run_start!("x", 1, 1, 1, 1, 1, 1, 1)
    run.step!(1, 1.0)
    run.run_end!(1, 1.0)
    refute run.active
    assert_equal %w[events.jsonl], Dir.children(run.dir)
  end

  def test_forked_child_logs_nothing_and_goes_on
    run = bundle
    run.run_start!("x", 1, 1, 1, 1, 1, 1, 1)
    child = fork do
      exit!(1) if run.active
      exit!(2) unless capture_io { [run.step!(1, 1.0), run.run_end!(1, 1.0)] } == ["", ""]
      exit!(0)
    end
    Process.wait(child)
    run.step!(1, 2.0)
    assert_equal [0, 2, true], [$?.exitstatus, File.readlines(run.events_path).size, run.active]
  end

  def test_step_that_goes_back_is_logged_as_plain_values_and_does_not_stop_the_training
    run = bundle
    run.run_start!("x", 1, 1, 1, 1, 1, 1, 1)
    _, err = capture_io { [[2, 1.0], [1, 3.0], [2, nil], [3, 0.5]].each { |step, loss| run.step!(step, loss) } }
    run.run_end!(3, 0.5)
    records = File.readlines(run.events_path).map { |line| JSON.parse(line) }
    assert_equal %w[run_start step scalars scalars step run_end], records.map { |record| record["kind"] }
    assert_equal [[1, { "loss" => 3.0 }], [2, { "loss" => nil }]], records[2..3].map { |record| record.values_at("step", "values") }
    assert_equal [1, 0], [err.lines.size, run.dropped]
    assert_match(/step 1 after step 2/, err)
  end

  def test_full_disk_is_reported_once_and_logging_resumes
    run = bundle
    run.run_start!("x", 1, 1, 1, 1, 1, 1, 1)
    _, err = capture_io do
      Faults.break(run.instance_variable_get(:@writer), :syswrite, Errno::ENOSPC)
      (1..3).each { |step| run.step!(step, 1.0) }
      Faults.repair(run.instance_variable_get(:@writer), :syswrite)
      run.step!(4, 1.0)
      run.run_end!(4, 1.0)
    end
    assert_equal [3, 2], [run.dropped, err.lines.size]
    assert_equal %w[run_start note step run_end], File.readlines(run.events_path).map { |line| JSON.parse(line)["kind"] }
    assert_includes File.readlines(run.events_path)[1], "3 records"
  end

  def test_run_start_that_did_not_fit_is_written_with_the_next_record
    run = bundle
    capture_io do
      Faults.break(run.instance_variable_get(:@writer), :syswrite, Errno::ENOSPC)
      run.run_start!("x", 1, 1, 1, 1, 1, 1, 1)
      Faults.repair(run.instance_variable_get(:@writer), :syswrite)
      run.step!(1, 1.0)
    end
    assert_equal %w[run_start note step], File.readlines(run.events_path).map { |line| JSON.parse(line)["kind"] }
  end

  def test_log_reads_runs_back_in_order_of_their_loss
    { "a" => 2.0, "b" => 1.0, "c" => nil }.each do |id, loss|
      run = bundle(id)
      run.run_start!("x", 1, 1, 1, 1, 1, 1, 1)
      run.step!(1, loss) if loss
    end
    logs = Toyspec::RunLog.scan(@dir)
    assert_equal %w[b a c], logs.map(&:run_id)
    assert_equal [[1.0], [[1, 1.0]], 1.0, nil, File.join(@dir, "b")], [logs[0].loss_curve, logs[0].loss_points, logs[0].final_loss, logs[0].run_end, logs[0].dir]
    assert_raises(Toyspec::Error) { Toyspec::RunLog.open(@dir) }
  end

  def test_scan_can_leave_out_what_cannot_be_opened
    { "a" => START, "b" => "#{START}{\n" }.each do |id, stream|
      Dir.mkdir(File.join(@dir, id))
      File.write(File.join(@dir, id, "events.jsonl"), stream)
    end
    assert_raises(Toyspec::StreamError) { Toyspec::RunLog.scan(@dir) }
    logs = nil
    assert_match(/b: left out: .*:2: invalid-json/, capture_io { logs = Toyspec::RunLog.scan(@dir, on_error: "skip") }[1])
    assert_equal ["run"], logs.map(&:run_id)
  end

  def test_log_answers_about_the_run_in_its_own_phase
    File.write(@path, START + [%({"kind":"step","t":1,"step":1.0,"loss":3.0}), %({"kind":"step","t":2,"step":2,"loss":null}),
                               %({"kind":"step","t":3,"step":1,"phase":"decode","loss":9.0})].join("\n") + "\n")
    log = Toyspec::RunLog.open(@dir)
    assert_equal [[3.0, nil], [[1, 3.0], [2, nil]], nil, 3], [log.loss_curve, log.loss_points, log.final_loss, log.steps.size]
  end
end
