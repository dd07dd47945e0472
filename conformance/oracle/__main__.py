"""``python -m conformance.oracle`` is the adapter of the oracle."""

import sys

from conformance.oracle.adapter import Oracle, run
from conformance.pipes import quietly

sys.exit(quietly(lambda: run(Oracle(), sys.argv[1:])))
