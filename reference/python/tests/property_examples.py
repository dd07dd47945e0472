"""How many examples a property is tried with: `make test` takes a tenth of what `make test-all` does."""

import os

PROFILE = os.environ.get("TOYSPEC_EXAMPLES", "whole")
_LEAST = 5


def examples(whole: int) -> int:
    """Return *whole*, or a tenth of it and at least five in the profile "quick"."""
    return max(_LEAST, whole // 10) if PROFILE == "quick" else whole
