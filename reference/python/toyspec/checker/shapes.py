"""Learns which keys the lines of a stream have, and decodes lines of these shapes with proof that no key repeats.

A shape is a type that *requires* the keys that were always there: a line that decodes into it has each of them.
Every member of an object has one colon outside strings, so a line has at most as many keys as colons; where it has
as many colons as its record has keys, none was lost to a repetition. That holds for any order of keys, any white
space and any way to write a number, and one count serves a whole block. Colons in strings are counted where that does
not come out even; without escapes, a string has as many in its line as it has decoded. A shape never guesses: what it
refuses, and what no count proves, is judged elsewhere.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, lru_cache
from itertools import repeat
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toyspec.generated.fields import DATE_TIMES, FIELDS
from toyspec.generated.limits import MAX_SAFE_INTEGER
from toyspec.generated.streams import STREAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toyspec.findings import Profile

# What decoding raises on bytes that are no record of a shape.
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# A type costs as much as judging some hundred lines, so it is made only for what comes again and again.
_LINES_BEFORE_SHAPE = 128
_MAX_KEYS = 48
_UNKNOWN = Union[Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)], float, str, bool, None]  # noqa: UP007
_SCALARS = (int, float, str, bool, type(None))


# The next stream may begin with shapes of the last one, if they demand every key: such a shape, where it does not fit,
# costs little. One with optional keys would fit, and cost the stream the counting of keys that it never has.
_recent: dict[Profile, dict[str, tuple[type[msgspec.Struct], Shape]]] = {}


class Shape(NamedTuple):
    """What is known of all records of one type."""

    kind: str
    keys: int
    """Number of keys that each record has, the tag among them."""
    optional: tuple[str, ...]
    """Attributes of keys that some records have."""
    maps: tuple[str, ...]
    """Attributes that hold objects with keys of their own."""
    texts: tuple[str, ...]
    """Attributes that may hold strings with colons."""
    unknown: dict[str, str]
    """The keys that the schema does not declare, by attribute."""


class _Seen:
    """The keys of the lines of one kind so far."""

    def __init__(self) -> None:
        self.cost = 0
        self.always: set[str] | None = None
        self.ever: dict[str, None] = {}
        self.built: tuple[int, int] | None = None

    def add(self, keys: Iterable[str]) -> None:
        found = dict.fromkeys(keys)
        self.always = set(found) if self.always is None else self.always & found.keys()
        self.ever |= found

    def extent(self) -> tuple[int, int]:
        """Return what changes whenever the keys do: one set only shrinks, the other only grows."""
        return len(self.always or ()), len(self.ever)


class Shapes:
    """The shapes of one stream, learned from lines that were judged."""

    def __init__(self, profile: Profile, types: dict[str, type[msgspec.Struct]]) -> None:
        self._profile = profile
        self._fields = FIELDS[profile]
        self._dated = DATE_TIMES[profile]
        self._tag: str | None = STREAMS[profile]["tag"]
        self._strict = types
        self._seen: dict[str, _Seen] = {}
        # Where one stream follows another, more will: a type pays off earlier.
        self._enough = _LINES_BEFORE_SHAPE // 4 if profile in _recent else _LINES_BEFORE_SHAPE
        self._made = dict(_recent.setdefault(profile, {}))
        self._shapes: dict[type, Shape] = dict(self._made.values())
        self._decode = self._decoder() if self._made else None

    def unknown_keys(self, cls: type) -> dict[str, str]:
        """Return the keys that the schema does not declare in records of *cls*, by attribute."""
        shape = self._shapes.get(cls)
        return {} if shape is None else shape.unknown

    def take(self, lines: Sequence[bytes], colons: int) -> tuple[list[Any], list[int]]:
        """Return the records of *lines* and the indexes of those that are not proven, which have no record.

        *colons* is the number of colons in all lines. Carriage returns pass as the white space that they are.
        """
        if self._decode is None:
            return [None] * len(lines), list(range(len(lines)))
        found: list[Any] = []
        odd: list[int] = []
        rest = map(self._decode, lines)
        while len(found) < len(lines):
            try:
                found.extend(rest)
            except _REFUSED:
                odd.append(len(found))
                found.append(None)
        for index in odd:
            colons -= lines[index].count(b":")
        if len(odd) < len(lines) and not self._comes_out_even(lines, found, colons):
            odd = self._drop_unproven(lines, found)
        return found, odd

    def learn(self, kind: str, value: dict[str, Any], *, cost: int = 1) -> None:
        """Take note of the keys of a record of *kind* without fault, unknown keys excepted.

        *cost* is what it cost to judge the record, in records that are known to be regular.
        """
        if kind in self._dated or not self._is_flat(kind, value):
            return
        seen = self._seen.setdefault(kind, _Seen())
        if len(seen.ever) + len(value) > _MAX_KEYS and not value.keys() <= seen.ever.keys():
            return
        seen.add(value)
        # A line that took the exact path has cost as much as many others.
        seen.cost += cost
        if seen.cost >= self._enough and seen.built != seen.extent():
            seen.cost = 0
            seen.built = seen.extent()
            made = _made(self._strict[kind], frozenset(seen.always or ()), tuple(seen.ever), self._profile)
            self._made[kind] = made
            if not made[1].optional and not made[1].unknown:
                _recent[self._profile][kind] = made
            self._shapes[made[0]] = made[1]
            self._decode = self._decoder()

    def _comes_out_even(self, lines: Sequence[bytes], records: list[Any], colons: int) -> bool:
        """Return whether *colons*, those in the lines of *records*, are their keys, or also in their strings."""
        counts = Counter(map(type, records))
        counts.pop(type(None), 0)
        alike: dict[type, list[Any]] = {}
        for cls, number in counts.items():
            shape = self._shapes[cls]
            colons -= shape.keys * number
            alike[cls] = records if len(records) == number else [item for item in records if type(item) is cls]
            colons -= sum(_varying(alike[cls], shape))
        if colons <= 0 or any(b"\\" in line for line in lines):
            return colons == 0
        for cls, group in alike.items():
            colons -= sum(_colons_in(group, self._shapes[cls]))
        return colons == 0

    def _drop_unproven(self, lines: Sequence[bytes], records: list[Any]) -> list[int]:
        odd = []
        for index, record in enumerate(records):
            if record is not None and not self._is_proven(lines[index], record):
                records[index] = None
            if records[index] is None:
                odd.append(index)
        return odd

    def _is_proven(self, line: bytes, record: Any) -> bool:
        shape = self._shapes[type(record)]
        spare = line.count(b":") - shape.keys - sum(_varying([record], shape))
        # Without escapes, strings hold as many colons in the line as they do decoded.
        return spare == 0 or (b"\\" not in line and spare == sum(_colons_in([record], shape)))

    def _is_flat(self, kind: str, value: dict[str, Any]) -> bool:
        """Return whether no object within *value* has keys of its own, maps of scalars excepted."""
        declared = self._fields[kind]
        return all(
            _is_flat(declared[key]) if key in declared else isinstance(item, _SCALARS) and _is_plain(key)
            for key, item in value.items()
        )

    def _decoder(self) -> Callable[[bytes], Any]:
        return _decoder(tuple(cls for cls, _ in self._made.values()), self._tag)


@lru_cache(maxsize=256)
def _made(
    strict: type[msgspec.Struct], always: frozenset[str], ever: tuple[str, ...], profile: Profile
) -> tuple[type[msgspec.Struct], Shape]:
    """Return the type of lines that always have the keys *always* and never one beside *ever*, and its shape."""
    tag = STREAMS[profile]["tag"]
    kind = str(strict.__struct_config__.tag or "entry")
    declared = FIELDS[profile][kind]
    hints = _hints(strict)
    names = [key for key in ever if key != tag]
    attributes = {key: key if key in declared else f"unknown_{index}" for index, key in enumerate(names)}
    fields = [
        (attributes[key], _set_type(hints[key]) if key in declared else _UNKNOWN)
        if key in always
        else (
            attributes[key],
            _set_type(hints[key]) | UnsetType if key in declared else _UNKNOWN | UnsetType,
            UNSET,
        )
        for key in names
    ]
    cls = msgspec.defstruct(
        f"Shape_{kind}",
        fields,
        rename={attribute: key for key, attribute in attributes.items()},
        tag_field=tag,
        tag=None if tag is None else kind,
        # What rules ask for and no line has.
        namespace={key: UNSET for key in declared if key not in ever and key != tag},
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )
    optional = tuple(attributes[key] for key in names if key not in always)
    maps = tuple(key for key in names if key in declared and declared[key][0] == "map")
    texts = tuple(attributes[key] for key in names if key not in declared or _may_be_text(hints[key]))
    unknown = {attribute: key for key, attribute in attributes.items() if key not in declared}
    return cls, Shape(kind, len(always), optional, maps, texts, unknown)


@lru_cache(maxsize=64)
def _decoder(types: tuple[type[msgspec.Struct], ...], tag: str | None) -> Callable[[bytes], Any]:
    if tag is None:
        return msgspec.json.Decoder(types[0]).decode
    # Only a union asks for the tag; no line has this one.
    nobody = msgspec.defstruct("Nobody", [], tag_field=tag, tag="\0")
    return msgspec.json.Decoder(Union[(*types, nobody)]).decode


@cache
def _hints(strict: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(strict, include_extras=True)


def _is_flat(declared: Any) -> bool:
    if not isinstance(declared, tuple):
        return bool(declared != "open")
    constructor, part = declared
    if constructor == "map":
        return isinstance(part, str) and part != "open"
    return constructor == "array" and _is_flat(part) and not (isinstance(part, tuple) and part[0] == "map")


def _is_plain(key: str) -> bool:
    return key.isascii() and key.isprintable() and '"' not in key and "\\" not in key


def _set_type(hint: Any) -> Any:
    """Return *hint* without UNSET: what a key has that is there."""
    parts = tuple(part for part in get_args(hint) if part is not UnsetType)
    return Union[parts] if UnsetType in get_args(hint) else hint  # noqa: UP007


def _may_be_text(hint: Any) -> bool:
    """Return whether *hint* admits a string of any content."""
    return hint is str or (get_origin(hint) is not Literal and any(map(_may_be_text, get_args(hint))))


def _varying(records: Sequence[Any], shape: Shape) -> Iterable[int]:
    """Yield the number of keys that *records* of *shape* have beyond those that all have."""
    for name in shape.optional:
        yield sum(map(is_not, map(attrgetter(name), records), repeat(UNSET)))
    for name in shape.maps:
        values = map(attrgetter(name), records)
        yield sum(map(len, values if name not in shape.optional else (item for item in values if item is not UNSET)))


def _colons_in(records: Sequence[Any], shape: Shape) -> Iterable[int]:
    """Yield the number of colons in the strings of *records* of *shape*."""
    for name in shape.texts:
        yield sum(value.count(":") for value in map(attrgetter(name), records) if type(value) is str)
    for name in shape.maps:
        keys = (key for value in map(attrgetter(name), records) if value is not UNSET for key in value)
        yield sum(key.count(":") for key in keys)
