"""The members of an object as flat names and scalars: ``config.lr``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every member that is not an object by its name; inner members by the outer name, a dot and their own."""
    for key, member in value.items():
        if isinstance(member, dict) and member:
            yield from flat(member, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", member


def differing(each: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names whose values are not the same in all of *each*, flat members of several runs, that have any.

    A run without members does not make those of the others a difference. Types count: 1, 1.0 and true differ.
    """
    telling = [members for members in each if members]
    names = {name for members in telling for name in members}
    return {name for name in names if len({repr(members.get(name, differing)) for members in telling}) > 1}
