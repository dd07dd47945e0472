"""``python -m conformance.faults`` prints the table of writers and faults."""

import sys

from conformance.faults.command import main
from conformance.pipes import quietly

sys.exit(quietly(main))
