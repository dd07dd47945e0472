"""``python -m conformance.oracle`` is the adapter of the oracle."""

import sys

from conformance.oracle.adapter import Oracle, run

sys.exit(run(Oracle(), sys.argv[1:]))
