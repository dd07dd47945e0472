"""Finds integers with a fraction or an exponent, and converts them to ints: see spec/encoding.md.

A decoder gives ``1.0`` as a float. Where the schema types an integer, it is the integer 1.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from toyspec.core.format.profiles import tag_of
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.rules import INTEGER_AS_FLOAT, PROFILES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from toyspec.core.findings import Profile

Path = tuple[str | int, ...]
"""Keys and array indexes that lead to a value."""

# The decoded types that may need a conversion; most integers are absent or ints already.
_CHANGING = frozenset([float, dict, list])


def take_integers(value: dict[str, Any], profile: Profile | None, kind: str | None) -> list[Path]:
    """Turn each whole float in a record into an int where the schema of *kind* types an integer; return their paths.

    Records of unknown kind, and of profiles that do not allow such integers, do not change.
    """
    fields = _integer_fields(profile).get(kind, {})
    for key in fields:
        # Most records do not change.
        if type(value.get(key)) in _CHANGING:
            return list(_take_members(value, fields, ()))
    return []


def take_integers_of_manifest(value: dict[str, Any]) -> list[Path]:
    """Do for the manifest of a kaun/v1 run what ``take_integers`` does for a record."""
    return list(_take_members(value, _only_integers(FIELDS["kaun/v1"]["run"]), ()))


def _take_members(value: dict[str, Any], fields: dict[str, Any], path: Path) -> Iterator[Path]:
    for key, declared in fields.items():
        item = value.get(key)
        if type(item) in _CHANGING:
            value[key] = yield from _taken(item, declared, (*path, key))


def _taken(item: Any, declared: Any, path: Path) -> Generator[Path, None, Any]:
    """Yield the paths of the integers in *item* that were floats; return the new item."""
    if declared == "integer":
        if type(item) is float and item.is_integer():
            yield path
            return int(item)
    elif isinstance(item, dict) and declared[0] != "array":
        members = declared[1] if declared[0] == "object" else dict.fromkeys(item, declared[1])
        yield from _take_members(item, members, path)
    elif isinstance(item, list) and declared[0] == "array":
        for index, part in enumerate(item):
            item[index] = yield from _taken(part, declared[1], (*path, index))
    return item


@cache
def _integer_fields(profile: Profile | None) -> dict[str | None, dict[str, Any]]:
    """Return the fields of each kind that are integers or hold some, without those that have none."""
    if profile not in PROFILES[INTEGER_AS_FLOAT]:
        return {}
    tag = tag_of(profile)
    return {kind: _only_integers(fields) for kind, fields in FIELDS[profile].items() if tag in fields}


def _only_integers(fields: dict[str, Any]) -> dict[str, Any]:
    found = {key: _only_integer(declared) for key, declared in fields.items()}
    return {key: declared for key, declared in found.items() if declared is not None}


def _only_integer(declared: Any) -> Any:
    if not isinstance(declared, tuple):
        return declared if declared == "integer" else None
    constructor, part = declared
    inner = _only_integers(part) if constructor == "object" else _only_integer(part)
    return (constructor, inner) if inner else None
