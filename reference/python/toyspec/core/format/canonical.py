"""Encodes an event in canonical form: one spelling, equal byte for byte in every language.

Keys are in schema order, unknown keys follow, sorted by their UTF-8 bytes as in open maps, and there are no spaces.
Fields of type number are written as floats, integers as digits, and values that are not finite as null.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Struct

from toyspec.core.errors import ToyspecError, let_through
from toyspec.core.escaping import shortened
from toyspec.core.format.foreign_values import built_in, mapping_of
from toyspec.core.format.numbers import binary32_text, binary64_text
from toyspec.core.format.scalars import attribute, integer, is_finite, items, number, scalar, text
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.limits import MAX_DEPTH, MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.core.findings import Profile

_ENCODER = msgspec.json.Encoder()
_ENTRY_KIND = "entry"
_TAG_KEYS: dict[Profile, str] = {"toy/v1": "kind", "kaun/v1": "type"}

Event = Struct | Mapping[str, Any]
"""An event to write: a Struct of ``toyspec.core.events`` or of your own, or a mapping.

A Struct with ``omit_defaults``, as those of ``toyspec.core.events``, does not have the members that are None by
default.
"""


class InvalidEventError(ToyspecError, ValueError):
    """The event is not a valid record, or not allowed at this place of its stream: a mistake of the caller."""


class RecordRefusedError(ToyspecError, ValueError):
    """The record exceeds a limit that every reader enforces."""

    def __init__(self, rule: Literal["line-too-long", "nested-too-deep"], message: str) -> None:
        super().__init__(message)
        self.rule = rule
        """The rule that the record would break."""


def encode(event: Event, *, profile: Profile = "toy/v1", kind: str | None = None) -> bytes:
    """Return the canonical text of *event*, without LF.

    *kind* is read from the event's tag unless given. Values may be scalars of array libraries: each is converted
    once, exactly. Half a surrogate pair becomes U+FFFD. Raise InvalidEventError naming the member that its field
    cannot hold, RecordRefusedError for a record that is too long or too deep.
    """
    return _encoded(plain(event, profile=profile, kind=kind))


def encode_record(event: Event) -> bytes:
    """Return what ``encode`` does, with ``nonfinite``, which names the numbers that are not finite.

    Kinds of toy/v1 that cannot have it are the same as by ``encode``, and what the record names itself stays.
    """
    record = plain(event)
    line = _encoded(record)
    fields = FIELDS["toy/v1"].get(str(record.get("kind")), {})
    if b"null" not in line or "nonfinite" not in fields:
        return line
    # The numbers of ``scalars`` have no names but those in it.
    words = {name.removeprefix("values/"): word for name, word in _words(record)}
    if not words:
        return line
    record["nonfinite"] = dict(sorted({**words, **record.get("nonfinite", {})}.items()))
    return _encoded({key: record[key] for key in (*fields, *record) if key in record})


def _encoded(record: dict[str, Any]) -> bytes:
    line = _ENCODER.encode(record)
    if len(line) > MAX_LINE_BYTES:
        raise RecordRefusedError("line-too-long", f"the record has {len(line)} bytes, the limit is {MAX_LINE_BYTES}")
    return line


def _words(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name of each number in *value* that is not finite, and which one it is."""
    if type(value) is float:
        if value - value != 0.0:
            yield name, "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    elif isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _words(member, f"{name}/{key}" if name else str(key))


def plain(event: Event, *, profile: Profile = "toy/v1", kind: str | None = None) -> dict[str, Any]:
    """Return *event* in built-in types, its keys in canonical order; raise as ``encode`` does.

    Numbers that are not finite stay; JSON has null for them.
    """
    members = members_of(event)
    if kind is None:
        kind = members.get(_TAG_KEYS[profile]) if profile in _TAG_KEYS else _ENTRY_KIND
        kind = None if kind == "run" else kind  # the name of kaun/v1's manifest, which no record of a stream has
    fields = FIELDS[profile].get(kind) if isinstance(kind, str) else None
    if fields is None:
        # Of an unknown kind, only the tag is known.
        fields = {_TAG_KEYS.get(profile, ""): "string"}
    return _object(members, fields, "", 1)


