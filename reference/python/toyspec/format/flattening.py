"""Flattens nested objects: the members of an inner object follow its key and a slash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Deeper objects are data, not metrics, and would take unbounded recursion.
_DEPTH = 8


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
    _flatten(value, "", found, (_DEPTH, whole, [] if hidden is None else hidden))
    return found


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
