"""Turns numbers of other programs into measures of toy/v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.convert.losses import NOT_FINITE, ROUNDED

if TYPE_CHECKING:
    from toyspec.convert.losses import Ledger


def is_number(value: Any) -> bool:
    """Return whether *value* is a number, which booleans are not."""
    return type(value) in (float, int)


def as_setting(value: Any, place: str, ledger: Ledger) -> Any:
    """Return *value*, a setting, with null for each number that is not finite; each one is in the ledger."""
    if isinstance(value, float) and value - value != 0.0:
        ledger.changed(NOT_FINITE, place, value, "null")
        return None
    if isinstance(value, dict):
        return {key: as_setting(inner, f"{place}/{key}", ledger) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_setting(inner, f"{place}/{index}", ledger) for index, inner in enumerate(value)]
    return value


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
