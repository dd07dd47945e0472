# frozen_string_literal: true

# Reads and writes training logs in JSON Lines: the profiles toy/v1, metrics/v1 and kaun/v1.
module Toyspec
  VERSION = "0.1.0"

  # What this library raises on purpose.
  class Error < StandardError; end
end

require_relative "toyspec/tables"
require_relative "toyspec/profiles"
require_relative "toyspec/line_validator"
require_relative "toyspec/numbers"
require_relative "toyspec/date_times"
require_relative "toyspec/integers"
require_relative "toyspec/canonical"
require_relative "toyspec/reader"
require_relative "toyspec/validity"
require_relative "toyspec/attempts"
require_relative "toyspec/bundle_files"
require_relative "toyspec/kaun_views"
require_relative "toyspec/summary"
require_relative "toyspec/sequence"
require_relative "toyspec/run_ids"
require_relative "toyspec/locks"
require_relative "toyspec/side_files"
require_relative "toyspec/stream_file"
require_relative "toyspec/stream_writer"
require_relative "toyspec/run_bundle"
require_relative "toyspec/run_log"
