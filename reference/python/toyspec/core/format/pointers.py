"""JSON Pointers of RFC 6901: where in a value a member or an item is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def pointer_to(path: Iterable[str | int]) -> str:
    """Return the pointer to the end of *path*, names of members and indexes of items; empty for the whole value."""
    return "".join("/" + token_of(str(part)) for part in path)


def token_of(name: str) -> str:
    """Return *name* as it is written between the slashes of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def name_of(token: str) -> str:
    """Return the name that a pointer has as *token*."""
    return token.replace("~1", "/").replace("~0", "~")
