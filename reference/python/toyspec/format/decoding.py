"""Decodes the lines of a block together: into plain objects, or at once into the types of their kinds.

The result for a line equals that of ``line_validation.decode``, and of converting it to its type. It is None for a line
that is not proven to be readable; the caller must decode that line by itself.

A type has None for an absent key, and NaN for a number that is null. A line without ``null`` is decoded into it at
once, any other by way of a type that keeps absent and null apart.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from itertools import compress, repeat
from operator import attrgetter, is_
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, get_args

import msgspec

from toyspec.format.line_validation import holds_long_number
from toyspec.format.record_mapping import NOT_FINITE, with_lost_numbers
from toyspec.generated.fields import FIELDS
from toyspec.generated.limits import MAX_DEPTH
from toyspec.generated.streams import STREAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toyspec.findings import Profile

# Raised by decoding if the bytes are not a record of a type.
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_decode_value = msgspec.json.Decoder().decode
# The facts about a type are kept in it before they are complete: a second thread that uses them ends the interpreter.
_ONE_AT_A_TIME = Lock()


_NULL = b"null"
_NUMBERS = ("number", "binary32")
_SCALAR_TYPES = frozenset([bool, float, int, str])


class _Closed(NamedTuple):
    """A decoder that refuses unknown keys; other decoders skip them."""

    decode: Callable[[bytes], Any]
    kinds: dict[type, str | None]
    """The kind of a record, by the type that it is decoded into."""


def decode_values(lines: Sequence[bytes]) -> tuple[list[Any], list[int]]:
    """Return the object of each line, and the indexes of lines that must be decoded one by one; these are None."""
    found, odd = _decoded(lines, _decode_value)
    if set(map(type, found)) != {dict}:
        odd = [index for index, value in enumerate(found) if type(value) is not dict]
    # Every line has a bracket, so none has more than all brackets less one for each of the others.
    block = b"".join(lines)
    if block.count(b"{") + block.count(b"[") - (len(found) - len(odd)) >= MAX_DEPTH:
        deep = {index for index, line in enumerate(lines) if line.count(b"{") + line.count(b"[") > MAX_DEPTH}
        odd = sorted(deep.union(odd))
    for index in odd:
        found[index] = None
    return found, odd


def decode_events(lines: Sequence[bytes], profile: Profile) -> tuple[list[Any], list[str | None], list[int]]:
    """Return the typed event of each line, its kind, and the indexes of lines without an event.

    Types with nested objects are not used, since their decoders would skip unknown keys.
    """
    # Where the loss has become NaN it stays so: to try such lines first without null would waste time.
    is_lost = bool(lines) and _NULL in lines[0] and _NULL in lines[-1]
    events: list[Any] = [None] * len(lines)
    kinds: list[str | None] = [None] * len(lines)
    odd = [*range(len(lines))]
    if not is_lost:
        events, kinds, odd = _plain_events(lines, profile)
    with_null = [index for index in odd if _NULL in lines[index]]
    if len(with_null) == len(lines):
        return _events_with_null(lines, profile)
    if with_null:
        found, of, rest = _events_with_null([lines[index] for index in with_null], profile)
        for index, event, kind in zip(with_null, found, of, strict=True):
            events[index], kinds[index] = event, kind
        odd = sorted({*odd}.difference(with_null).union(with_null[index] for index in rest))
    return events, kinds, odd


def _plain_events(lines: Sequence[bytes], profile: Profile) -> tuple[list[Any], list[str | None], list[int]]:
    """Do what ``decode_events`` does; a line with null in a known key has no event."""
    # To decode each line twice instead, into both types, takes half as long again.
    decoder, public = _closed(profile, "public"), event_types(profile)
    found, odd = _decoded(lines, decoder.decode)
    decoded = set(map(type, found))
    if len(decoded) == 1 and not odd:
        kind = decoder.kinds[decoded.pop()]
        cls = public[kind]
        for event in found:
            event.__class__ = cls
        return found, [kind] * len(found), odd
    kinds = list(map(decoder.kinds.get, map(type, found)))
    for event, kind in zip(found, kinds, strict=True):
        if event is not None:
            event.__class__ = public[kind]
    return found, kinds, odd


def _events_with_null(lines: Sequence[bytes], profile: Profile) -> tuple[list[Any], list[str | None], list[int]]:
    """Do what ``decode_events`` does; the types that the lines are decoded into keep absent and null apart."""
    decoder = _closed(profile, "exact")
    events, odd = _decoded(lines, decoder.decode)
    types = list(map(type, events))
    for made in {*types} & decoder.kinds.keys():
        found = events if len({*types}) == 1 else [event for event in events if type(event) is made]
        _nulls_of(profile, decoder.kinds[made]).fill(found)
    return events, list(map(decoder.kinds.get, types)), odd


class _Nulls(NamedTuple):
    """What is absent or null in the records of one kind, and what it is in the public type."""

    kind: str | None
    public: type[msgspec.Struct]
    members: tuple[tuple[str, Any], ...]
    """Members that may be absent or null, and what they are where they are absent."""
    numbers: frozenset[str]
    """Those that may be null, and are NaN then."""
    maps: tuple[str, ...]
    """Members whose members may be null."""
    lists: tuple[tuple[str, Any], ...]
    """Members with lists of numbers, and what they are."""
    says: bool
    """Whether lines may say what null was."""

    def fill(self, events: Sequence[Any]) -> None:
        """Make decoded *events* those of the public type: a null is the number that the line says it was, else NaN."""
        for event in events:
            event.__class__ = self.public
        for event in events if self.says else ():
            if event.nonfinite:
                self._restore(event, event.nonfinite)
        for name, default in self.members:
            found = list(map(attrgetter(name), events))
            if name in self.numbers:
                for event in compress(events, map(is_, found, repeat(None))):
                    setattr(event, name, math.nan)
            for event in compress(events, map(is_, found, repeat(msgspec.UNSET))):
                setattr(event, name, default)
        self._fill_inner(events)

    def _fill_inner(self, events: Sequence[Any]) -> None:
        for name in self.maps:
            for members in map(attrgetter(name), events):
                if members and None in members.values():
                    members.update({key: math.nan for key, value in members.items() if value is None})
        for name, declared in self.lists:
            for event in events:
                setattr(event, name, _shown(getattr(event, name), declared, self.public))

    def _restore(self, event: Any, words: Mapping[str, str]) -> None:
        for name, word in words.items():
            if word not in NOT_FINITE:
                continue
            if name in self.numbers and getattr(event, name) is None:
                setattr(event, name, NOT_FINITE[word])
            outer, _, inner = name.partition("/")
            if self.kind == "scalars":
                outer, inner = "values", name
            members = getattr(event, outer) if outer in self.maps else None
            if members and members.get(inner, word) is None:
                members[inner] = NOT_FINITE[word]


@cache
def _nulls_of(profile: Profile, kind: str | None) -> _Nulls:
    declared, cls = FIELDS[profile][kind or "entry"], event_types(profile)[kind]
    exact = msgspec.structs.fields(_exact(kind, profile))
    numbers = frozenset(each.name for each in exact if _takes_null(each.type) and declared[each.name] in _NUMBERS)
    inner = {name: each for name, each in declared.items() if isinstance(each, tuple) and _holds_numbers(each)}
    return _Nulls(
        kind,
        cls,
        tuple(
            (field.name, field.default)
            for field in msgspec.structs.fields(cls)
            if not field.required or field.name in numbers
        ),
        numbers,
        tuple(name for name, (constructor, _) in inner.items() if constructor == "map"),
        tuple((name, each) for name, each in inner.items() if each[0] == "array"),
        "nonfinite" in declared,
    )


def _takes_null(declared: Any) -> bool:
    return type(None) in get_args(declared)


def _holds_numbers(declared: Any) -> bool:
    return _holds_numbers(declared[1]) if isinstance(declared, tuple) else declared in _NUMBERS


def event_of(raw: bytes, value: dict[str, Any], kind: str | None, profile: Profile | None) -> msgspec.Struct | None:
    """Return the readable line *raw* as the type of its *kind*; None if it does not fit.

    *value* is its object, in which integers with a fraction or an exponent are ints.
    """
    if profile is None or kind not in event_types(profile):
        return None
    try:
        event: msgspec.Struct = typed(raw, kind, profile)
    except _REFUSED:
        pass
    else:
        return event
    try:
        # Decoding the line would refuse `1.0` as an integer, and a wrong first value of a repeated key.
        return _public(msgspec.convert(value, _exact(kind, profile)), profile, kind)
    except msgspec.ValidationError:
        return None


def typed(line: bytes, kind: str | None, profile: Profile) -> Any:
    """Return a *line* as the type of its *kind*; raise ``msgspec.ValidationError`` if it does not fit."""
    event = fitting(line, kind, profile)
    return event if type(event) is event_types(profile)[kind] else _public(event, profile, kind)


def fitting(line: bytes, kind: str | None, profile: Profile) -> Any:
    """Return a *line* as the type of its *kind*, or as the exact one if it has null, which costs less than ``typed``.

    Raises ``msgspec.ValidationError`` if it does not fit.
    """
    if _NULL not in line:
        try:
            return _open(event_types(profile)[kind])(line)
        except msgspec.ValidationError:
            # The exact type says what the schema expects; this one takes null for any optional key.
            pass
    return _open(_exact(kind, profile))(line)


def valid_member(value: Mapping[str, Any], key: str, kind: str | None, profile: Profile) -> Any:
    """Return the member *key* of a record as its type, None for null; UNSET if it is absent, unknown, or invalid."""
    field_type = _member_types(profile, kind).get(key)
    if field_type is None or key not in value:
        return msgspec.UNSET
    try:
        return msgspec.convert(value[key], field_type)
    except msgspec.ValidationError:
        return msgspec.UNSET


def _public(event: msgspec.Struct, profile: Profile, kind: str | None) -> msgspec.Struct:
    """Return what the exact type *event* of *kind* says, as the public type: absent is None, a null number is NaN."""
    cls = event_types(profile)[kind]
    given = _given(event)
    lost = given.get("nonfinite")
    if lost:
        given = with_lost_numbers(given) | {"nonfinite": lost}
    return cls(**_members(given, FIELDS[profile][kind or "entry"], cls))


def _given(event: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(event).items() if value is not msgspec.UNSET}


def _members(given: dict[str, Any], fields: Mapping[str, Any], cls: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the members *given* of an exact type as those of the public type *cls*."""
    for name, value in given.items():
        if type(value) not in _SCALAR_TYPES:
            given[name] = _shown(value, fields[name], cls)
    return given


