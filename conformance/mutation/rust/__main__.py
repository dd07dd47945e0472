"""``python -m conformance.mutation.rust`` mutates the Rust crate; see ``--help``."""

import sys

from conformance.mutation.rust.command import main

sys.exit(main())
