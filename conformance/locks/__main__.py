"""``python -m conformance.locks`` prints the lock matrix."""

import sys

from conformance.locks.command import main

sys.exit(main())
