# frozen_string_literal: true

module Toyspec
  # Raised for a record that no reader would accept; nothing was written.
  class RefusedError < Error; end

  # Writes records in canonical form.
  module Canonical
    ESCAPES = { '"' => '\\"', "\\" => "\\\\", "\b" => "\\b", "\f" => "\\f", "\n" => "\\n", "\r" => "\\r", "\t" => "\\t" }.freeze

    module_function

    # Returns the canonical line of a record, LF included; keys are strings or symbols. NaN and infinities become null.
    def encode(profile, record)
      record = record.transform_keys(&:to_s)
      tag = PROFILES.fetch(profile)["tag"]
      raise RefusedError, "#{tag} is missing or no string" if tag && !record[tag].is_a?(String)

      fields = Profiles.fields(profile, record) || [{ "name" => tag, "types" => ["string"], "required" => true }]
      line = object(record, { "fields" => fields, "types" => ["object"] }, 1)
      raise RefusedError, "the line is too long" if line.bytesize > LIMITS["max_line_bytes"]

      line << "\n"
    end

    def object(value, type, depth)
      raise RefusedError, "nested deeper than #{LIMITS["max_depth"]}" if depth > LIMITS["max_depth"]

      value = value.transform_keys(&:to_s)
      fields = type && type["fields"] || []
      declared = fields.filter_map { |field| declared_member(value, field, depth) }
      names = fields.map { |field| field["name"] }
      others = (value.keys - names).sort_by { |key| text(key).b }
      parts = declared + others.map { |key| "#{string(key)}:#{any(value[key], Profiles.member(type, key), key, depth)}" }
      "{#{parts.join(",")}}"
    end

    def declared_member(value, field, depth)
      name = field["name"]
      if value.key?(name) then "#{string(name)}:#{any(value[name], field, name, depth)}"
      elsif field["required"] then raise RefusedError, "#{name} is missing"
      elsif field["always_written"] then "#{string(name)}:{}"
      end
    end

    def any(value, type, name, depth)
      case value
      when nil then null(type, name)
      when Integer, Float then number(value, type, name)
      when true, false then expect(type, "boolean", name) && value.to_s
      when String, Symbol then judged_string(value.to_s, type, name)
      when Hash then expect(type, "object", name) && object(value, type, depth + 1)
      when Array then array(value, type, name, depth + 1)
      else raise RefusedError, "#{name} holds a #{value.class}"
      end
    end

    def expect(type, wanted, name)
      type.nil? || type["types"].include?(wanted) or raise RefusedError, "#{name} has another type"
    end

    def array(value, type, name, depth)
      expect(type, "array", name)
      raise RefusedError, "nested deeper than #{LIMITS["max_depth"]}" if depth > LIMITS["max_depth"]

      type ||= {}
      raise RefusedError, "#{name} has #{value.size} items" if type["minItems"] && value.size != type["minItems"]

      "[#{value.map { |item| any(item, type["items"], name, depth) }.join(",")}]"
    end

    def null(type, name)
      expect(type, "null", name)
      "null"
    end

    def number(value, type, name)
      if value.is_a?(Integer) && (type.nil? || type["types"].include?("integer"))
        in_range(value, type, name)
        return value.to_s
      end
      expect(type, "number", name)
      narrow = type && type["width"] == 32
      float = narrow ? Numbers.to_binary32(value.to_f) : value.to_f
      return null(type, name) unless float.finite?

      in_range(float, type, name)
      narrow ? Numbers.binary32_text(float) : Numbers.binary64_text(float)
    end

    def in_range(value, type, name)
      return unless type

      outside = (type["minimum"] && value < type["minimum"]) || (type["maximum"] && value > type["maximum"])
      raise RefusedError, "#{name} is #{value}, outside its range" if outside
    end

    def judged_string(value, type, name)
      expect(type, "string", name)
      value = text(value)
      if type
        allowed = type["enum"] || (type["const"] && [type["const"]])
        raise RefusedError, "#{name} is not one of #{allowed.join(", ")}" if allowed && !allowed.include?(value)
        raise RefusedError, "#{name} does not have the required form" if type["pattern"] && !pattern(type["pattern"]).match?(value)
        raise RefusedError, "#{name} is no date-time with a zone that exists" if type["format"] && !DateTimes.valid?(value)
      end
      string(value)
    end

    # Ruby's ^ begins every line, not the string.
    def pattern(source)
      Regexp.new(source.sub(/\A\^/, '\\A'))
    end

    def string(value)
      "\"#{text(value).gsub(/["\\\u0000-\u001f]/) { |character| ESCAPES[character] || format("\\u%04x", character.ord) }}\""
    end

    # Returns a string in UTF-8; bytes that are none become U+FFFD.
    def text(value)
      value.encode(Encoding::UTF_8).scrub("\ufffd")
    end
  end
end