def members_of(event: Any) -> dict[Any, Any]:
    """Return the members that an event has, as they were given, its tag included.

    Those that are UNSET are left out, and of a Struct with ``omit_defaults`` those that are None by default.
    """
    if not isinstance(event, Struct):
        return {name: value for name, value in _mapping(event, "").items() if value is not UNSET}
    names = zip(event.__struct_fields__, event.__struct_encode_fields__, strict=True)
    given = ((name, value) for attribute, name in names if (value := getattr(event, attribute)) is not UNSET)
    absent = _none_by_default(type(event))
    members = {name: value for name, value in given if value is not None or name not in absent}
    config = event.__struct_config__
    return members if config.tag is None else {config.tag_field: config.tag, **members}


@cache
def _none_by_default(struct: type[Struct]) -> frozenset[str]:
    if not struct.__struct_config__.omit_defaults:
        return frozenset()
    defaults = struct.__struct_defaults__
    names = struct.__struct_encode_fields__[len(struct.__struct_encode_fields__) - len(defaults) :]
    return frozenset(name for name, default in zip(names, defaults, strict=True) if default is None)


def _object(value: Any, fields: Mapping[str, Any], pointer: str, depth: int) -> dict[str, Any]:
    _check_depth(depth, pointer)
    given = members_of(value) if isinstance(value, Struct) else _mapping(value, pointer)
    members = _by_text({key: member for key, member in given.items() if member is not UNSET}, pointer)
    known = {
        key: _field(members[key], field_type, f"{pointer}/{key}", depth + 1)
        for key, field_type in fields.items()
        if key in members
    }
    unknown = sorted(members.keys() - fields.keys())
    return known | {key: _open(members[key], f"{pointer}/{key}", depth + 1) for key in unknown}


def _field(value: Any, field_type: Any, pointer: str, depth: int) -> Any:
    if value is None:
        return None
    if isinstance(field_type, str):
        return _SCALARS[field_type](value, pointer) if field_type != "open" else _open_map(value, pointer, depth)
    constructor, part = field_type
    if constructor == "object":
        return _object(value, part, pointer, depth)
    _check_depth(depth, pointer)
    if constructor == "map":
        members = _sorted_members(value, pointer)
        return {key: _field(member, part, f"{pointer}/{key}", depth + 1) for key, member in members}
    found = items(value)
    if found is None:
        raise _refusal(pointer, "an array", value)
    return [_field(item, part, f"{pointer}/{i}", depth + 1) for i, item in enumerate(found)]


def _made(make: Callable[[Any], Any], value: Any, pointer: str, expected: str) -> Any:
    """Return what *make* makes of *value*, an object of any library; raise InvalidEventError where that raises."""
    try:
        return make(value)
    except Exception as error:
        let_through(error)
        raise _refusal(pointer, expected, value, error) from error


def _number_field(value: Any, pointer: str) -> float | None:
    found: float | None = value if type(value) is float else _made(number, value, pointer, "a number")
    return found


def _binary32_field(value: Any, pointer: str) -> msgspec.Raw | None:
    exact = _number_field(value, pointer)
    return None if exact is None else msgspec.Raw(binary32_text(exact).encode())


def _integer_field(value: Any, pointer: str) -> int | None:
    found: int | None = _made(integer, value, pointer, "an integer")
    if found is not None and not is_finite(found):
        raise _refusal(pointer, "an integer within binary64", value)
    return found


def _string_field(value: Any, pointer: str) -> str:
    if not isinstance(value, str):
        raise _refusal(pointer, "a string", value)
    return text(value)


def _boolean_field(value: Any, pointer: str) -> bool:
    found = scalar(value)
    if type(found) is not bool:
        raise _refusal(pointer, "a boolean", value)
    return found


_SCALARS = {
    "number": _number_field,
    "binary32": _binary32_field,
    "integer": _integer_field,
    "string": _string_field,
    "boolean": _boolean_field,
}


