"""Numbers among decoded JSON values."""

from __future__ import annotations

from typing import Any


def number(value: Any) -> float | int | None:
    """Return *value* when it is a JSON number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
