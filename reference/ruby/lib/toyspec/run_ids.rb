# frozen_string_literal: true

module Toyspec
  # The ids of new runs, which are names of directories.
  module RunIds
    LONGEST = LIMITS.fetch("max_safe_run_id_chars")

    SAFE = /\A[A-Za-z0-9][A-Za-z0-9._-]{0,#{LONGEST - 1}}\z/

    ALLOWED = "use 1–#{LONGEST} letters, digits, '.', '_', '-', starting with a letter or digit"

    module_function

    # Returns a run id that is the name of a directory on every system; raises RefusedError for another one.
    def check(run_id)
      return run_id if run_id.valid_encoding? && SAFE.match?(run_id)

      raise RefusedError, "run id #{run_id.inspect} is not allowed: #{ALLOWED}"
    end
  end
end
