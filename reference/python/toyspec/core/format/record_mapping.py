"""Where the records of a profile have what the records of any log have: see schemas/records.json.

The logs of other programs have a mapping of their own, in `toyspec.logs`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.format.flattening import flattened, leaves
from toyspec.core.format.numbers import number
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.records import RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from toyspec.core.findings import Profile

Values = dict[str, float | int | None]
"""Metrics by name; None is null."""
TimeOrigin = Literal["unix", "run"]
"""``unix`` for seconds since 1970, ``run`` for seconds since the start of the run."""

MILLISECONDS = 1000
"""Milliseconds in a second."""
# Later than any time since the start of a run: 2001-09-09 since the Unix epoch, in seconds.
_FIRST_WALL = 1e9
_NUMERIC = frozenset(["number", "integer", "binary32"])
_PLAIN = frozenset([float, int, type(None)])
# A note with these counts what the log lacks.
_ACCOUNT = frozenset(["left_out", "dropped"])
# Kinds that say nothing but what becomes of others.
_FRAMES = frozenset(["region_enter", "region_exit"])
_NESTED = frozenset([dict, list])
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""Numbers by the words for them in ``nonfinite``."""


class StepKey(msgspec.Struct, frozen=True):
    """Where the step is."""

    key: str
    type: Literal["integer", "cut", "any"]
    """``integer`` for integers ≥ 0, ``cut`` for numbers ≥ 0 whose fraction is cut, ``any`` for integers."""


class TimeKey(msgspec.Struct, frozen=True):
    """Where the time is."""

    key: str
    unit: Literal["run-seconds", "run-milliseconds", "unix-seconds", "seconds"]
    """``seconds`` are since the Unix epoch if they are too many for a run."""


class KindMapping(msgspec.Struct, frozen=True):
    """How the records of a kind are read."""

    values: Literal["members", "object", "pair", "tree", "none"]
    role: Literal["none", "step", "start", "end", "goal", "config"] = "none"
    names: Literal["", "kind", "thing", "kind/thing", "shared"] = ""
    thing: tuple[tuple[str, ...], ...] = ()
    pair: tuple[str, str] = ("", "")
    minimize: str | None = None
    valid: str = ""
    """A member that a step may lack; with an invalid one it does not count."""


class RecordMapping(msgspec.Struct, frozen=True):
    """How the records of a profile are read."""

    step: StepKey | None
    """None for records that are counted."""
    time: TimeKey | None
    epoch: str | None
    phase: str | None
    places: frozenset[str]
    """Keys of numbers that place a record, and are not metrics."""
    kinds: dict[str, KindMapping]
    others: KindMapping
    phases: frozenset[str] = frozenset()
    tag: str | None = None
    untagged: str | None = None
    """The kind of records that name none."""
    goals: dict[str, str] = {}
    """The goals of metrics that every record has."""
    arrays: frozenset[str] = frozenset()
    """Keys of arrays of which each number is a metric, named after its index."""
    shared: frozenset[str] = frozenset()
    """Keys of several kinds, whose metrics are named after the kind too."""

    def of_kind(self, kind: str | None) -> KindMapping:
        """Return how the records of *kind* are read."""
        name = self.untagged if kind is None else kind
        return self.others if name is None else self.kinds.get(name, self.others)

    def step_in(self, value: Mapping[str, Any]) -> int | None:
        """Return the step that *value* says; None for none, and for an invalid one."""
        if self.step is None:
            return None
        step = value.get(self.step.key)
        if self.step.type == "cut":
            return cut_count(step)
        return step if type(step) is int and (step >= 0 or self.step.type == "any") else None

    def time_in(self, value: Mapping[str, Any]) -> float | None:
        """Return the time that *value* says, in seconds."""
        if self.time is None:
            return None
        time = number(value.get(self.time.key))
        return time / MILLISECONDS if time is not None and self.time.unit == "run-milliseconds" else time

    def origin_of(self, time: float | None) -> TimeOrigin | None:
        """Return what *time* is since; None without a time."""
        if self.time is None or time is None:
            return None
        if self.time.unit == "seconds":
            return "unix" if time >= _FIRST_WALL else "run"
        return "unix" if self.time.unit == "unix-seconds" else "run"


def mapping_of(profile: Profile | None) -> RecordMapping:
    """Return how the records of *profile* are read; those without a profile say nothing."""
    return _MAPPINGS[profile]


def enter_mapping(profile: str, mapping: RecordMapping) -> None:
    """Let the records of *profile*, which is a profile of the user, be read by *mapping*."""
    _MAPPINGS[profile] = mapping
    _kept_reading.cache_clear()


