# frozen_string_literal: true

require "date"

module Toyspec
  # Decides whether a string is a date-time of RFC 3339.
  module DateTimes
    FORM = /\A(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):(\d\d))\z/

    module_function

    # Returns whether text is a date and time that exist, with a zone.
    def valid?(text)
      parts = FORM.match(text) or return false
      year, month, day, hour, minute, second = parts.captures[0, 6].map(&:to_i)
      zone_hour, zone_minute = parts[8].to_i, parts[9].to_i
      return false unless Date.valid_date?(year, month, day, Date::GREGORIAN)
      return false if month.zero? || day.zero? || hour > 23 || minute > 59 || second > 60 || zone_hour > 23 || zone_minute > 59
      return true if second < 60

      # A leap second ends a day in UTC, whatever the zone shows.
      zone = (zone_hour * 60 + zone_minute) * (parts[7] == "-" ? -1 : 1)
      (hour * 60 + minute - zone) % 1440 == 1439
    end
  end
end
