"""``python -m conformance.mutation.python`` mutates the Python package; see ``--help``."""

import sys

from conformance.mutation.python.command import main
from conformance.pipes import quietly

sys.exit(quietly(main))
