"""Proves that lines have no finding of their own, so that only the others take the exact path.

A line that decodes into the strict type of its kind has known keys, right values and safe integers. What remains is
that no key repeats: a decoder keeps the last value only. Encoding what was decoded writes each key once. If the result
is the same bytes, or has as many ``":``, no key was lost.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Union, get_args

import msgspec

from toyspec.core.format.date_times import is_date_time
from toyspec.core.format.decoding import typed_decoder
from toyspec.core.format.line_validation import hides_keys
from toyspec.core.format.profiles import tag_of
from toyspec.core.generated.fields import DATE_TIMES, FIELDS
from toyspec.core.generated.limits import MAX_SAFE_INTEGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.checker.collecting import Lines
    from toyspec.core.findings import Profile

# Raised by decoding if the bytes are not a regular record.
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class BlockProof:
    """Proves the lines of one stream."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._types = _types(profile)
        self._tag = tag_of(profile)
        self._decoder = _decoder(profile)
        self._encoder = msgspec.json.Encoder()

    def block(self, lines: Lines) -> tuple[list[Any], list[int]]:
        """Return the records of *lines*, and the indexes of those that are not proven.

        No line is too long, or has a carriage return to report.
        """
        try:
            found = self._decoder.decode_lines(lines.together)
            is_canonical = self._encoder.encode_lines(found) == lines.together
        except _REFUSED:
            is_canonical = False
        found, odd = (found, []) if is_canonical else self._each(lines.data)
        unsettled = _unsettled(self._profile)
        if not unsettled.isdisjoint(map(type, found)):
            odd += [at for at, record in enumerate(found) if type(record) in unsettled]
        return found, sorted(set(odd))

    def fits(self, kind: str, value: dict[str, Any]) -> bool:
        """Return whether *value*, its integers ints, has nothing to report as a record of *kind*."""
        try:
            return self._is_sound(msgspec.convert(value, self._types[kind]))
        except msgspec.ValidationError:
            return False

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

    def _is_whole(self, data: bytes, records: list[Any]) -> bool:
        """Return whether no key of the lines *data* was lost when they were decoded into *records*."""
        encoded = self._encoder.encode_lines(records)
        return encoded == data or (not hides_keys(data) and encoded.count(b'":') == data.count(b'":'))

    def _is_sound(self, record: Any) -> bool:
        """Return whether the parts that the type does not check are valid: date-times and open maps."""
        if type(record) not in _unsettled(self._profile):
            return True
        kind = kind_of(type(record))
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
    """Return the types that do not check all of a record: each such line is checked by itself."""
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
