"""Where the records of a profile have what the records of any log have: see schemas/records.json.

The logs of other programs have a mapping of their own: see ``dialect_mapping``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.format.flattening import flattened
from toyspec.format.numbers import number
from toyspec.generated.fields import FIELDS
from toyspec.generated.records import RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toyspec.findings import Profile

Values = dict[str, float | int | None]
"""Metrics by name; None is null."""
TimeOrigin = Literal["unix", "run"]
"""``unix`` for seconds since 1970, ``run`` for seconds since the start of the run."""

MILLISECONDS = 1000
"""Milliseconds in a second."""
# Later than any time since the start of a run: 2001-09-09 since the Unix epoch, in seconds.
_FIRST_WALL = 1e9
_NUMERIC = frozenset(["number", "integer", "binary32"])
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


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
    role: Literal["none", "step", "start", "end", "goal"] = "none"
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

    @property
    def is_counted(self) -> bool:
        """Whether the records have no steps of their own, so that those with metrics are counted."""
        return self.step is None

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


def is_known(profile: Profile | None, kind: str | None) -> bool:
    """Return whether the records of *kind* are defined by *profile*."""
    fields = FIELDS.get(profile or "", {})
    return (kind or _MAPPINGS[profile].untagged) in fields or "entry" in fields


def values_in(value: dict[str, Any], profile: Profile | None, kind: str | None) -> Values:
    """Return the metrics that a record says by name: None for null, NaN and infinities where it says what null was."""
    mapping = _MAPPINGS[profile]
    read = mapping.of_kind(kind)
    if read.values == "none":
        return {}
    found = _READERS[read.values](value, _Reading(mapping, read, profile, kind))
    prefix = _prefix(value, read, kind)
    if prefix is None:
        return {}
    lost = value.get("nonfinite")
    if isinstance(lost, dict):
        for key, word in lost.items():
            name = key if key in found or read.values == "object" else key.removeprefix("extra/")
            if found.get(name, 0) is None and isinstance(word, str):
                found[name] = _NOT_FINITE.get(word)
    return {prefix + name: each for name, each in found.items()} if prefix else found


def texts_in(value: dict[str, Any], profile: Profile | None, kind: str | None) -> dict[str, str]:
    """Return the texts that a record says by name: those of its ``texts``, and of the ``extra`` of an evaluation."""
    read = _MAPPINGS[profile].of_kind(kind)
    texts = value.get({"object": "texts", "members": "extra"}.get(read.values, ""))
    prefix = _prefix(value, read, kind)
    if not isinstance(texts, dict) or prefix is None:
        return {}
    return {prefix + name: text for name, text in texts.items() if isinstance(text, str)}


def with_lost_numbers(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with NaN and infinities in place of each null of which its ``nonfinite`` says what it was."""
    lost = value.get("nonfinite")
    if not isinstance(lost, dict):
        return dict(value)
    words = {name: _NOT_FINITE[word] for name, word in lost.items() if isinstance(word, str) and word in _NOT_FINITE}
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


def goal_in(value: dict[str, Any], profile: Profile | None, kind: str | None) -> dict[str, str]:
    """Return the goals of metrics, ``min``, ``max`` or ``none``, that a record says."""
    mapping = _MAPPINGS[profile]
    read = mapping.of_kind(kind)
    name, goal = value.get("name"), value.get("goal")
    if read.role == "goal":
        return {name: goal} if isinstance(name, str) and isinstance(goal, str) else {}
    if read.minimize is not None:
        name, minimize = value.get(read.pair[0]), value.get(read.minimize)
        return {name: "min" if minimize else "max"} if isinstance(name, str) and isinstance(minimize, bool) else {}
    return mapping.goals


def start_in(value: dict[str, Any], profile: Profile | None, kind: str | None) -> dict[str, Any] | None:
    """Return a run's metadata in the record that starts it, as members of ``run_start``; None for other records."""
    mapping = _MAPPINGS[profile]
    if mapping.of_kind(kind).role != "start":
        return None
    if mapping.others.names != "shared":
        return value
    framing = (mapping.tag, mapping.time.key if mapping.time else None)
    return {"config": {key: member for key, member in value.items() if key not in framing}}


def cut_count(value: Any) -> int | None:
    """Return a number as an integer, its fraction cut; None for anything but a number ≥ 0."""
    found = number(value)
    if found is None or (isinstance(found, float) and not math.isfinite(found)):
        return None
    count = math.trunc(found)
    return count if count >= 0 else None


class _Reading(NamedTuple):
    mapping: RecordMapping
    read: KindMapping
    profile: Profile | None
    kind: str | None


def _members(value: dict[str, Any], reading: _Reading) -> Values:
    places = reading.mapping.places
    own = {
        name: member
        for name, member in value.items()
        if (member is None or number(member) is not None) and name not in places
    }
    extra = value.get("extra")
    if not isinstance(extra, dict):
        return own
    inner = _numbers(extra)
    if inner.keys() & own.keys():
        inner = {f"extra/{name}" if name in own else name: member for name, member in inner.items()}
    return own | inner


def _object(value: dict[str, Any], _: _Reading) -> Values:
    values = value.get("values")
    return _numbers(values) if isinstance(values, dict) else {}


def _pair(value: dict[str, Any], reading: _Reading) -> Values:
    name_key, value_key = reading.read.pair
    name = value.get(name_key)
    return _numbers({name: value.get(value_key, "")}) if isinstance(name, str) else {}


def _tree(value: dict[str, Any], reading: _Reading) -> Values:
    """Return the numbers of a record and of its inner objects; null where the schema types a number."""
    mapping, read, profile, kind = reading
    if kind is None and mapping.tag is not None and read.names != "shared":
        return {}
    types = FIELDS.get(profile or "", {}).get(kind or "entry", {})
    left_out = mapping.places.union(*read.thing)
    found: Values = {}
    for name, member in flattened(value).items():
        if name in left_out:
            continue
        if number(member) is not None or (member is None and types.get(name) in _NUMERIC):
            found[f"{kind}/{name}" if name in mapping.shared else name] = member
        elif name in mapping.arrays and isinstance(member, list):
            found |= _numbers({f"{name}/{index}": item for index, item in enumerate(member)})
    return found


_READERS: dict[str, Callable[[dict[str, Any], _Reading], Values]] = {
    "members": _members,
    "object": _object,
    "pair": _pair,
    "tree": _tree,
}


def _numbers(members: Mapping[str, Any]) -> Values:
    return {name: member for name, member in members.items() if member is None or number(member) is not None}


def _prefix(value: Mapping[str, Any], read: KindMapping, kind: str | None) -> str | None:
    """Return what precedes the names of metrics; None where the record does not say whose they are."""
    if not read.names or read.names == "shared":
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