def _shown(value: Any, declared: Any, cls: type[msgspec.Struct]) -> Any:
    """Return a value of an exact type as that of a field of the public type *cls*."""
    if value is None:
        return math.nan if declared in _NUMBERS else None
    if not isinstance(declared, tuple):
        return value
    constructor, part = declared
    if constructor == "object":
        inner = getattr(import_module(cls.__module__), type(value).__name__)
        return inner(**_members(_given(value), part, inner))
    if isinstance(value, dict):
        return {key: _shown(member, part, cls) for key, member in value.items()}
    return [_shown(item, part, cls) for item in value] if isinstance(value, list) else value


@cache
def _member_types(profile: Profile, kind: str | None) -> dict[str, Any]:
    if kind not in event_types(profile):
        return {}
    cls = _exact(kind, profile)
    # With its decoder, the types of its members are known too.
    _open(cls)
    return {field.encode_name: field.type for field in msgspec.structs.fields(cls)}


@cache
def event_types(profile: Profile) -> dict[str | None, type[msgspec.Struct]]:
    """Return the type of each kind of *profile*; the one type of a profile without kinds is under None."""
    return {_tag(cls): cls for cls in _record_classes(profile)}


def _decoded(lines: Sequence[bytes], decode: Callable[[bytes], Any]) -> tuple[list[Any], list[int]]:
    found: list[Any] = []
    odd: list[int] = []
    rest = map(decode, lines)
    while len(found) < len(lines):
        try:
            found.extend(rest)
        except _REFUSED:
            odd.append(len(found))
            found.append(None)
    if holds_long_number(lines):
        odd = sorted({*odd, *(index for index, line in enumerate(lines) if holds_long_number([line]))})
        for index in odd:
            found[index] = None
    return found, odd


