"""``python -m conformance.impostors NAME --lines`` is the adapter of one impostor."""

import sys

from conformance.impostors.all_impostors import ALL
from conformance.miniature.adapter import run

sys.exit(run(ALL[sys.argv[1]].make(), sys.argv[2:]))
