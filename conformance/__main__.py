"""``python -m conformance`` is ``toyspec conform`` without the package toyspec."""

import sys

from conformance.command import main

sys.exit(main())