@cache
def _closed(profile: Profile, family: Literal["public", "exact"]) -> _Closed:
    """Return the decoder of the types that have no nested objects; that of the public ones refuses null."""
    tag = STREAMS[profile]["tag"]
    kinds: dict[type, str | None] = {}
    for kind, cls in event_types(profile).items():
        if all(map(_is_closed, FIELDS[profile][kind or "entry"].values())):
            fields = _without_null(cls) if family == "public" else _with_absent(cls, _exact(kind, profile))
            closed = msgspec.defstruct(
                cls.__name__, fields, bases=(cls,), tag=kind, tag_field=tag, forbid_unknown_fields=True, kw_only=True
            )
            kinds[closed] = kind
    decoded = tuple(kinds)
    if tag is not None:
        # Only a union requires the tag; no line has this one.
        decoded = (*decoded, msgspec.defstruct("Unused", [], tag_field=tag, tag="\0"))
    decode = typed_decoder(Union[decoded]).decode  # noqa: UP007 - the types are known here only
    return _Closed(decode, kinds)


def _without_null(cls: type[msgspec.Struct]) -> list[Any]:
    """Return the fields of a public type that may be None with types that do not take null."""
    found: list[Any] = []
    for field in msgspec.structs.fields(cls):
        parts = get_args(field.type)
        if type(None) in parts:
            taken: Any = Union[tuple(each for each in parts if each is not type(None))]  # noqa: UP007 - known here only
            found.append((field.name, taken) if field.required else (field.name, taken, None))
    return found


