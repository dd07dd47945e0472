# frozen_string_literal: true

module Toyspec
  # Decides whether a value that was read has an error by its schema. Warnings, such as an unknown key, are not errors.
  module Validity
    module_function

    # Returns whether a value, its integers settled, is valid for a type of the tables.
    def valid?(value, type)
      return true if type.nil?

      type_of?(value, type["types"]) && allowed?(value, type) && parts?(value, type)
    end

    # Returns whether a record has all required members of its kind, valid.
    def complete?(record, fields)
      fields.all? { |field| !field["required"] || (record.key?(field["name"]) && valid?(record[field["name"]], field)) }
    end

    # Returns a member of a record where it is there and valid, else the block's value.
    def member(record, fields, name)
      field = fields.find { |candidate| candidate["name"] == name }
      record.key?(name) && valid?(record[name], field) ? record[name] : yield
    end

    def type_of?(value, types)
      case value
      when nil then types.include?("null")
      when true, false then types.include?("boolean")
      when Integer then types.include?("integer") || types.include?("number")
      when Float then types.include?("number")
      when String then types.include?("string")
      when Array then types.include?("array")
      when Hash then types.include?("object")
      end
    end

    def allowed?(value, type)
      case value
      when Integer, Float then in_range?(value, type)
      when String then text?(value, type)
      else !type.key?("const") || type["const"] == value
      end
    end

    def in_range?(value, type)
      return false if type["width"] == 32 && value.abs >= Numbers::BINARY32_LIMIT
      return false if type.key?("const") && type["const"] != value

      (type["minimum"].nil? || value >= type["minimum"]) && (type["maximum"].nil? || value <= type["maximum"])
    end

    def text?(value, type)
      choices = type["enum"] || (type.key?("const") ? [type["const"]] : nil)
      (choices.nil? || choices.include?(value)) &&
        (type["pattern"].nil? || Canonical.pattern(type["pattern"]).match?(value)) &&
        (type["format"].nil? || DateTimes.valid?(value))
    end

    def parts?(value, type)
      case value
      when Array
        value.size >= (type["minItems"] || 0) && value.size <= (type["maxItems"] || value.size) &&
          value.all? { |item| valid?(item, type["items"]) }
      when Hash
        complete?(value, type["fields"] || []) && value.all? { |key, item| valid?(item, Profiles.member(type, key)) }
      else true
      end
    end
  end
end
