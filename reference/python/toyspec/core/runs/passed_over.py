"""Counts the objects that a listing of a store passes over, since they are not part of a run."""

from __future__ import annotations

from typing import NamedTuple


class PassedOver(NamedTuple):
    """Objects below an address that are not part of a run."""

    number: int
    example: str
    """The address of the first one."""


# A page of a list has so many: fewer cost no request of their own.
WORTH_SAYING = 1000
_noted: dict[str, PassedOver] = {}


def note(address: str, found: PassedOver) -> None:
    """Keep what the last listing of *address* has passed over, if it is worth saying."""
    _noted.pop(address, None)
    if found.number >= WORTH_SAYING:
        _noted[address] = found


def taken() -> dict[str, PassedOver]:
    """Return what was noted since the last call, by the addresses that were listed."""
    found = dict(_noted)
    _noted.clear()
    return found