def _with_absent(cls: type[msgspec.Struct], exact: type[msgspec.Struct]) -> list[Any]:
    """Return the fields of a public type with the types of the *exact* one, in which an absent one is UNSET."""
    types = {field.name: field.type for field in msgspec.structs.fields(exact)}
    return [
        (field.name, types[field.name], *([] if field.required else [msgspec.UNSET]))
        for field in msgspec.structs.fields(cls)
    ]


def _is_closed(declared: Any) -> bool:
    """Return whether a field has no objects other than maps of scalars."""
    if not isinstance(declared, tuple):
        return bool(declared != "open")
    constructor, part = declared
    return constructor in ("map", "array") and _is_closed(part)


@cache
def _open(cls: type[msgspec.Struct]) -> Callable[[bytes], Any]:
    return typed_decoder(cls).decode


def _tag(cls: type[msgspec.Struct]) -> str | None:
    tag = cls.__struct_config__.tag
    return tag if isinstance(tag, str) else None


def _record_classes(profile: Profile) -> tuple[type[msgspec.Struct], ...]:
    return _classes(profile, "")


def _exact(kind: str | None, profile: Profile) -> type[msgspec.Struct]:
    """Return the type of *kind* that keeps absent and null apart."""
    return _exact_types(profile)[kind]


@cache
def _exact_types(profile: Profile) -> dict[str | None, type[msgspec.Struct]]:
    return {_tag(cls): cls for cls in _classes(profile, "exact_")}


def _classes(profile: Profile, family: str) -> tuple[type[msgspec.Struct], ...]:
    if profile not in ("toy/v1", "kaun/v1", "metrics/v1"):
        # The types of a user's profile are the user's own.
        return ()
    # Most programs read one profile, in which null is rare; importing the types of the others would waste time.
    module = import_module(f"toyspec.generated.{family}{profile.replace('/', '_')}")
    record = getattr(module, f"{''.join(part.capitalize() for part in profile.split('/'))}Record")
    return get_args(record) or (record,)


def typed_decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the type *wanted*; afterwards, any thread may convert values to it."""
    with _ONE_AT_A_TIME:
        return msgspec.json.Decoder(wanted)
