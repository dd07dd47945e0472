"""Paths into nested values: JSON Pointers of RFC 6901, and names of the members of inner objects with slashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


MOST_LISTED = 256
"""Number of items in the longest list of which each is a value of its own."""

MOST_LEVELS = 8
"""Number of objects inside each other whose members are flattened; deeper ones are data, not metrics."""
_LISTED = frozenset([float, int, bool, type(None)])


def flattened(
    value: Mapping[str, Any], *, whole: str | None = None, hidden: list[tuple[str, Any]] | None = None
) -> Mapping[str, Any]:
    """Return the members of *value*; those of inner objects have the outer key and a slash before their own.

    Inner objects that have the key *whole* are not flattened. Of two members with one name, the later one is taken;
    name and value of the other are added to *hidden*.
    """
    if dict not in map(type, value.values()):
        return value
    found: dict[str, Any] = {}
    for name, member in _inner(value, MOST_LEVELS, whole):
        if name in found and hidden is not None:
            hidden.append((name, found[name]))
        found[name] = member
    return found


def leaves(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the members of *value*: those of inner objects after the outer key and a slash, as are numbers in a list.

    A list with anything but numbers, booleans and null, or with more than ``MOST_LISTED``, is one member, as is what is
    empty or nested too deep.
    """
    for name, member in _inner(value, MOST_LEVELS, None):
        if type(member) is list and 0 < len(member) <= MOST_LISTED and _LISTED.issuperset(map(type, member)):
            yield from ((f"{name}/{index}", item) for index, item in enumerate(member))
        else:
            yield name, member


def _inner(value: Mapping[str, Any], depth: int, whole: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the members of *value*, and in place of an inner object its own, to *depth* levels."""
    for key, member in value.items():
        if type(member) is dict and member and depth and whole not in member:
            yield from ((f"{key}/{name}", each) for name, each in _inner(member, depth - 1, whole))
        else:
            yield key, member


def member_at(value: Mapping[str, Any], key: str) -> Any:
    """Return the member *key*, or that of inner objects whose keys it joins by slashes; None if there is none."""
    if key in value:
        return value[key]
    outer, _, rest = key.partition("/")
    inner = value.get(outer)
    return member_at(inner, rest) if rest and isinstance(inner, dict) else None


def pointer_to(path: Iterable[str | int]) -> str:
    """Return the pointer to the end of *path*, names of members and indexes of items; empty for the whole value."""
    return "".join("/" + token_of(str(part)) for part in path)


def token_of(name: str) -> str:
    """Return *name* as it is written between the slashes of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")
