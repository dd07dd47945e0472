# frozen_string_literal: true

require "strscan"

module Toyspec
  # Checks one line as bytes and as JSON, strictly: Ruby's JSON library accepts comments and more.
  module LineValidator
    BLANK = /\A[ \t\r]*\z/n
    SPACE = /[ \t\r\n]*/n
    STRING = /"(?:[^"\\\x00-\x1f]|\\(?:["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/n
    NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/n
    WORD = /true|false|null/n
    NOT_FINITE = /NaN|-?Infinity/n

    module_function

    def blank?(line)
      BLANK.match?(line)
    end

    # Returns the first rule that makes a line unreadable, nil for a readable one. The line is binary, not blank and within
    # the limit of length; first says that it begins the stream. A repeated key leaves a line readable.
    def validate(line, first: false)
      return "byte-order-mark" if first && line.start_with?("\xEF\xBB\xBF".b)
      return "nul-bytes" if line.include?("\0")
      return "invalid-utf8" unless line.dup.force_encoding(Encoding::UTF_8).valid_encoding?

      Scan.new(line).verdict
    end

    # One scan of one text, without recursion.
    class Scan
      def initialize(line)
        @scanner = StringScanner.new(line)
        @open = []
        @problem = nil
      end

      def verdict
        @scanner.skip(SPACE)
        object = @scanner.check(/\{/n)
        stopped = catch(:stop) { text }
        return stopped if stopped

        object ? @problem : "not-an-object"
      end

      private

      # Goes over the whole text; throws :stop with the rule where it ends to be JSON.
      def text
        fresh = false
        loop do
          @scanner.skip(SPACE)
          if fresh && closes?
            fresh = false
          else
            key if @open.last == "}"
            fresh = value
            next if fresh
          end
          return nil if finished?
        end
      end

      # Goes over a value; returns whether it opened a container.
      def value
        if (bracket = @scanner.scan(/[{\[]/n))
          throw :stop, "nested-too-deep" if @open.size == LIMITS["max_depth"]
          @open << (bracket == "{" ? "}" : "]")
          return true
        end
        scalar
        false
      end

      def scalar
        if (found = @scanner.scan(STRING)) then note_halves(found)
        elsif @scanner.scan(WORD) then nil
        elsif @scanner.scan(NOT_FINITE) then @problem ||= "non-finite-number"
        elsif (found = @scanner.scan(NUMBER)) then @problem ||= "non-finite-number" if Numbers.read(found).infinite?
        else throw :stop, "invalid-json"
        end
      end

      def key
        @scanner.skip(SPACE)
        found = @scanner.scan(STRING) or throw(:stop, "invalid-json")
        note_halves(found)
        @scanner.skip(SPACE)
        @scanner.skip(/:/n) or throw(:stop, "invalid-json")
        @scanner.skip(SPACE)
      end

      def closes?
        return false unless @scanner.skip(/[}\]]/n)

        @scanner.string.byteslice(@scanner.pos - 1, 1) == @open.pop or throw(:stop, "invalid-json")
      end

      # Goes over what follows a value; returns whether the text is over.
      def finished?
        loop do
          @scanner.skip(SPACE)
          if @open.empty?
            @scanner.eos? or throw(:stop, "invalid-json")
            return true
          end
          return false if @scanner.skip(/,/n)

          closes? or throw(:stop, "invalid-json")
        end
      end

      def note_halves(string)
        return unless string.include?("\\u")

        high = false
        lone = string.scan(/\\u([0-9a-fA-F]{4})|\\.|[^\\]/n).any? do |(hex)|
          code = hex ? hex.hex : 0
          low = code.between?(0xDC00, 0xDFFF)
          broken = high != low
          high = code.between?(0xD800, 0xDBFF)
          broken
        end
        @problem ||= "lone-surrogate" if lone
      end
    end
  end
end
