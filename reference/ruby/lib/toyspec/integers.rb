# frozen_string_literal: true

module Toyspec
  # Gives integers that were written with a fraction or an exponent, such as 1.0 and 1e3, as integers.
  module Integers
    # metrics/v1 has no such integers: its source refuses them.
    PROFILES_WITH = %w[toy/v1 kaun/v1].freeze

    module_function

    # Replaces every whole number at a place of a record that the schema types as integer.
    def settle(record, profile)
      return record unless PROFILES_WITH.include?(profile)

      fields = Profiles.fields(profile, record)
      fields ? settle_members(record, { "fields" => fields }) : record
    end

    def settle_members(value, type)
      value.each do |key, item|
        member = scalar?(item) ? nil : Profiles.member(type, key)
        value[key] = settled(item, member) if member
      end
    end

    def scalar?(item)
      !(item.is_a?(Float) || item.is_a?(Hash) || item.is_a?(Array))
    end

    def settled(value, type)
      case value
      when Float then whole?(value) && type["types"].include?("integer") && !type["types"].include?("number") ? value.to_i : value
      when Hash then settle_members(value, type)
      when Array then type["items"] ? value.map { |item| settled(item, type["items"]) } : value
      else value
      end
    end

    def whole?(value)
      value == value.floor
    end
  end
end
