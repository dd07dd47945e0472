"""The input of the rules that relate records: one record after the other, and facts about the whole stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from toyspec.core.escaping import shortened
from toyspec.core.generated import messages
from toyspec.core.generated.streams import STREAMS

if TYPE_CHECKING:
    from toyspec.core.checker.collecting import Lines

_NO_PHASE: dict[str, Any] = {"field": None, "default": None, "from": None}

Reader = Callable[[Any, str, Any], Any]
"""Gives a field of a record, or the third argument: ``getattr`` for Structs, ``dict.get`` for objects."""


class StreamFinding(NamedTuple):
    """A finding of a rule that relates records, at the record that is being observed."""

    rule: str
    pointer: str
    message: str


class Observation:
    """One record, as input of the rules."""

    __slots__ = ("bad", "kind", "known", "line", "read", "record")

    def __init__(self, record: Any, read: Reader, *, kind: str | None, known: bool, bad: frozenset[str]) -> None:
        self.record = record
        self.read = read
        self.kind = kind
        """The kind; None if the tag is missing or not a string."""
        self.known = known
        """True for a kind that this version knows."""
        self.bad = bad
        """Fields with a finding of their own; the rules ignore them."""
        self.line = 0
        """Line number, from 1."""

    def field(self, name: str) -> Any:
        """Return the value of a field; UNSET if it is absent or wrong."""
        return UNSET if name in self.bad else self.read(self.record, name, UNSET)

    def has(self, name: str) -> bool:
        """Return whether the record has the member, right or wrong."""
        return self.read(self.record, name, UNSET) is not UNSET

    def at(self, pointer: str) -> Any:
        """Return the value at a pointer; UNSET if there is none, or if its first field is wrong."""
        first, *rest = pointer[1:].split("/")
        value = self.field(first)
        for key in rest:
            value = value.get(key, UNSET) if isinstance(value, dict) else getattr(value, key, UNSET)
        return value


class Block:
    """Records without findings that are taken in at once."""

    __slots__ = ("_lines", "_of", "kinds", "line", "phases", "records")

    def __init__(self, records: Sequence[Any], kinds: Mapping[type, str], line: int, lines: Lines) -> None:
        """Take *records* of some of *lines*, from number *line* on; *kinds* has the kind of each of their types."""
        self._lines = lines
        self.line = line
        self.records = records
        self.kinds = kinds
        self.phases: dict[str, dict[str, Sequence[Any]]] = {}
        """The records of a kind by their phases, once a rule has asked for them."""
        self._of: dict[str, Sequence[Any]] = {}

    @property
    def may_hold_null(self) -> bool:
        """False where no record has a null."""
        return self._lines.hold_null

    def of(self, kind: str) -> Sequence[Any]:
        """Return the records of *kind*, in order."""
        if kind not in self._of:
            cls = next((cls for cls, its in self.kinds.items() if its == kind), None)
            alike = cls is not None and len(self.kinds) == 1
            self._of[kind] = self.records if alike else [record for record in self.records if type(record) is cls]
        return self._of[kind]


class Facts:
    """Facts from the first record of each kind, and whether a gap came before it."""

    def __init__(self, profile: str) -> None:
        phase = STREAMS[profile].get("phase", _NO_PHASE)
        self.phase_field: str | None = phase["field"]
        self.phase: Any = phase["default"]
        self.gap_seen = False
        self.directory: str | None = None
        """Path of the directory of the run; None for a stream that is not in one."""
        self.rank: int | None = None
        """The rank that the name of the stream's file implies; None for a stream that is not in a bundle."""
        self._phase_from = phase["from"]
        self._wanted = _wanted(profile)
        self._known: dict[tuple[str, str], Any] = {}
        self._seen: set[str] = set()

    def observe(self, seen: Observation) -> None:
        """Take the facts of *seen* if it is the first of its kind."""
        kind = seen.kind
        if kind is None or kind in self._seen or not (kind in self._wanted or kind == self._phase_from):
            return
        self._seen.add(kind)
        for pointer in self._wanted.get(kind, ()):
            field = pointer[1:]
            present = "/" not in field and seen.has(field)
            self._known[kind, pointer] = True if present else seen.at(pointer)
        if kind == self._phase_from and self.phase_field is not None:
            phase = seen.field(self.phase_field)
            self.phase = self.phase if phase is UNSET else phase

    def phases(self, block: Block, kind: str) -> dict[str, Sequence[Any]]:
        """Return the records of *kind* in *block* by their phases."""
        found = block.phases.get(kind)
        if found is None:
            # Several rules need this of the same block.
            found = block.phases[kind] = self._by_phase(block, kind)
        return found

    def _by_phase(self, block: Block, kind: str) -> dict[str, Sequence[Any]]:
        records = block.of(kind)
        phases = list(map(attrgetter(self.phase_field or "phase"), records))
        if len(set(phases)) == 1:
            return {self._phase_named(phases[0]): records}
        found: dict[str, list[Any]] = {}
        for record, phase in zip(records, phases, strict=True):
            found.setdefault(self._phase_named(phase), []).append(record)
        return dict(found)

    def _phase_named(self, phase: Any) -> str:
        return str(self.phase if phase is UNSET else phase)

    def seen(self, kind: str) -> bool:
        """Return whether a record of a kind that a rule refers to was seen."""
        return kind in self._seen

    def value(self, kind: str, pointer: str) -> Any:
        """Return the value at *pointer* in the first record of *kind*; UNSET if there is none."""
        return self._known.get((kind, pointer), UNSET)


@cache
def _wanted(profile: str) -> dict[str, list[str]]:
    """Return the pointers into the first record of each kind that rules of *profile* refer to, by kind."""
    found: dict[str, list[str]] = {}
    for rule in STREAMS[profile]["rules"]:
        unless = rule.get("skipped", {}).get("unless")
        if unless:
            found.setdefault(unless["kind"], []).append(unless["pointer"])
        needs = rule.get("needs", {})
        if "kind" in needs:
            found.setdefault(needs["kind"], []).append("/" + needs["field"])
    return found


def identity(name: str) -> str | bytes:
    """Return *name*, or a short digest of a long one, to save memory."""
    if len(name) <= 64:
        return name
    # Imported here: it takes a tenth of the start-up time, and long names are rare.
    from hashlib import blake2b

    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def phase_of(seen: Observation, facts: Facts) -> str:
    """Return the phase of a record: its own, else that of run_start, else the default."""
    phase = seen.field(facts.phase_field) if facts.phase_field else UNSET
    return str(facts.phase if phase is UNSET else phase)


def shown_number(value: Any) -> str:
    """Return *value* as text for a message, the same for 1 and 1.0."""
    if value is None:
        return "null"
    return shortened(
        str(int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e16 else value)
    )


def shown_times(count: int) -> str:
    """Return *count* as text for a message, empty for 1."""
    return "" if count == 1 else messages.times(count=count)


def shown_suggestion(name: str | None) -> str:
    """Return *name* as a suggestion at the end of a message, empty for None."""
    return "" if name is None else messages.suggestion(name=name)
