# frozen_string_literal: true

module Toyspec
  # The views of a run, as the chapter Views of the specification defines them: final loss, loss curve and others.
  module Summary
    # What a member is that is missing or invalid; nil is a number that was not finite.
    ABSENT = :absent

    module_function

    # Returns the views of a stream, a path or a bundle's directory by their names, and the report of the reading.
    def of(source, **options)
      records = []
      report = Toyspec.read(source, mode: "salvage", **options) { |record| records << record }
      directory = source.is_a?(String) && File.directory?(source) ? source : nil
      views = of_records(report.profile, records, directory)
      views.merge!(ranks(directory, views, report, **options)) if directory && report.profile == "toy/v1"
      [views, report]
    end

    # Returns the views of the ranks of a run; none where no other than the first has a stream.
    def ranks(directory, views, report, **options)
      others = BundleFiles.ranks(directory)
      return {} if others.empty?

      rows = [rank_row(0, views, report)] + others.map do |rank|
        rank_row(rank, *of(File.join(directory, BundleFiles.rank_file(rank)), **options, profile: "toy/v1"))
      end
      first = first_stopped(rows)
      first ? { "ranks" => rows, "first_stopped" => first } : { "ranks" => rows }
    end

    def rank_row(rank, views, report)
      { "rank" => rank, "state" => report.state, **views.slice("steps", "last_step", "reason") }
    end

    # Returns the rank that came least far; of several, the only one whose stream is not complete; else nil.
    def first_stopped(rows)
      lowest = rows.group_by { |row| row.fetch("last_step", -1) }.min_by(&:first).last
      lowest = lowest.reject { |row| row["state"] == "complete" } if lowest.size > 1
      lowest.first["rank"] if lowest.size == 1
    end

    # Returns the views of the records of a whole stream. A view that has no value is absent.
    def of_records(profile, records, directory = nil)
      views =
        case profile
        when "toy/v1" then toy(records)
        when "metrics/v1" then metrics(whole(records, profile))
        when "kaun/v1" then { "run_id" => directory ? KaunViews.run_id(directory) : ABSENT, "tags" => KaunViews.tags(records) }
        else {}
        end
      views.reject { |_, value| value == ABSENT }
    end

    # Returns the records of a known kind of which no required member is missing or invalid.
    def whole(records, profile)
      records.select do |record|
        fields = Profiles.fields(profile, record.value)
        fields && Validity.complete?(record.value, fields)
      end
    end

    def toy(records)
      phase, latest = Attempts.own_phase(records), Attempts.latest(records)
      steps = own_steps(latest, phase)
      curve = loss_points(steps).map(&:last)
      ending = ending(latest)
      {
        "run_id" => member(records.find { |record| record.kind == "run_start" }, "run_id"), "phase" => phase,
        "steps" => steps.size, "last_step" => last(steps.map { |record| record.value["step"] }),
        "loss_curve" => curve, "final_loss" => final_loss(ending, curve),
        "duration_seconds" => duration(latest), "reason" => member(ending, "reason")
      }
    end

    # Returns the run_end that counts, nil where the run goes on after it.
    def ending(records)
      last = records.reverse.find { |record| %w[run_end run_resume].include?(record.kind) }
      last if last&.kind == "run_end"
    end

    def own_steps(records, phase)
      whole(records.select { |record| record.kind == "step" }, "toy/v1").select { |record| Attempts.phase(record) { phase } == phase }
    end

    # Returns pairs of step and loss of the step events that have a loss; nil is a loss that was not finite.
    def loss_points(steps)
      points = steps.map { |record| [record.value["step"], member(record, "loss")] }.reject { |_, loss| loss == ABSENT }
      points.map { |step, loss| [step, loss&.to_f] }
    end

    def final_loss(ending, curve)
      stated = member(ending, "final_loss")
      stated == ABSENT ? last(curve) : stated&.to_f
    end

    def duration(records)
      known = records.select { |record| PROFILES["toy/v1"]["kinds"].key?(record.kind) }
      t = known.reverse_each.lazy.map { |record| member(record, "t") }.find { |value| value != ABSENT }
      t.nil? ? ABSENT : t.to_f
    end

    def metrics(entries)
      values = entries.map(&:value)
      losses = values.map { |entry| entry["loss"] && Numbers.to_binary32(entry["loss"].to_f) }
      wall_time = last(values.map { |entry| entry["wall_time_ms"] })
      {
        "steps" => values.size, "last_step" => last(values.map { |entry| entry["step"] }),
        "loss_curve" => losses, "final_loss" => last(losses),
        "duration_seconds" => wall_time == ABSENT ? ABSENT : wall_time / 1000.0
      }.merge(statistics(losses.compact)).merge("non_finite" => losses.count(nil))
    end

    def statistics(losses)
      return {} if losses.empty?

      # Array#sum compensates for rounding, which the specification does not.
      mean = losses.inject(0.0) { |sum, loss| sum + loss } / losses.size
      { "loss_min" => losses.min, "loss_mean" => Numbers.to_binary32(mean), "loss_max" => losses.max }
    end

    # Returns a member of a toy/v1 record where it is there and valid, else ABSENT; of no record too.
    def member(record, name)
      record ? Validity.member(record.value, PROFILES["toy/v1"]["kinds"][record.kind], name) { ABSENT } : ABSENT
    end

    def last(values)
      values.empty? ? ABSENT : values.last
    end
  end
end
