"""Numbers among decoded JSON values."""

from __future__ import annotations

from math import isfinite
from typing import Any


def number(value: Any) -> float | int | None:
    """Return *value* when it is a JSON number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_number_or_null(value: Any) -> bool:
    """Return whether *value* is a JSON number, or null, which stands for one that was not finite."""
    return value is None or number(value) is not None


def finite_number(value: float | None) -> float | None:
    """Return *value* as a float; None for null, for what is not finite, and for an integer that no float has."""
    try:
        return None if value is None or not isfinite(value) else float(value)
    except OverflowError:
        return None
