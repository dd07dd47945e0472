# frozen_string_literal: true

module Toyspec
  # The views of a kaun/v1 run: what is known of each tag. As lenient as the readers of the source system.
  module KaunViews
    FIELDS = PROFILES["kaun/v1"]["kinds"]["scalar"].to_h { |field| [field["name"], field] }.freeze
    # Run ids have the same form in all profiles.
    RUN_ID = PROFILES["toy/v1"]["kinds"]["run_start"].find { |field| field["name"] == "run_id" }
    # Without /i, which takes a long s for an s: only the case of ASCII letters is ignored.
    SMALLER_IS_BETTER = /[Ll][Oo][Ss][Ss]|[Ee][Rr][Rr][Oo][Rr]/

    # One value of a tag; without an epoch, its epoch is nil.
    Point = Struct.new(:step, :epoch, :value)

    module_function

    # Returns the run id of the manifest where it has a valid one, else the name of the directory.
    def run_id(directory)
      manifest = Toyspec.read_object(File.join(directory, Profiles::MANIFEST)) || {}
      Validity.member(manifest, [RUN_ID], "run_id") { File.basename(File.expand_path(directory)) }
    end

    # Returns for each tag the number of its scalars as count, and the latest and best of them as points.
    def tags(records)
      groups = records.filter_map { |record| scalar(record) }.group_by { |scalar| scalar["tag"] }
      groups.to_h { |tag, scalars| [tag, view(tag, scalars)] }
    end

    def view(tag, scalars)
      points = scalars.map { |scalar| Point.new(*scalar.values_at("step", "epoch", "value")) }
      minimize = scalars.filter_map { |scalar| [scalar["minimize"]] if scalar.key?("minimize") }.last
      smaller = minimize ? minimize.first : SMALLER_IS_BETTER.match?(tag)
      finite = points.reject { |point| point.value.nil? }
      best = finite.min_by.with_index { |point, index| [smaller ? point.value : -point.value, index] }
      { "count" => points.size, "latest" => latest(points), "best" => best }.compact
    end

    # Returns the point of the largest step, of those of the largest epoch, of those the first.
    def latest(points)
      points.max_by.with_index { |point, index| [point.step, point.epoch || -1, -index] }
    end

    # Returns the valid members of a scalar; nil where step, tag or value is missing or invalid.
    def scalar(record)
      return unless record.kind == "scalar"

      whole = record.value.merge(truncated(record.value, "step"), truncated(record.value, "epoch"))
      members = whole.select { |name, value| FIELDS.key?(name) && Validity.valid?(value, FIELDS[name]) }
      members if %w[step tag value].all? { |name| members.key?(name) }
    end

    # Returns a member that is a fraction, as the integer next to it towards zero.
    def truncated(record, name)
      record[name].is_a?(Float) ? { name => record[name].to_i } : {}
    end
  end
end
