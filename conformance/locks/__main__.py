"""``python -m conformance.locks`` prints the lock matrix."""

import sys

from conformance.locks.command import main
from conformance.pipes import quietly

sys.exit(quietly(main))
