# frozen_string_literal: true

module Toyspec
  # Raised for a record that no reader would accept; nothing was written.
  class RefusedError < Error; end

  # Writes records in canonical form.
  module Canonical
    # Integers from here on round to an infinite binary64 number.
    INTEGER_LIMIT = 2**1024 - 2**970
    ESCAPES = { '"' => '\\"', "\\" => "\\\\", "\b" => "\\b", "\f" => "\\f", "\n" => "\\n", "\r" => "\\r", "\t" => "\\t" }.freeze

    module_function

    # Returns the canonical line of a record, LF included; keys are strings or symbols. NaN and infinities become null.
    # as_given names the members whose keys keep their order. Raises RefusedError.
    def encode(profile, record, as_given: [])
      record = string_keys(record)
      tag = PROFILES.fetch(profile)["tag"]
      raise RefusedError, "#{tag} is missing or not a string" if tag && !record[tag].is_a?(String)

      fields = Profiles.fields(profile, record) || [{ "name" => tag, "types" => ["string"], "required" => true }]
      fields = fields.map { |field| as_given.include?(field["name"]) ? field.merge("as_given" => true) : field } unless as_given.empty?
      line = object(record, { "fields" => fields, "types" => ["object"] }, 1)
      raise RefusedError, "the line is longer than #{LIMITS["max_line_bytes"]} bytes" if line.bytesize > LIMITS["max_line_bytes"]

      line << "\n"
    end

    # Returns an object with its keys as strings in UTF-8; raises RefusedError where two of them are one then.
    def string_keys(value)
      keys = value.to_h { |key, item| [text(key.to_s), item] }
      raise RefusedError, "the same key is given twice: #{value.keys.join(", ")}" if keys.size != value.size

      keys
    end

    def object(value, type, depth)
      raise RefusedError, "nested deeper than #{LIMITS["max_depth"]}" if depth > LIMITS["max_depth"]

      fields = type && type["fields"] || []
      value = string_keys(value).tap { |members| fields.each { |field| complete(members, field) } }
      names = fields.map { |field| field["name"] }
      in_order = type && type["as_given"] ? value.keys : (names & value.keys) + (value.keys - names).sort_by(&:b)
      "{#{in_order.map { |key| "#{string(key)}:#{any(value[key], Profiles.member(type, key), key, depth)}" }.join(",")}}"
    end

    # Refuses an object without a required member, and gives it one that is always written.
    def complete(members, field)
      name = field["name"]
      return if members.key?(name)
      raise RefusedError, "#{name} is missing" if field["required"]

      members[name] = {} if field["always_written"]
    end

    def any(value, type, name, depth)
      case value
      when nil then null(type, name)
      when Integer, Float then number(value, type, name)
      when true, false then expect(type, "boolean", name) && value.to_s
      when String, Symbol then checked_string(value.to_s, type, name)
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
        raise RefusedError, "#{name} is an integer beyond the range of binary64" if value.abs >= INTEGER_LIMIT

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

    def checked_string(value, type, name)
      expect(type, "string", name)
      value = text(value)
      if type
        allowed = type["enum"] || (type["const"] && [type["const"]])
        raise RefusedError, "#{name} is not one of #{allowed.join(", ")}" if allowed && !allowed.include?(value)
        raise RefusedError, "#{name} does not have the required form" if type["pattern"] && !pattern(type["pattern"]).match?(value)
        raise RefusedError, "#{name} is not a date-time with a zone that exists" if type["format"] && !DateTimes.valid?(value)
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

    # Returns a string in UTF-8. Raises RefusedError for bytes that are not text.
    def text(value)
      value = value.dup.force_encoding(Encoding::UTF_8) if value.encoding == Encoding::BINARY
      value = value.encode(Encoding::UTF_8)
      raise RefusedError, "a string is not valid UTF-8: #{value.inspect[0, 80]}" unless value.valid_encoding?

      value
    rescue EncodingError
      raise RefusedError, "a string has no form in UTF-8: #{value.inspect[0, 80]}"
    end
  end
end
