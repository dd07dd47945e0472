"""``python -m conformance.miniature`` is the adapter of the miniature."""

import sys

from conformance.miniature.adapter import Miniature, run

sys.exit(run(Miniature(), sys.argv[1:]))
