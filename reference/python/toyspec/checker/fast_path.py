"""Proves that lines have no finding, so that only the others take the exact path.

Whole blocks are proven by their shapes. A single line is proven if it decodes into a strict type, which refuses
unknown keys, wrong values and unsafe integers; and if encoding the result gives the same bytes again, or a count shows
that no key was lost. Integers written as `1.0` are made ints before. Every other line takes the exact path.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import msgspec

from toyspec.checker.shapes import Shapes
from toyspec.format.date_times import is_date_time
from toyspec.format.integers import take_integers
from toyspec.generated.fields import DATE_TIMES, FIELDS
from toyspec.generated.limits import MAX_DEPTH, MAX_SAFE_INTEGER
from toyspec.generated.streams import STREAMS

if TYPE_CHECKING:
    from toyspec.checker.line_places import Lines
    from toyspec.checker.shape_types import Shape
    from toyspec.checker.shapes import Taken
    from toyspec.findings import Profile
    from toyspec.format.integers import Path

# A line on the exact path takes as long as this many on the fast path.
_EXACT_COST = 16
# Raised by decoding if the bytes are not a regular record.
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Proven(NamedTuple):
    """A line that was proven alone."""

    record: Any
    whole_floats: list[Path]
    """Paths of its integers that have a fraction or an exponent."""


class FastPath:
    """Decodes regular records of one stream; learning their shapes makes it faster and changes no result."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._types = _types(profile)
        self._encoder = msgspec.json.Encoder()
        self._untyped = msgspec.json.Decoder()
        self._dates = DATE_TIMES[profile]
        self._tag: str | None = STREAMS[profile]["tag"]
        self._shapes = Shapes(profile, self._types)

    @property
    def known(self) -> int:
        """Number of shapes learned so far; when it has risen, :meth:`take` may prove more lines."""
        return len(self._shapes.of)

    def take(self, lines: Lines) -> Taken:
        """Return the decoded *lines*, which have no carriage return."""
        return self._shapes.take(lines)

    def learn(self, kind: str, data: bytes) -> None:
        """Learn from a line without findings other than unknown keys."""
        value = self._untyped.decode(data)
        whole_floats = take_integers(value, self._profile, kind)
        self._shapes.learn(kind, value, whole_floats=whole_floats, cost=_EXACT_COST)

    def line(self, data: bytes) -> Proven | None:
        """Return the record of a line, LF excluded, that is proven to have no finding; else None.

        Keys may be in any order, and numbers in any spelling.
        """
        if data.count(b"{") + data.count(b"[") > MAX_DEPTH:
            return None
        try:
            value = self._untyped.decode(data)
            kind = self._kind_of(value)
            if kind is None:
                return None
            whole_floats = take_integers(value, self._profile, kind)
            if whole_floats:
                record = msgspec.convert(value, self._types[kind])
            else:
                record = _decoder(self._profile, kind).decode(data)
            if (whole_floats or self._encoder.encode(record) != data) and not self._is_regular(data, value):
                return None
        except _REFUSED:
            return None
        if not self._is_sound(kind, record):
            return None
        self._shapes.learn(kind, value, whole_floats=whole_floats)
        return Proven(record, whole_floats)

    def _kind_of(self, value: Any) -> str | None:
        """Return the kind of a decoded line, None if it is not a record of a known kind."""
        if type(value) is not dict:
            return None
        kind = "entry" if self._tag is None else value.get(self._tag)
        return kind if isinstance(kind, str) and kind in self._types else None

    def kind(self, cls: Any) -> str:
        """Return the kind of records of type *cls* that this path has decoded."""
        return str(cls.__struct_config__.tag) if self._tag is not None else "entry"

    def shape(self, cls: type) -> Shape:
        """Return the shape of records of type *cls* that :meth:`take` has decoded."""
        return self._shapes.of[cls]

    def _is_sound(self, kind: str, record: Any) -> bool:
        """Return whether the parts that the type does not check are valid: date-times and open maps."""
        dates = (getattr(record, name) for name in self._dates.get(kind, ()))
        if not all(text is msgspec.UNSET or is_date_time(text) for text in dates):
            return False
        return all(_has_safe_integers(getattr(record, name)) for name in _open_fields(self._profile, kind))

    def _is_regular(self, data: bytes, value: dict[str, Any]) -> bool:
        """Return whether no key repeats and the tag is there; False means "not proven", or a carriage return.

        Without backslashes every quote begins or ends a string. Without white space between a quote and a
        colon, each key gives one ``":``; a string that begins with a colon gives one too many. So there are
        at most as many keys as ``":``, and if the decoded value has that many, none was lost.
        """
        if b"\\" in data or b"\r" in data or b'" ' in data or b'"\t' in data:
            return False
        # A rule of metrics/v1 needs the first null of the line, and the type loses the order.
        if self._tag is None and b"null" in data:
            return False
        # If a profile has only one kind, its type does not require the tag.
        return data.count(b'":') == _count_keys(value) and (self._tag is None or self._tag in value)


@cache
def _types(profile: Profile) -> dict[str, type[msgspec.Struct]]:
    module = import_module(f"toyspec.generated.strict_{profile.replace('/', '_')}")
    types = get_args(module.StrictRecord) or (module.StrictRecord,)
    return {cls.__struct_config__.tag or "entry": cls for cls in types}


# Made one by one: a short stream has few kinds, and making all takes a fifth of the start-up time.
@cache
def _decoder(profile: Profile, kind: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_types(profile)[kind])


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
        return len(value) + sum(_count_keys(item) for item in value.values() if isinstance(item, (dict, list)))
    if isinstance(value, list):
        return sum(_count_keys(item) for item in value if isinstance(item, (dict, list)))
    return 0
