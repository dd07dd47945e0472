"""Learns which keys the lines of a stream have, and decodes lines of these shapes with proof that no key repeats.

A shape is a type that *requires* the keys that were always there: a line that decodes into it has each of them.
Every member of an object has one colon outside strings, so a line has at most as many keys as colons; if it has
as many colons as its record has keys, no key was lost to a repetition. That holds for any order of keys, any white
space and any way to write a number, and one count serves a whole block. If the counts differ, colons in
strings are counted too; without escapes, a string has as many in its line as it has decoded. A shape never guesses:
lines that it refuses, or that no count proves, take the exact path. It may refuse a valid value that did not occur
before, such as a null, so that no later rule has to search for one. Integers written as `1.0` are floats here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.generated.fields import DATE_TIMES, FIELDS
from toyspec.generated.streams import STREAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from toyspec.checker.line_places import Lines
    from toyspec.checker.shape_types import Shape
    from toyspec.findings import Profile
    from toyspec.format.integers import Path

# Raised by decoding if the bytes are not a record of a shape.
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# Making a type takes as long as checking some hundred lines, so it is made only for lines that recur.
_LINES_BEFORE_SHAPE = 128
_MAX_KEYS = 48
_MAX_WORD = 64
_SCALARS = (int, float, str, bool, type(None))


# The next stream may begin with shapes of the last one, if they require every key: if such a shape does not fit, it
# costs little. One with optional keys would fit, and the stream would count keys that it never has.
_recent: dict[Profile, dict[str, tuple[type[msgspec.Struct], Shape]]] = {}
# The same for streams with integers written as `1.0`. The first of these must be reported, so another stream
# gets such a shape only after one was found in it.
_recent_with_floats: dict[Profile, dict[str, tuple[type[msgspec.Struct], Shape]]] = {}


class Taken(NamedTuple):
    """Lines that were decoded at once."""

    records: list[Any]
    """The record of each line; None for a line that is not proven."""
    odd: list[int]
    """The indexes of lines that are not proven."""
    types: Collection[type]
    """The types of the records."""


class _Seen:
    """What the lines of one kind have in common so far."""

    def __init__(self) -> None:
        self.cost = 0
        self.always: set[str] | None = None
        self.ever: dict[str, None] = {}
        self.nulls: set[str] = set()
        self.whole_floats: set[str] = set()
        self.same: dict[str, Any] = {}
        self.built: tuple[int, ...] | None = None

    def add(self, value: dict[str, Any], declared: Collection[str]) -> None:
        self.always = set(value) if self.always is None else self.always & value.keys()
        for key, item in value.items():
            if item is None or (type(item) is dict and None in item.values()):
                self.nulls.add(key)
            if key not in self.ever:
                self.ever[key] = None
                self.same[key] = _shared_trait(key in declared, item)
            elif self.same[key] is not None and self.same[key] != _shared_trait(key in declared, item):
                self.same[key] = None

    def extent(self) -> tuple[int, ...]:
        """Return numbers that change whenever the traits do: each of them only falls or only rises."""
        different = list(self.same.values()).count(None)
        return len(self.always or ()), len(self.ever), len(self.nulls), len(self.whole_floats), different


class Shapes:
    """The shapes of one stream, learned from lines that were checked."""

    def __init__(self, profile: Profile, types: dict[str, type[msgspec.Struct]]) -> None:
        self._profile = profile
        self._fields = FIELDS[profile]
        self._dated = DATE_TIMES[profile]
        self._tag: str | None = STREAMS[profile]["tag"]
        self._strict = types
        self._seen: dict[str, _Seen] = {}
        # After a second stream more will follow, so a type pays off earlier.
        self._enough = _LINES_BEFORE_SHAPE // 4 if profile in _recent else _LINES_BEFORE_SHAPE
        self._made = dict(_recent.setdefault(profile, {}))
        self.of: dict[type, Shape] = dict(self._made.values())
        """The shape of each type that records were decoded into."""
        self._decode = self._decoder() if self._made else None

    def take(self, lines: Lines) -> Taken:
        """Return the decoded *lines*. Carriage returns are white space."""
        data = lines.data
        if self._decode is None:
            return Taken([None] * len(data), list(range(len(data))), {}.keys())
        found: list[Any] = []
        odd: list[int] = []
        rest = map(self._decode, data)
        while len(found) < len(data):
            try:
                found.extend(rest)
            except _REFUSED:
                odd.append(len(found))
                found.append(None)
        counts = self._counts(found, odd)
        if counts and not self._comes_out_even(lines, found, odd, counts):
            odd = self._drop_unproven(data, found)
            counts = self._counts(found, odd)
        return Taken(found, odd, counts.keys())

    def learn(self, kind: str, value: dict[str, Any], *, whole_floats: Iterable[Path] = (), cost: int = 1) -> None:
        """Learn the keys of a record of *kind* without findings other than unknown keys.

        *whole_floats* are the paths of its integers with a fraction or an exponent. *cost* is the time that the
        check of the record took, in records that are known to be regular.
        """
        if kind in self._dated or not self._is_flat(kind, value):
            return
        seen = self._seen.setdefault(kind, _Seen())
        if len(seen.ever) + len(value) > _MAX_KEYS and not value.keys() <= seen.ever.keys():
            return
        seen.add(value, self._fields[kind])
        floats = {str(path[0]) for path in whole_floats}
        if floats and not seen.whole_floats:
            self._adopt_with_floats(kind)
        seen.whole_floats |= floats
        # A line on the exact path took as long as many others.
        seen.cost += cost
        if seen.cost >= self._enough and seen.built != seen.extent():
            seen.cost = 0
            seen.built = seen.extent()
            self._make(kind, seen)

    def _adopt_with_floats(self, kind: str) -> None:
        """Continue with the shape of the last stream that had integers written as `1.0` in records of *kind*."""
        known = _recent_with_floats.get(self._profile, {}).get(kind)
        if known is not None:
            self._made[kind] = known
            self.of[known[0]] = known[1]
            self._decode = self._decoder()

    def _make(self, kind: str, seen: _Seen) -> None:
        # Imported here: short streams, and streams like the last one, make no types.
        from toyspec.checker.shape_types import Traits, made_type

        same = tuple((key, trait) for key, trait in seen.same.items() if trait is not None)
        traits = Traits(
            frozenset(seen.always or ()), tuple(seen.ever), frozenset(seen.nulls), frozenset(seen.whole_floats), same
        )
        cls, shape = self._made[kind] = made_type(self._strict[kind], traits, self._profile)
        if not shape.optional and not shape.unknown:
            recent = _recent_with_floats if traits.whole_floats else _recent
            recent.setdefault(self._profile, {})[kind] = cls, shape
        self.of[cls] = shape
        self._decode = self._decoder()

    def _counts(self, records: list[Any], odd: list[int]) -> dict[type, int]:
        """Return how many *records* each type has, those at the indexes *odd*, which are None, excepted."""
        types = {cls for cls, _ in self._made.values()}
        if len(types) > 1:
            types = set(map(type, records))
            types.discard(type(None))
        if len(types) == 1 and len(odd) < len(records):
            return dict.fromkeys(types, len(records) - len(odd))
        # Counting each type takes twice as long as finding out whether there are several.
        counts = Counter(map(type, records))
        del counts[type(None)]
        return counts

    def _comes_out_even(self, lines: Lines, records: list[Any], odd: list[int], counts: dict[type, int]) -> bool:
        """Return whether the lines of *records* have no colons but those of keys and in strings.

        *odd* are the indexes of lines without record; *counts* says how many records have each type.
        """
        shapes = {cls: self.of[cls] for cls in counts}
        colons = lines.count(b":") - sum(lines.data[index].count(b":") for index in odd)
        colons -= sum(shape.keys * counts[cls] for cls, shape in shapes.items())
        varying = [cls for cls, shape in shapes.items() if shape.optional or shape.maps]
        colons -= sum(shapes[cls].varying(alike) for cls, alike in _grouped(records, counts, varying))
        if colons <= 0 or lines.hold(b"\\"):
            return colons == 0
        wordy = [cls for cls, shape in shapes.items() if shape.colons or shape.texts or shape.maps]
        return colons == sum(shapes[cls].colons_in(alike) for cls, alike in _grouped(records, counts, wordy))

    def _drop_unproven(self, lines: Sequence[bytes], records: list[Any]) -> list[int]:
        odd = []
        for index, record in enumerate(records):
            if record is not None and not self._is_proven(lines[index], record):
                records[index] = None
            if records[index] is None:
                odd.append(index)
        return odd

    def _is_proven(self, line: bytes, record: Any) -> bool:
        shape = self.of[type(record)]
        spare = line.count(b":") - shape.keys - shape.varying([record])
        # Without escapes, strings have as many colons in the line as decoded.
        return spare == 0 or (b"\\" not in line and spare == shape.colons_in([record]))

    def _is_flat(self, kind: str, value: dict[str, Any]) -> bool:
        """Return whether no object within *value* has keys of its own, maps of scalars excepted."""
        declared = self._fields[kind]
        return all(
            _is_flat(declared[key]) if key in declared else isinstance(item, _SCALARS) and _is_plain(key)
            for key, item in value.items()
        )

    def _decoder(self) -> Callable[[bytes], Any]:
        from toyspec.checker.shape_types import decoder

        return decoder(tuple(cls for cls, _ in self._made.values()), self._tag)


def _shared_trait(is_declared: bool, value: Any) -> Any:
    """Return what later values of a key may share with *value*; None for nothing."""
    if not is_declared:
        return float if type(value) is int else type(value)
    if type(value) is dict:
        return tuple(value) if all(map(_is_plain, value)) else None
    return value if type(value) is str and len(value) <= _MAX_WORD else None


def _is_plain(key: str) -> bool:
    """Return whether a type can have a member of that name."""
    return key.isascii() and key.isprintable() and '"' not in key and "\\" not in key


def _grouped(records: list[Any], counts: dict[type, int], types: Sequence[type]) -> list[tuple[type, list[Any]]]:
    """Return the *records* of each of *types*; *counts* says how many there are of each type."""
    if len(types) == 1 and counts[types[0]] == len(records):
        return [(types[0], records)]
    if len(types) <= 2:
        return [(cls, [record for record in records if type(record) is cls]) for cls in types]
    found: dict[type, list[Any]] = {cls: [] for cls in [*counts, type(None)]}
    for record in records:
        found[type(record)].append(record)
    return [(cls, found[cls]) for cls in types]


def _is_flat(declared: Any) -> bool:
    if not isinstance(declared, tuple):
        return bool(declared != "open")
    constructor, part = declared
    if constructor == "map":
        return isinstance(part, str) and part != "open"
    return constructor == "array" and _is_flat(part) and not (isinstance(part, tuple) and part[0] == "map")
