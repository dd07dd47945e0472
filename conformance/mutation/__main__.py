"""``python -m conformance.mutation`` mutates the oracle; see ``--help``."""

import sys

from conformance.mutation.command import main
from conformance.pipes import quietly

sys.exit(quietly(main))
