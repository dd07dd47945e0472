# frozen_string_literal: true

module Toyspec
  # Decides which profile a stream follows, and what the schema says about a record.
  module Profiles
    MANIFEST = "run.json"

    module_function

    # Returns the profile of a stream by its first readable record; nil where it follows none.
    def of_record(record, manifest:)
      return "toy/v1" if record["kind"] == "run_start" || (record["kind"].is_a?(String) && record["t"].is_a?(Numeric))
      return "kaun/v1" if record["type"] == "scalar"
      return "metrics/v1" if record.key?("step") && record.key?("wall_time_ms")

      "kaun/v1" if manifest
    end

    # Returns the profile of a stream without a readable record; nil where it follows none.
    def of_name(name, manifest:, gap:)
      base = File.basename(name.to_s).delete_suffix(".gz")
      return "metrics/v1" if base == PROFILES["metrics/v1"]["file"]
      return "kaun/v1" if manifest

      "toy/v1" unless gap && !base.empty? && base != PROFILES["toy/v1"]["file"]
    end

    # Returns whether a directory holds the manifest of a kaun/v1 run that can be read.
    def manifest?(directory)
      manifest = Toyspec.read_object(File.join(directory, MANIFEST))
      !manifest.nil? && manifest.key?("run_id") && !manifest.key?("kind")
    end

    # Returns what a record declares to be; nil where it declares nothing, or no string.
    def kind(profile, record)
      tag = profile && PROFILES.fetch(profile)["tag"]
      value = tag && record[tag]
      value if value.is_a?(String)
    end

    # Returns the declared members of a record, nil for an unknown kind and without a profile.
    def fields(profile, record)
      return if profile.nil?

      table = PROFILES.fetch(profile)
      table["tag"] ? table["kinds"][kind(profile, record)] : table["kinds"]["entry"]
    end

    # Returns the type of a member of a value of a type, nil where the schema does not declare it.
    def member(type, key)
      return unless type

      type["fields"] ? type["fields"].find { |field| field["name"] == key } : type["values"]
    end
  end
end
