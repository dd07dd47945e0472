"""Proves that lines have no finding of their own, so that only the others take the exact path.

A line that decodes into the strict type of its kind has known keys, right values and safe integers. What remains is
that no key repeats: a decoder keeps the last value only. Encoding what was decoded writes each key once. If the result
is the same bytes, or has as many ``":``, no key was lost. Integers written ``1.0`` and unknown keys take longer.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Union, get_args

import msgspec

from toyspec.core.format.date_times import is_date_time
from toyspec.core.format.decoding import take_integers, typed_decoder
from toyspec.core.format.profiles import tag_of
from toyspec.core.generated.fields import DATE_TIMES, FIELDS
from toyspec.core.generated.limits import MAX_DEPTH, MAX_SAFE_INTEGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.checker.collecting import Lines
    from toyspec.core.findings import Profile
    from toyspec.core.format.decoding import Path

# Raised by decoding if the bytes are not a regular record.
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Taken(NamedTuple):
    """Lines that were decoded at once."""

    records: list[Any]
    """The record of each line; None for a line that is not proven."""
    odd: list[int]
    """The indexes of lines that are not proven."""
    alone: dict[int, Proven]
    """What was proven alone, by index."""


class Proven(NamedTuple):
    """A line that was proven alone."""

    kind: str
    record: Any
    whole_floats: list[Path]
    """Paths of its integers that have a fraction or an exponent."""
    unknown: list[str]
    """Its unknown keys, each of which was reported before."""


class BlockProof:
    """Proves the lines of one stream."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._types = _types(profile)
        self._tag = tag_of(profile)
        self._decoder = _decoder(profile)
        self._encoder = msgspec.json.Encoder()
        self._untyped = msgspec.json.Decoder()
        self._reported: set[tuple[str, str]] = set()

    def block(self, lines: Lines) -> Taken:
        """Return the records of *lines*; none is too long, or has a carriage return to report."""
        try:
            found = self._decoder.decode_lines(lines.together)
            is_canonical = self._encoder.encode_lines(found) == lines.together
        except _REFUSED:
            is_canonical = False
        found, odd = (found, []) if is_canonical else self._each(lines.data)
        types = set(map(type, found))
        if not types.isdisjoint(_unsettled(self._profile)):
            odd += [index for index, record in enumerate(found) if type(record) in _unsettled(self._profile)]
        # A finding on an entry may depend on the order of its keys, which the record loses.
        tried = {} if self._tag is None else {index: self.line(lines.data[index][:-1]) for index in odd}
        alone = {index: proven for index, proven in tried.items() if proven is not None}
        for index in odd:
            found[index] = alone[index].record if index in alone else None
        return Taken(found, sorted(set(odd).difference(alone)), alone)

    def _each(self, lines: Sequence[bytes]) -> tuple[list[Any], list[int]]:
        """Return the records of *lines*, decoded one by one and compared together, and the indexes of other lines."""
        found: list[Any] = []
        odd: list[int] = []
        rest = map(self._decoder.decode, lines)
        while len(found) < len(lines):
            try:
                found.extend(rest)
            except _REFUSED:
                odd.append(len(found))
                found.append(None)
        good = sorted(set(range(len(found))).difference(odd))
        if not self._is_whole(b"".join([lines[index] for index in good]), [found[index] for index in good]):
            odd += [index for index in good if not self._is_whole(lines[index], [found[index]])]
        return found, odd

    def line(self, data: bytes) -> Proven | None:
        """Return the record of a line, LF excluded, that is proven to have nothing to report but whole floats."""
        if b"\r" in data or data.count(b"{") + data.count(b"[") > MAX_DEPTH:
            return None
        try:
            proven, keys = self._decoded_alone(data)
        except _REFUSED:
            return None
        is_counted = data.count(b'":') == keys and not self._hides_keys(data)
        is_whole = is_counted or self._encoder.encode(proven.record) == data
        return proven if is_whole and self._is_sound(proven.kind, proven.record) else None

    def _decoded_alone(self, data: bytes) -> tuple[Proven, int]:
        """Return what a line holds, and its number of keys; raise ValidationError where it may have a finding."""
        value = self._untyped.decode(data)
        kind = value.get(self._tag, "entry") if type(value) is dict else None
        if not isinstance(kind, str) or kind not in self._types:
            raise msgspec.ValidationError("not of a known kind")
        keys = _count_keys(value)
        unknown = [key for key in value if key not in FIELDS[self._profile][kind]]
        for key in unknown:
            if (kind, key) not in self._reported or _count_keys(value[key]) or not _has_safe_integers(value.pop(key)):
                raise msgspec.ValidationError("an unknown key")
        whole_floats = take_integers(value, self._profile, kind)
        return Proven(kind, msgspec.convert(value, self._types[kind]), whole_floats, unknown), keys

    def report_unknown(self, kind: str, keys: Sequence[str]) -> None:
        """Note that unknown keys of a *kind* were reported: later lines that have them may be proven."""
        self._reported.update((kind, key) for key in keys)

    def _is_whole(self, data: bytes, records: list[Any]) -> bool:
        """Return whether no key of the lines *data* was lost when they were decoded into *records*."""
        encoded = self._encoder.encode_lines(records)
        return encoded == data or (not self._hides_keys(data) and encoded.count(b'":') == data.count(b'":'))

    def _hides_keys(self, data: bytes) -> bool:
        """Return whether keys in *data* cannot be counted by their ``":``.

        Without a backslash every quote begins or ends a string; without white space after a quote each key gives one
        ``":``. A string that begins with a colon gives one too many, in the line and when it is encoded.
        """
        # A rule of metrics/v1 needs the first null of a line, and the type loses the order.
        hiding = (b"\\", b'" ', b'"\t', b'"\r', b"null") if self._tag is None else (b"\\", b'" ', b'"\t', b'"\r')
        return any(part in data for part in hiding)

    def _is_sound(self, kind: str, record: Any) -> bool:
        """Return whether the parts that the type does not check are valid: date-times and open maps."""
        dates = (getattr(record, name) for name in DATE_TIMES[self._profile].get(kind, ()))
        if not all(text is msgspec.UNSET or is_date_time(text) for text in dates):
            return False
        return all(_has_safe_integers(getattr(record, name)) for name in _open_fields(self._profile, kind))


