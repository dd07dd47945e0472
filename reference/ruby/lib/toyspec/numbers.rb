# frozen_string_literal: true

module Toyspec
  # The canonical text of numbers.
  module Numbers
    MAX_BINARY32 = 3.4028234663852886e38
    # Text of so many characters is read right by Ruby itself.
    SURE_DIGITS = 18
    # The middle between the largest binary32 number and the next power of two.
    BINARY32_LIMIT = LIMITS.fetch("binary32_limit")

    module_function

    # Returns the nearest binary64 number to decimal text, ties to even; infinite where it overflows.
    def read(text)
      near = text.to_f
      # Ruby looks at the first digits only, which decides all but long text.
      text.size > SURE_DIGITS && near.finite? ? nearest(text.to_r, near) : near
    end

    # JSON.parse calls this with the text of a number that has a fraction or an exponent.
    def try_convert(text)
      read(text)
    end

    # Returns the binary64 number that is nearest to an exact one, from one that is close to it.
    def nearest(exact, near)
      [near.prev_float, near, near.next_float].select(&:finite?).min_by { |number| [(number.to_r - exact).abs, odd(number)] }
    end

    # Returns 1 where the last bit of a number is set: of two that are equally close the other is nearest.
    def odd(number)
      [number].pack("G").unpack1("Q>") & 1
    end

    # Returns the shortest digits that read back to a finite number, in the layout of the specification.
    def binary64_text(number)
      return number.to_s if number.zero?

      size = number.abs
      # Ruby gives subnormal powers of two a digit too many.
      digits, exponent = size < Float::MIN ? shortest(size, 17) { |text| text.to_f == size } : decimal(size.to_s)
      layout(number.negative?, digits, exponent)
    end

    # Returns the shortest digits that read back to the same binary32 number; the number is rounded to binary32 first.
    def binary32_text(number)
      narrow = to_binary32(number)
      return narrow.to_s if narrow.zero?

      size = narrow.abs
      digits, exponent = shortest(size, 9) { |text| to_binary32(text.to_f) == size }
      layout(narrow.negative?, digits, exponent)
    end

    # Returns the nearest binary32 number, ties to even; what is not below the limit becomes infinite.
    def to_binary32(number)
      # Beyond the largest binary32 number pack gives an infinity, also where the largest is nearest.
      return number if number.nan?
      return number.positive? ? MAX_BINARY32 : -MAX_BINARY32 if number.abs.between?(MAX_BINARY32, BINARY32_LIMIT.prev_float)

      [number].pack("e").unpack1("e")
    end

    # Returns digits without trailing zeros and the place of the point, as in 0.digits times ten to that power.
    def decimal(text)
      mantissa, exponent = text.split("e")
      whole, fraction = mantissa.split(".")
      digits = "#{whole}#{fraction}"
      leading = digits[/\A0*/].size
      [digits[leading..].sub(/0+\z/, ""), whole.size + exponent.to_i - leading]
    end

    # Returns the fewest digits, at most so many, for which the block says that they read back, and the place of the point.
    def shortest(size, most)
      (0..most - 2).each do |places|
        digits, exponent = format("%.#{places}e", size).delete(".").split("e")
        # Near a power of two the right digits can be on the other side of the nearest.
        [0, 1, -1].each do |step|
          text = "#{digits.to_i + step}.0e#{exponent.to_i - places}"
          return decimal(text) if yield(text)
        end
      end
      decimal(format("%.#{most - 1}e", size))
    end

    def layout(negative, digits, point)
      sign = negative ? "-" : ""
      if point > 16 || point <= -5
        rest = digits.size > 1 ? ".#{digits[1..]}" : ""
        "#{sign}#{digits[0]}#{rest}e#{point - 1}"
      elsif point <= 0
        "#{sign}0.#{"0" * -point}#{digits}"
      elsif point >= digits.size
        "#{sign}#{digits.ljust(point, "0")}.0"
      else
        "#{sign}#{digits[0, point]}.#{digits[point..]}"
      end
    end
  end
end
