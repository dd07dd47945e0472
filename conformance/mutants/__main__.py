"""``python -m conformance.mutants NAME --lines`` is the adapter of one mutant."""

import sys

from conformance.mutants.all_mutants import ALL
from conformance.oracle.adapter import run

sys.exit(run(ALL[sys.argv[1]].make(), sys.argv[2:]))
