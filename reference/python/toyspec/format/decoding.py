"""Decodes the lines of a block together: into plain objects, or at once into the types of their kinds.

The result for a line equals that of ``line_validation.decode``, and of converting it to its type. It is None for a line
that is not proven to be readable; the caller must decode that line by itself.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Union, get_args

import msgspec

from toyspec.format.line_validation import holds_long_number
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


class _Closed(NamedTuple):
    """A decoder that refuses unknown keys; other decoders skip them."""

    decode: Callable[[bytes], Any]
    public: dict[type, type]
    """The type that a record is returned as, by the type that it is decoded into."""
    kinds: dict[type, str | None]
    """The kind of a record, by the type that it is returned as."""


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
    # To decode each line twice instead, into both types, takes half as long again.
    decoder = _closed(profile)
    public = decoder.public
    found, odd = _decoded(lines, decoder.decode)
    decoded = set(map(type, found))
    if len(decoded) == 1 and not odd:
        cls = public[decoded.pop()]
        for event in found:
            event.__class__ = cls
        return found, [decoder.kinds[cls]] * len(found), odd
    for event in found:
        if event is not None:
            event.__class__ = public[type(event)]
    return found, list(map(decoder.kinds.get, map(type, found))), odd


def event_of(raw: bytes, value: dict[str, Any], kind: str | None, profile: Profile | None) -> msgspec.Struct | None:
    """Return the readable line *raw* as the type of its *kind*; None if it does not fit.

    *value* is its object, in which integers with a fraction or an exponent are ints.
    """
    cls = event_types(profile).get(kind) if profile is not None else None
    if cls is None:
        return None
    found: msgspec.Struct
    try:
        found = _open(cls)(raw)
    except _REFUSED:
        pass
    else:
        return found
    try:
        # Decoding the line would refuse `1.0` as an integer, and a wrong first value of a repeated key.
        return msgspec.convert(value, cls)
    except msgspec.ValidationError:
        return None


def valid_member(value: Mapping[str, Any], key: str, kind: str | None, profile: Profile) -> Any:
    """Return the member *key* of a record as its type; UNSET if it is absent, unknown, or invalid."""
    field_type = _member_types(profile, kind).get(key)
    if field_type is None or key not in value:
        return msgspec.UNSET
    try:
        return msgspec.convert(value[key], field_type)
    except msgspec.ValidationError:
        return msgspec.UNSET


@cache
def _member_types(profile: Profile, kind: str | None) -> dict[str, Any]:
    cls = event_types(profile).get(kind)
    if cls is not None:
        # With its decoder, the types of its members are known too.
        _open(cls)
    return {} if cls is None else {field.encode_name: field.type for field in msgspec.structs.fields(cls)}


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
def _closed(profile: Profile) -> _Closed:
    tag = STREAMS[profile]["tag"]
    public: dict[type, type] = {}
    for kind, cls in event_types(profile).items():
        if all(map(_is_closed, FIELDS[profile][kind or "entry"].values())):
            closed = msgspec.defstruct(
                cls.__name__, [], bases=(cls,), tag=kind, tag_field=tag, forbid_unknown_fields=True, kw_only=True
            )
            public[closed] = cls
    types = tuple(public)
    if tag is not None:
        # Only a union requires the tag; no line has this one.
        types = (*types, msgspec.defstruct("Unused", [], tag_field=tag, tag="\0"))
    decode = typed_decoder(Union[types]).decode  # noqa: UP007 - the types are known here only
    return _Closed(decode, public, {cls: _tag(cls) for cls in public.values()})


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
    if profile not in ("toy/v1", "kaun/v1", "metrics/v1"):
        # The types of a user's profile are the user's own.
        return ()
    # Most programs read one profile; importing the types of the others would waste time.
    if profile == "toy/v1":
        from toyspec.generated.toy_v1 import ToyV1Record

        return get_args(ToyV1Record)
    if profile == "kaun/v1":
        from toyspec.generated.kaun_v1 import KaunV1Record

        return (KaunV1Record,)
    from toyspec.generated.metrics_v1 import MetricsV1Record

    return (MetricsV1Record,)


def typed_decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the type *wanted*; afterwards, any thread may convert values to it."""
    with _ONE_AT_A_TIME:
        return msgspec.json.Decoder(wanted)
