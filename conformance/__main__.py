"""``python -m conformance`` is ``toyspec conform`` without the package toyspec."""

import sys

from conformance.command import main
from conformance.pipes import quietly

sys.exit(quietly(main))
