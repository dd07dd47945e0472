# frozen_string_literal: true

module Toyspec
  # Tells which profile a stream follows, and what the schema says of a record.
  module Profiles
    module_function

    # Returns the profile that a record shows by its keys, else the fallback.
    def detect(record, fallback)
      return "toy/v1" if record.key?("kind")
      return "kaun/v1" if record.key?("type")

      record.key?("step") && record.key?("wall_time_ms") ? "metrics/v1" : fallback
    end

    # Returns the profile that the name of a stream's file tells.
    def fallback(name)
      File.basename(name.to_s) == PROFILES["metrics/v1"]["file"] ? "metrics/v1" : "toy/v1"
    end

    # Returns what a record declares to be; nil where it declares nothing, or no string.
    def kind(profile, record)
      tag = PROFILES.fetch(profile)["tag"]
      value = tag && record[tag]
      value if value.is_a?(String)
    end

    # Returns the declared members of a record, nil for an unknown kind.
    def fields(profile, record)
      table = PROFILES.fetch(profile)
      table["tag"] ? table["kinds"][kind(profile, record)] : table["kinds"]["entry"]
    end

    # Returns the type of a member of a value of a type, nil where nothing is said of it.
    def member(type, key)
      return unless type

      type["fields"] ? type["fields"].find { |field| field["name"] == key } : type["values"]
    end
  end
end