def said_in(value: dict[str, Any], profile: Profile | None, kind: str | None) -> tuple[Values, dict[str, str]]:
    """Return the metrics and the texts that a record says, by name.

    A metric is None for null, and NaN or an infinity where the record says what null was; a boolean is 1.0 or 0.0.
    Texts are strings, and values without names of their own, as JSON: lists of anything but a few numbers, and what is
    empty or nested too deep; NaN and infinities are written in them as Python and JavaScript spell them.
    """
    reading = _reading_of(profile, kind)
    data = _data_in(value, reading)
    named = value.get("texts") if reading.read.values == "object" else None
    own = {name: text for name, text in named.items() if isinstance(text, str)} if isinstance(named, dict) else {}
    if _PLAIN.issuperset(map(type, data.values())):
        return data, own
    values: Values = {}
    texts: dict[str, str] = {}
    for name, each in data.items():
        if type(each) in _PLAIN or type(each) is bool:
            values[name] = float(each) if type(each) is bool else each
        else:
            texts[name] = _json(each) if type(each) in _NESTED else each
    return values, texts | own


def _json(value: Any) -> str:
    # Imported here: start-up time counts.
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _data_in(value: dict[str, Any], reading: _Reading) -> dict[str, Any]:
    """Return what a record says beside what every record has, by name: numbers, null, booleans, texts, and the rest."""
    read = reading.read
    if read.values == "none":
        return {}
    if "nonfinite" in value:
        value = with_lost_numbers(value)
    prefix = _prefix(value, read, reading.kind) if read.names else ""
    if prefix is None:
        return {}
    found = _READERS[read.values](value, reading)
    return {prefix + name: each for name, each in found.items()} if prefix else found


def others_in(value: Mapping[str, Any], profile: Profile | None, kind: str | None) -> Iterator[str]:
    """Yield what a record has that is neither a number nor a text, by its kind, or by its kind and a member.

    Such are a sample, a picture and a note, and the lists of a measurement whose numbers have no names.
    """
    mapping = _MAPPINGS[profile]
    read = mapping.of_kind(kind)
    if kind is None or read.role != "none" or read.names == "shared" or kind in _FRAMES:
        return
    if read.values == "none":
        if not _ACCOUNT & value.keys():
            yield kind
        return
    types = FIELDS.get(profile or "", {}).get(kind, {})
    for name, member in value.items():
        if type(member) is list and name in types and name not in mapping.arrays:
            yield f"{kind}/{name}"


