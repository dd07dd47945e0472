"""Decodes a readable line into the type of its kind.

A type has None for an absent key, and NaN or an infinity for a number that is null. A decoder gives ``1.0`` as a float:
where the schema types an integer, it is made the integer 1, see spec/encoding.md.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from toyspec.core.format.profiles import tag_of
from toyspec.core.format.record_mapping import with_lost_numbers
from toyspec.core.generated.fields import FIELDS, NULLABLE
from toyspec.core.generated.rules import INTEGER_AS_FLOAT, PROFILES

if TYPE_CHECKING:
    from toyspec.core.findings import Profile


# The facts about a type are kept in it before they are complete: a second thread that uses them ends the interpreter.
_ONE_AT_A_TIME = Lock()
_NUMBERS = ("number", "binary32")
_NAMES = {"number": "float", "binary32": "float", "integer": "int", "string": "str", "boolean": "bool"}
_decode_value = msgspec.json.Decoder().decode


def event_of(
    value: dict[str, Any], kind: str | None, profile: Profile | None, *, has_null: bool = True
) -> msgspec.Struct | None:
    """Return *value*, whose integers are ints, as the type of its *kind*; None if it does not fit."""
    if profile is None or kind not in event_types(profile):
        return None
    # With its decoder, the facts about a type are complete.
    _decoder(profile, kind)
    try:
        return _converted(value, kind, profile) if has_null else msgspec.convert(value, event_types(profile)[kind])
    except msgspec.ValidationError:
        return None


def typed(line: bytes, kind: str | None, profile: Profile) -> Any:
    """Return a readable *line* as the type of its *kind*; raise ``msgspec.ValidationError`` if it does not fit."""
    if b"null" not in line:
        return _decoder(profile, kind).decode(line)
    _decoder(profile, kind)
    return _converted(_decode_value(line), kind, profile)


@cache
def event_types(profile: Profile) -> dict[str | None, type[msgspec.Struct]]:
    """Return the type of each kind of *profile*; the one type of a profile without kinds is under None.

    There are none for a profile of a user, whose types are the user's own.
    """
    if profile not in ("toy/v1", "kaun/v1", "metrics/v1"):
        return {}
    # Most programs read one profile: importing the types of the others would waste time.
    module = import_module(f"toyspec.core.generated.{profile.replace('/', '_')}")
    record = getattr(module, f"{''.join(part.capitalize() for part in profile.split('/'))}Record")
    return {cls.__struct_config__.tag: cls for cls in get_args(record) or (record,)}


def typed_decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the type *wanted*; afterwards, any thread may convert values to it."""
    with _ONE_AT_A_TIME:
        return msgspec.json.Decoder(wanted)


@cache
def _decoder(profile: Profile, kind: str | None) -> msgspec.json.Decoder[Any]:
    return typed_decoder(event_types(profile)[kind])


def _converted(value: dict[str, Any], kind: str | None, profile: Profile) -> msgspec.Struct:
    fields, nulls = FIELDS[profile][kind or "entry"], _Nulls(NULLABLE[profile][kind or "entry"])
    filled = nulls.filled(value | with_lost_numbers(value), ("object", fields), (), ())
    event = msgspec.convert(filled, event_types(profile)[kind])
    for path, number in nulls.numbers:
        _put(event, path, number)
    return event


class _Nulls:
    """The nulls of a record."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed
        self.numbers: list[tuple[tuple[Any, ...], float]] = []
        """Keys and indexes that lead to the nulls that are numbers, and what these were; NaN if that is not known."""

    def filled(self, value: Any, declared: Any, path: tuple[Any, ...], place: tuple[str, ...]) -> Any:
        """Return *value*, which is at *path*, with 0 for each null that is a number: each bound allows that.

        *place* is the path with ``*`` for each member of a map or an array. Raises ``msgspec.ValidationError`` for
        any other null that the schema does not allow.
        """
        constructor, part = declared if isinstance(declared, tuple) else (declared, None)
        is_lost = type(value) is float and not math.isfinite(value)
        if value is None or is_lost:
            if "/".join(place) not in self._allowed:
                expected = _NAMES.get(constructor, constructor)
                raise msgspec.ValidationError(f"Expected `{expected}`, got `null` - at `$.{'.'.join(map(str, path))}`")
            if declared not in _NUMBERS:
                return None
            self.numbers.append((path, value if is_lost else math.nan))
            return 0.0
        if isinstance(value, list) and constructor == "array":
            return [self.filled(item, part, (*path, at), (*place, "*")) for at, item in enumerate(value)]
        if not isinstance(value, dict) or constructor not in ("object", "map"):
            return value
        if constructor == "map":
            return {key: self.filled(item, part, (*path, key), (*place, "*")) for key, item in value.items()}
        known = {key: self.filled(value[key], part[key], (*path, key), (*place, key)) for key in value.keys() & part}
        return value | known


def _put(holder: Any, path: tuple[Any, ...], number: float) -> None:
    for key in path[:-1]:
        holder = getattr(holder, key) if isinstance(holder, msgspec.Struct) else holder[key]
    if isinstance(holder, msgspec.Struct):
        setattr(holder, path[-1], number)
    else:
        holder[path[-1]] = number


Path = tuple[str | int, ...]
"""Keys and array indexes that lead to a value."""

# The decoded types that may need a conversion; most integers are absent or ints already.
_CHANGING = frozenset([float, dict, list])


def take_integers(value: dict[str, Any], profile: Profile | None, kind: str | None) -> list[Path]:
    """Turn each whole float in a record into an int where the schema of *kind* types an integer; return their paths.

    Records of unknown kind, and of profiles that do not allow such integers, do not change.
    """
    fields = _integer_fields(profile).get(kind, {})
    found: list[Path] = []
    for key in fields:
        # Most records do not change.
        if type(value.get(key)) in _CHANGING:
            value[key] = _taken(value[key], fields[key], (key,), found)
    return found


def take_integers_of_manifest(value: dict[str, Any]) -> list[Path]:
    """Do for the manifest of a kaun/v1 run what ``take_integers`` does for a record."""
    found: list[Path] = []
    _taken(value, ("object", FIELDS["kaun/v1"]["run"]), (), found)
    return found


def _taken(item: Any, declared: Any, path: Path, found: list[Path]) -> Any:
    """Return *item* with ints in place of whole floats, whose paths are *found*; what is in it changes in place."""
    constructor, part = declared if isinstance(declared, tuple) else (declared, None)
    if constructor == "integer" and type(item) is float and item.is_integer():
        found.append(path)
        return int(item)
    if constructor in ("object", "map") and isinstance(item, dict):
        for key, member in item.items():
            if constructor == "map" or key in part:
                item[key] = _taken(member, part if constructor == "map" else part[key], (*path, key), found)
    elif constructor == "array" and isinstance(item, list):
        item[:] = [_taken(member, part, (*path, index), found) for index, member in enumerate(item)]
    return item


@cache
def _integer_fields(profile: Profile | None) -> dict[str | None, dict[str, Any]]:
    """Return the fields of each kind that are integers or hold some."""
    if profile not in PROFILES[INTEGER_AS_FLOAT]:
        return {}
    tag = tag_of(profile)
    return {
        kind: {key: declared for key, declared in fields.items() if _holds_integers(declared)}
        for kind, fields in FIELDS[profile].items()
        if tag in fields
    }


def _holds_integers(declared: Any) -> bool:
    constructor, part = declared if isinstance(declared, tuple) else (declared, None)
    inner = part.values() if constructor == "object" else [part] if part else []
    return constructor == "integer" or any(map(_holds_integers, inner))
