"""``python -m conformance.mutation`` mutates the oracle; see ``--help``."""

import sys

from conformance.mutation.command import main

sys.exit(main())
