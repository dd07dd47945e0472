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
    _flatten(value, "", found, (MOST_LEVELS, whole, [] if hidden is None else hidden))
    return found


def leaves(value: Mapping[str, Any], depth: int = MOST_LEVELS) -> Iterator[tuple[str, Any]]:
    """Yield the members of *value*: those of inner objects after the outer key and a slash, as are numbers in a list.

    A list with anything but numbers, booleans and null, or with more than ``MOST_LISTED``, is one member, as is what is
    empty or nested too deep.
    """
    for key, member in value.items():
        if type(member) is dict and member and depth:
            yield from ((f"{key}/{name}", leaf) for name, leaf in leaves(member, depth - 1))
        elif type(member) is list and 0 < len(member) <= MOST_LISTED and _LISTED.issuperset(map(type, member)):
            yield from ((f"{key}/{index}", item) for index, item in enumerate(member))
        else:
            yield key, member


def member_at(value: Mapping[str, Any], key: str) -> Any:
    """Return the member *key*, or that of inner objects whose keys it joins by slashes; None if there is none."""
    if key in value:
        return value[key]
    outer, _, rest = key.partition("/")
    inner = value.get(outer)
    return member_at(inner, rest) if rest and isinstance(inner, dict) else None


def _flatten(
    value: Mapping[str, Any], prefix: str, found: dict[str, Any], options: tuple[int, str | None, list[tuple[str, Any]]]
) -> None:
    depth, whole, hidden = options
    for key, member in value.items():
        if type(member) is dict and member and depth and whole not in member:
            _flatten(member, f"{prefix}{key}/", found, (depth - 1, whole, hidden))
            continue
        name = prefix + key
        if name in found:
            hidden.append((name, found[name]))
        found[name] = member


def pointer_to(path: Iterable[str | int]) -> str:
    """Return the pointer to the end of *path*, names of members and indexes of items; empty for the whole value."""
    return "".join("/" + token_of(str(part)) for part in path)


def token_of(name: str) -> str:
    """Return *name* as it is written between the slashes of a pointer."""
    return name.replace("~", "~0").replace("/", "~1")