def with_lost_numbers(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with NaN and infinities in place of each null of which its ``nonfinite`` says what it was."""
    lost = value.get("nonfinite")
    if not isinstance(lost, dict):
        return dict(value)
    words = {name: NOT_FINITE[word] for name, word in lost.items() if isinstance(word, str) and word in NOT_FINITE}
    restored = {key: _restored(member, key, words) for key, member in value.items() if key != "nonfinite"}
    if isinstance(value.get("values"), dict):
        # The numbers of ``scalars`` have no names but those in it.
        restored["values"] = {key: _restored(member, key, words) for key, member in value["values"].items()}
    return restored


def _restored(value: Any, name: str, words: Mapping[str, float]) -> Any:
    if value is None:
        return words.get(name)
    if isinstance(value, dict):
        return {key: _restored(member, f"{name}/{key}", words) for key, member in value.items()}
    if isinstance(value, list):
        return [_restored(item, f"{name}/{index}", words) for index, item in enumerate(value)]
    return value


def cut_count(value: Any) -> int | None:
    """Return a number as an integer, its fraction cut; None for anything but a number ≥ 0."""
    found = number(value)
    if found is None or (isinstance(found, float) and not math.isfinite(found)):
        return None
    count = math.trunc(found)
    return count if count >= 0 else None


class _Reading(NamedTuple):
    """How the records of one kind are read."""

    mapping: RecordMapping
    read: KindMapping
    kind: str | None
    types: Mapping[str, Any]
    """What the schema declares of them."""


def _reading_of(profile: Profile | None, kind: str | None) -> _Reading:
    # Of a kind that a log has made up, nothing is kept.
    is_kept = kind is None or kind in _MAPPINGS[profile].kinds
    return _kept_reading(profile, kind) if is_kept else _new_reading(profile, kind)


def _new_reading(profile: Profile | None, kind: str | None) -> _Reading:
    mapping = _MAPPINGS[profile]
    types = FIELDS.get(profile or "", {}).get(kind or "entry", {})
    return _Reading(mapping, mapping.of_kind(kind), kind, types)


_kept_reading = cache(_new_reading)


def _members(value: dict[str, Any], reading: _Reading) -> dict[str, Any]:
    """Return the numbers of a record, what its schema does not declare, and what is in its extra."""
    places, types = reading.mapping.places, reading.types
    own: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, member in value.items():
        if name not in places and type(member) in _PLAIN:
            own[name] = member
        elif name not in types and name not in places:
            others[name] = member
    if others:
        own |= _named(_parts(others), own)
    extra = value.get("extra")
    if not isinstance(extra, dict):
        return own
    if _PLAIN.issuperset(map(type, extra.values())) and not extra.keys() & own.keys():
        return own | extra
    return own | _named(_parts(extra), own)


def _parts(members: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield *members*, and then what is in those that are objects and lists, so that the others keep their names."""
    nested = {name: member for name, member in members.items() if type(member) in _NESTED}
    yield from ((name, member) for name, member in members.items() if name not in nested)
    yield from leaves(nested)


def _named(members: Iterable[tuple[str, Any]], taken: Mapping[str, Any]) -> dict[str, Any]:
    """Return *members* by name; one whose name another has, or is *taken*, is in ``extra/``."""
    found: dict[str, Any] = {}
    for key, member in members:
        name = key
        while name in taken or name in found:
            name = f"extra/{name}"
        found[name] = member
    return found


def _object(value: dict[str, Any], _: _Reading) -> dict[str, Any]:
    values = value.get("values")
    if not isinstance(values, dict):
        return {}
    return dict(values) if _PLAIN.issuperset(map(type, values.values())) else _named(_parts(values), {})


def _pair(value: dict[str, Any], reading: _Reading) -> dict[str, Any]:
    name_key, value_key = reading.read.pair
    name, found = value.get(name_key), value.get(value_key, "")
    return {name: found} if isinstance(name, str) and type(found) in _PLAIN else {}


def _tree(value: dict[str, Any], reading: _Reading) -> dict[str, Any]:
    """Return the numbers of a record and of its inner objects; null where the schema types a number.

    What the schema of toyspec does not declare may be anything else too.
    """
    mapping, read, kind, types = reading
    if kind is None and mapping.tag is not None and read.names != "shared":
        return {}
    left_out = mapping.places.union(*read.thing, ["nonfinite"])
    is_open = read.names == "shared" and read.role == "none"
    found: dict[str, Any] = {}
    for key, whole in value.items():
        if key in mapping.arrays and isinstance(whole, list):
            found |= {f"{key}/{index}": item for index, item in enumerate(whole) if type(item) in _PLAIN}
        elif is_open or key not in types:
            found |= _named(_without_null(leaves({key: whole}), types, left_out), found)
        else:
            members = flattened({key: whole}).items()
            found |= {name: each for name, each in _without_null(members, types, left_out) if type(each) in _PLAIN}
    if mapping.shared:
        found = {f"{kind}/{name}" if name in mapping.shared else name: each for name, each in found.items()}
    return found


def _without_null(
    members: Iterable[tuple[str, Any]], types: Mapping[str, Any], left_out: frozenset[str]
) -> Iterator[tuple[str, Any]]:
    """Yield *members* that say something: null does where the schema types a number."""
    for name, member in members:
        if name not in left_out and (member is not None or types.get(name) in _NUMERIC):
            yield name, member


_READERS: dict[str, Callable[[dict[str, Any], _Reading], dict[str, Any]]] = {
    "members": _members,
    "object": _object,
    "pair": _pair,
    "tree": _tree,
}


def _prefix(value: Mapping[str, Any], read: KindMapping, kind: str | None) -> str | None:
    """Return what precedes the names of metrics; None where the record does not say whose they are."""
    if read.names == "shared":
        return ""
    thing = _thing(value, read)
    if read.names == "thing":
        return None if thing is None else f"{thing}/"
    return f"{kind}/" if thing is None else f"{kind}/{thing}/"


def _thing(value: Mapping[str, Any], read: KindMapping) -> str | None:
    """Return the name of what a record speaks about: texts, and integers after their keys."""
    for keys in read.thing:
        known = {key: part for key in keys if type(part := value.get(key)) in (str, int)}
        if known:
            return "/".join(part if isinstance(part, str) else f"{key}{part}" for key, part in known.items())
    return None


def _made(data: dict[str, Any]) -> RecordMapping:
    mapping = msgspec.convert(data, RecordMapping)
    framing = (mapping.step, mapping.time)
    keys = {each.key for each in framing if each is not None}
    own = {key for key in (mapping.epoch, mapping.phase, mapping.tag) if key is not None}
    return msgspec.structs.replace(mapping, places=mapping.places | keys | own)


_NOTHING = KindMapping(values="none")
_MAPPINGS: dict[Any, RecordMapping] = {
    None: RecordMapping(StepKey("", "any"), None, None, None, frozenset(), {}, _NOTHING),
    **{profile: _made(data) for profile, data in RECORDS.items()},
}
