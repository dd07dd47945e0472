"""``python -m conformance.mutants NAME --lines`` is the adapter of one mutant."""

import sys

from conformance.mutants.all_mutants import ALL
from conformance.oracle.adapter import run
from conformance.pipes import quietly

sys.exit(quietly(lambda: run(ALL[sys.argv[1]].make(), sys.argv[2:])))
