"""How many examples a property is tried with: `make test` takes a tenth of what `make test-all` does, CI a quarter."""

import os

PROFILE = os.environ.get("TOYSPEC_EXAMPLES", "whole")
_LEAST = 5
_PARTS = {"quick": 10, "ci": 4}


def examples(whole: int) -> int:
    """Return *whole*, or its part in the profiles "quick" and "ci", at least five."""
    return max(_LEAST, whole // _PARTS.get(PROFILE, 1))
