"""The members of an object as flat names and scalars: ``config.lr``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every member that is not an object by its name; inner members by the outer name, a dot and their own."""
    for key, member in value.items():
        if isinstance(member, dict) and member:
            yield from flat(member, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", member