def kind_of(cls: Any) -> str:
    """Return the kind of the records of a strict type."""
    return str(cls.__struct_config__.tag or "entry")


@cache
def _types(profile: Profile) -> dict[str, type[msgspec.Struct]]:
    module = import_module(f"toyspec.core.generated.strict_{profile.replace('/', '_')}")
    types = get_args(module.StrictRecord) or (module.StrictRecord,)
    return {kind_of(cls): cls for cls in types}


@cache
def _decoder(profile: Profile) -> msgspec.json.Decoder[Any]:
    types = tuple(_types(profile).values())
    tag = tag_of(profile)
    if tag is None:
        return typed_decoder(types[0])
    # Only a union requires the tag; no line has this one.
    unused = msgspec.defstruct("Unused", [], tag_field=tag, tag="\0")
    return typed_decoder(Union[(*types, unused)])


@cache
def _unsettled(profile: Profile) -> frozenset[type]:
    """Return the types that do not check all of a record: each such line is proven alone."""
    dated = DATE_TIMES[profile]
    return frozenset(cls for kind, cls in _types(profile).items() if kind in dated or _open_fields(profile, kind))


@cache
def _open_fields(profile: Profile, kind: str) -> tuple[str, ...]:
    return tuple(key for key, declared in FIELDS[profile][kind].items() if declared == "open")


def _has_safe_integers(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_has_safe_integers, value.values()))
    if isinstance(value, list):
        return all(map(_has_safe_integers, value))
    return not isinstance(value, int) or -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0