def _open_map(value: Any, pointer: str, depth: int) -> dict[str, Any]:
    found = _open(value, pointer, depth)
    if not isinstance(found, dict):
        raise _refusal(pointer, "an object", value)
    return found


def _sorted_members(value: Any, pointer: str) -> list[tuple[str, Any]]:
    members = _by_text(_mapping(value, pointer), pointer)
    # Code points sort as their UTF-8 bytes do.
    return sorted(members.items(), key=operator.itemgetter(0))


def _by_text(given: Mapping[Any, Any], pointer: str) -> dict[str, Any]:
    """Return *given* by the text of its keys; raise InvalidEventError if two keys have the same text."""
    members = {key_text(key, pointer): member for key, member in given.items()}
    if len(members) != len(given):
        texts = [key_text(key, pointer) for key in given]
        twice = next(text for text in texts if texts.count(text) > 1)
        raise InvalidEventError(
            f"{shortened(pointer) or 'the event'} has two keys that are written {shortened(twice)!r}"
        )
    return members


def _mapping(value: Any, pointer: str) -> dict[Any, Any]:
    """Return the members of a mapping, or of an object with named values; raise InvalidEventError for all else."""
    members: dict[Any, Any] | None = _made(_members, value, pointer, "an object")
    if members is None:
        raise _refusal(pointer, "an object", value)
    return members


def _members(value: Any) -> dict[Any, Any] | None:
    members = mapping_of(value)
    return None if members is None else dict(members.items())


def _check_depth(depth: int, pointer: str) -> None:
    if depth > MAX_DEPTH:
        place = shortened(pointer)
        raise RecordRefusedError("nested-too-deep", f"{place} is nested deeper than {MAX_DEPTH} objects and arrays")


def _open(value: Any, pointer: str, depth: int) -> Any:
    """Return any value that JSON can represent, the keys of its objects sorted at every level."""
    kind = type(value)
    if kind is str:
        return text(value)
    if kind is int and not is_finite(value):
        raise _refusal(pointer, "an integer within binary64", value)
    if value is None or kind in (float, int, bool):
        return value
    if isinstance(value, Mapping):
        _check_depth(depth, pointer)
        members = _sorted_members(value, pointer)
        return {key: _open(member, f"{pointer}/{key}", depth + 1) for key, member in members if member is not UNSET}
    # A tuple with names of its own is an object.
    found = None if hasattr(type(value), "_asdict") else items(value)
    if found is not None:
        _check_depth(depth, pointer)
        return [_open(item, f"{pointer}/{i}", depth + 1) for i, item in enumerate(found)]
    make = members_of if isinstance(value, Struct) else built_in
    return _open(_made(make, value, pointer, "a value that JSON can hold"), pointer, depth)


def key_text(key: Any, pointer: str = "") -> str:
    """Return the text of a key of any scalar type; raise InvalidEventError for all else."""
    found = _made(scalar, key, pointer, "an object with keys that are strings")
    if type(found) is str:
        return text(found)
    if type(found) is float:
        return binary64_text(found)
    if found is None or type(found) in (int, bool):
        return _ENCODER.encode(found).decode()
    raise _refusal(pointer, "an object with keys that are strings", key)


def _refusal(pointer: str, expected: str, value: object, cause: Exception | None = None) -> InvalidEventError:
    shown = shortened(repr(value)) if isinstance(value, str | int | float) else type(value).__name__
    shape = attribute(value, "shape")
    if isinstance(shape, tuple) and shape:
        shown = f"{shown} of shape {shortened(str(tuple(shape)))}; reduce it to one number, as by mean()"
    elif cause is not None and not isinstance(cause, TypeError) and str(cause):
        shown = f"{shown} ({shortened(str(cause))})"
    if expected.startswith("a value"):
        shown = f"{shown}; pass a number, a string, a list or a mapping, as str() makes one"
    return InvalidEventError(f"{shortened(pointer) or 'the event'} must be {expected}, got {shown}")
