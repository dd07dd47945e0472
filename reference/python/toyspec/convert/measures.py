"""Turns numbers of other programs into measures of toy/v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.convert.losses import NOT_FINITE, ROUNDED

if TYPE_CHECKING:
    from toyspec.convert.losses import Ledger


def is_number(value: Any) -> bool:
    """Return whether *value* is a number, which booleans are not."""
    return type(value) in (float, int)


def as_measure(value: float, place: str, ledger: Ledger) -> float | None:
    """Return *value* as binary64, or None where it is not finite; what differs is in the ledger."""
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number - number != 0.0:
        ledger.changed(NOT_FINITE, place, value, "null")
        return None
    if number != value:
        ledger.changed(ROUNDED, place, value, number)
    return number
