"""The rules that relate records, made from ``schemas/<profile>/v1/stream.json``: see spec/stream.md.

A rule observes every record in order and yields findings. For a block of regular records it may prove at once
that there are none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from toyspec.core.checker.collecting import Lines, RecordFinding
from toyspec.core.escaping import shortened
from toyspec.core.format.flattening import pointer_to
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.generated import messages
from toyspec.core.generated.limits import MAX_OPEN_REGIONS
from toyspec.core.generated.streams import COLUMNS, STREAMS
from toyspec.core.reading.run_files import leaves_bundle, media_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_NO_PHASE: dict[str, Any] = {"field": None, "default": None, "from": None}

NOTHING_BAD: frozenset[str] = frozenset()
"""The fields of a record without findings that later rules ignore: none."""


class Observation(msgspec.Struct):
    """One record, as input of the rules."""

    record: dict[str, Any]
    kind: str | None
    """The kind; None if the tag is missing or not a string."""
    known: bool
    """True for a kind that this version knows."""
    bad: frozenset[str] = NOTHING_BAD
    """Fields with a finding of their own; the rules ignore them."""
    line: int = 0
    """Line number, from 1."""

    def field(self, name: str) -> Any:
        """Return the value of a field; UNSET if it is absent or wrong."""
        return UNSET if name in self.bad else self.record.get(name, UNSET)

    def at(self, pointer: str) -> Any:
        """Return the value at a pointer; UNSET if there is none, or if its first field is wrong."""
        first, *rest = pointer[1:].split("/")
        value = self.field(first)
        for key in rest:
            value = value.get(key, UNSET) if isinstance(value, dict) else UNSET
        return value


class Block(msgspec.Struct):
    """Records without findings that are taken in at once."""

    records: Sequence[Any]
    """Records of strict types."""
    kinds: Mapping[type, str]
    """The kind of each of their types."""
    line: int
    """Number of the line of the first."""
    lines: Lines
    """Lines that they are some of."""
    phases: dict[str, dict[str, list[Any]]] = {}
    """The records of a kind by their phases, once a rule has asked for them."""


class Facts:
    """Facts from the first record of each kind that rules refer to, and whether a gap came before it."""

    def __init__(self, profile: str) -> None:
        phase = STREAMS[profile].get("phase", _NO_PHASE)
        self.phase_field: str | None = phase["field"]
        self.gap_seen = False
        self.directory: str | None = None
        """Path of the directory of the run; None for a stream that is not in one."""
        self.rank: int | None = None
        """The rank that the name of the stream's file implies; None for a stream that is not in a bundle."""
        self._default_phase: Any = phase["default"]
        self._phase_from = phase["from"]
        self._referred = _referred(profile)
        self.first: dict[str, Observation] = {}
        """The first record of each kind that a rule refers to."""

    def observe(self, seen: Observation) -> None:
        """Keep *seen* if it is the first of a kind that rules refer to."""
        if seen.kind in self._referred:
            self.first.setdefault(seen.kind, seen)

    @property
    def phase(self) -> Any:
        """The phase of records that name none."""
        return self.value(self._phase_from, f"/{self.phase_field}", self._default_phase)

    def phase_of(self, seen: Observation) -> str:
        """Return the phase of a record: its own, else that of run_start, else the default."""
        phase = seen.field(self.phase_field) if self.phase_field else UNSET
        return str(self.phase if phase is UNSET else phase)

    def phases(self, block: Block, kind: str) -> dict[str, list[Any]]:
        """Return the records of *kind* in *block* by their phases."""
        found = block.phases.get(kind)
        if found is None:
            # Several rules need this of the same block.
            found = block.phases[kind] = {}
            records = [record for record in block.records if block.kinds[type(record)] == kind]
            phases = list(map(attrgetter(self.phase_field or "phase"), records))
            for phase in dict.fromkeys(phases):
                alike = [record for record, its in zip(records, phases, strict=True) if its == phase]
                found.setdefault(str(self.phase if phase is UNSET else phase), []).extend(alike)
        return found

    def value(self, kind: str, pointer: str, otherwise: Any = UNSET) -> Any:
        """Return the value at *pointer* in the first record of *kind*; *otherwise* if there is none, or a wrong one."""
        first = self.first.get(kind)
        value = UNSET if first is None else first.at(pointer)
        return otherwise if value is UNSET else value


@cache
def _referred(profile: str) -> frozenset[str]:
    """Return the kinds to whose first records the rules of *profile* refer."""
    stream = STREAMS[profile]
    needed = [rule.get("needs", {}).get("kind") for rule in stream["rules"]]
    excused = [rule.get("skipped", {}).get("unless", {}).get("kind") for rule in stream["rules"]]
    return frozenset(filter(None, [stream.get("phase", _NO_PHASE)["from"], *needed, *excused]))


def identity(name: str) -> str | int:
    """Return *name*, or the hash of a long one, to save memory."""
    return name if len(name) <= 64 else hash(name)


def shown_number(value: Any) -> str:
    """Return *value* as text for a message, the same for 1 and 1.0."""
    if value is None:
        return "null"
    return shortened(
        str(int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e16 else value)
    )


_NAMING = ("kind", "enter", "exit", "closed_by", "restart", "of")


def _kinds(rule: dict[str, Any], terms: Iterable[str]) -> frozenset[str]:
    """Return the kinds that some *terms* of a rule name, if it has them."""
    named = [rule[term] for term in terms if term in rule]
    return frozenset(each["kind"] if isinstance(each, dict) else each for each in named)


UNPROVEN = object()
"""In place of a state: the rule must observe each record."""


class Rule:
    """A rule that relates records: by default those of one kind, each observed by itself."""

    new_state: Callable[[], Any] = NoneType
    """Gives the state before the first record."""
    observes_all = False
    """Whether the rule observes every record, of unknown kinds too, whatever kinds it names."""
    loud_terms: tuple[str, ...] = ("kind",)
    """The terms that name the kinds of records that the rule must observe one by one."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        self._terms = rule
        self._rule: str = rule["rule"]
        self._kind: str = rule.get("kind", "")
        self._field: str = rule.get("field", "")
        self._facts = facts
        self._is_cleared: bool = rule.get("cleared_by_gap", False)
        self.kinds = frozenset() if self.observes_all else _kinds(rule, _NAMING)
        """The kinds of records that the rule observes; empty for all."""
        self.loud = _kinds(rule, self.loud_terms)
        """The kinds of records that the rule must observe one by one."""
        self.state = self.new_state()
        """What later records are compared with."""
        self._pointer = f"/{self._field}" if self._field else ""

    def observe(self, seen: Observation) -> Iterator[RecordFinding]:
        """Yield the findings at *seen*, and keep what later records are compared with."""
        message = self.message(seen)
        if message is not None:
            yield RecordFinding(self._rule, self._pointer, message)

    def message(self, seen: Observation) -> str | None:
        """Return what is wrong at *seen*, None if nothing is, for a rule that has one finding a record at one place."""
        raise NotImplementedError

    def after(self, block: Block) -> Any:
        """Return the state after *block*, which has no record of a loud kind; UNPROVEN if it may have a finding."""
        del block
        return self.state

    def gap(self) -> None:
        """Note an unreadable line."""
        if self._is_cleared:
            self.state = self.new_state()

    def reopen(self) -> None:
        """Note that the run goes on after its end."""

    def finish(self) -> Iterator[RecordFinding]:
        """Yield the findings at the end of a stream that has records and no fragment."""
        return iter(())


class First(Rule):
    """The first record is of the kind."""

    observes_all = True
    loud_terms = ()

    def message(self, seen: Observation) -> str | None:
        """Return that the first record is of another kind."""
        is_first, self.state = not self.state, True
        # The missing record may have been in a gap before it; a missing tag is a finding of its own.
        if is_first and seen.kind not in {self._kind, None} and not self._facts.gap_seen:
            return messages.run_start_missing(found=shortened(str(seen.kind)), kind=self._kind)
        return None


class Once(Rule):
    """No second record of the kind."""

    def message(self, seen: Observation) -> str | None:
        """Return at every record of the kind after the first which line has that."""
        if self.state:
            return messages.run_start_repeated(kind=self._kind, line=self.state)
        self.state = seen.line
        return None


class Last(Rule):
    """No record follows one of the kind, until the run goes on."""

    observes_all = True

    def message(self, seen: Observation) -> str | None:
        """Return at every record after the one that ended the run which line has that."""
        if self.state:
            return messages.event_after_run_end(kind=self._kind, line=self.state)
        self.state = seen.line if seen.kind == self._kind else None
        return None

    def reopen(self) -> None:
        """Forget the end."""
        self.state = None


class Present(Rule):
    """A stream that has records and no fragment has a record of the kind, and another one after it went on."""

    def message(self, seen: Observation) -> str | None:
        """Note the kind."""
        del seen
        self.state = True
        return None

    def reopen(self) -> None:
        """Ask for a further record of the kind."""
        self.state = None

    def finish(self) -> Iterator[RecordFinding]:
        """Yield a finding if the kind was not seen."""
        if not self.state:
            yield RecordFinding(self._rule, "", messages.run_end_missing(kind=self._kind))


def _column(field: str, records: Iterable[Any]) -> list[Any]:
    # The profile of a user may order by any field.
    return COLUMNS[field](records) if field in COLUMNS else list(map(attrgetter(field), records))


class Monotone(Rule):
    """A field does not decrease; with repeats refused it increases."""

    def message(self, seen: Observation) -> str | None:
        """Return that the field is less than the one before."""
        value = seen.field(self._field)
        if value is UNSET or not seen.known:
            return None
        last, self.state = self.state, value
        if last is None or value > last or (value == last and self._terms["repeats"] == "allowed"):
            return None
        return messages.goes_backwards(field=self._field, found=shown_number(value), before=shown_number(last))

    def after(self, block: Block) -> Any:
        """Return the last value if the field of the block is in order and goes on from the one before."""
        values = _column(self._field, block.records)
        known = values if self.state is None else [self.state, *values]
        # Sorting a sorted list compares each value once.
        may_repeat = self._terms["repeats"] == "allowed"
        is_ordered = sorted(known) == known and (may_repeat or len(set(known)) == len(known))
        return values[-1] if is_ordered else UNPROVEN


class SequencePerPhase(Rule):
    """Within a phase the field counts up by one."""

    new_state = dict
    """The last value of each phase."""
    loud_terms = ("restart",)

    def observe(self, seen: Observation) -> Iterator[RecordFinding]:
        """Yield a finding if the field is not one more than the one before in its phase."""
        restart = self._terms["restart"]
        if seen.kind == restart["kind"]:
            begun = seen.field(restart["field"])
            self.state = {} if begun is UNSET else {restart["phase"]: begun}
            return
        value = seen.field(self._field)
        if value is UNSET:
            return
        phase = self._facts.phase_of(seen)
        base = self.state.get(phase)
        self.state[phase] = value
        if base is None or value == base + 1:
            return
        where, found, before = f"/{self._field}", shown_number(value), shown_number(base)
        if value <= base:
            yield RecordFinding(self._rule, where, messages.step_goes_backwards(found=found, before=before))
        elif (unless := self._terms["skipped"]["unless"]) and self._facts.value(**unless) in (UNSET, None):
            missing = shown_number(value - base - 1)
            message = messages.step_skipped(found=found, before=before, missing=missing)
            yield RecordFinding(self._terms["skipped"]["rule"], where, message)

    def after(self, block: Block) -> Any:
        """Return the last value of each phase if each in the block counts on from the one before."""
        phases = self._facts.phases(block, self._kind)
        if not all(self._counts_on(phase, records) for phase, records in phases.items()):
            return UNPROVEN
        return self.state | {phase: getattr(records[-1], self._field) for phase, records in phases.items()}

    def _counts_on(self, phase: str, records: Sequence[Any]) -> bool:
        values = _column(self._field, records)
        first = values[0]
        base = self.state.get(phase)
        return (base is None or first == base + 1) and values == list(range(first, first + len(values)))


class SameAsLast(Rule):
    """A field equals that of the last record of another kind, or is smaller where that is allowed."""

    new_state = UnsetType  # type: ignore[assignment]  # UNSET is all that it makes
    _done = False

    def message(self, seen: Observation) -> str | None:
        """Return that the field differs, at the record of the kind that ends the run."""
        of = self._terms["of"]
        if seen.kind == of["kind"]:
            if self._facts.phase_of(seen) == of["phase"]:
                self.state = seen.field(of["field"])
            return None
        value = seen.field(self._field)
        silent = self._done or self._facts.gap_seen or value is UNSET or self.state is UNSET
        self._done = True
        if silent or value == self.state or ("smaller" in self._terms and value < self.state):
            return None
        found, expected = shown_number(value), shown_number(self.state)
        return messages.differs_from_last(
            field=self._field, found=found, expected=expected, phase=of["phase"], kind=of["kind"]
        )

    def after(self, block: Block) -> Any:
        """Return the field of the last record of the other kind."""
        of = self._terms["of"]
        records = self._facts.phases(block, of["kind"]).get(of["phase"])
        return getattr(records[-1], of["field"], UNSET) if records else self.state

    def reopen(self) -> None:
        """Compare the next end too."""
        self._done = False


class Nested(Rule):
    """Records of two kinds nest like a stack."""

    new_state = list
    """For each open region its identity, its name as shown, and the line that entered it."""
    loud_terms = ("closed_by",)
    _off = False

    def observe(self, seen: Observation) -> Iterator[RecordFinding]:
        """Yield a finding if a region is left out of order, not open, or still open at the end."""
        if self._off:
            return
        if seen.kind == self._terms["closed_by"]:
            for _, name, line in reversed(self.state):
                yield RecordFinding(self._rule, "", messages.region_left_open(region=name, line=line))
            self.state.clear()
            self._off = True
            return
        region = seen.field(self._field)
        if region is UNSET:
            return
        if seen.kind == self._terms["enter"]:
            yield from self._push(region, seen.line)
        else:
            yield from self._pop(region)

    def after(self, block: Block) -> Any:
        """Return the open regions if every exit in the block is from the region entered last."""
        enter, leave = self._terms["enter"], self._terms["exit"]
        if self._off or not {enter, leave} & set(block.kinds.values()):
            return self.state
        found = list(self.state)
        for line, record in enumerate(block.records, block.line):
            kind = block.kinds[type(record)]
            if kind == enter:
                region = getattr(record, self._field)
                found.append((identity(region), shortened(region), line))
            elif kind == leave and (not found or found.pop()[0] != identity(getattr(record, self._field))):
                return UNPROVEN
            if len(found) > MAX_OPEN_REGIONS:
                return UNPROVEN
        return found

    def reopen(self) -> None:
        """Follow the regions of the run that goes on; none of them is open."""
        self._off = False

    def _push(self, region: str, line: int) -> Iterator[RecordFinding]:
        if len(self.state) == MAX_OPEN_REGIONS:
            self._off = True
            self.state.clear()
            yield RecordFinding(self._rule, f"/{self._field}", messages.region_too_many(limit=MAX_OPEN_REGIONS))
        else:
            self.state.append((identity(region), shortened(region), line))

    def _pop(self, region: str) -> Iterator[RecordFinding]:
        name = identity(region)
        if self.state and self.state[-1][0] == name:
            self.state.pop()
            return
        where = f"/{self._field}"
        for index in range(len(self.state) - 1, -1, -1):
            if self.state[index][0] == name:
                inner = self.state[-1][1]
                del self.state[index]
                message = messages.region_not_innermost(region=shortened(region), inner=inner)
                yield RecordFinding(self._rule, where, message)
                return
        yield RecordFinding(self._rule, where, messages.region_not_entered(region=shortened(region)))


class Requires(Rule):
    """A record of the kind needs a field, in itself or in the first record of another kind."""

    def observe(self, seen: Observation) -> Iterator[RecordFinding]:
        """Yield a finding if the field is missing."""
        when, needs = self._terms.get("when"), self._terms["needs"]
        if when and seen.field(when["field"]) != when["equals"]:
            return
        field, other, kind = needs["field"], needs.get("kind"), self._kind
        if other is not None:
            first = self._facts.first.get(other)
            # A member that is wrong is there too.
            if first is not None and field not in first.record:
                yield RecordFinding(self._rule, "", messages.required_in_other(kind=kind, other=other, key=field))
        elif field not in seen.record:
            message = (
                messages.required_if(kind=kind, field=when["field"], value=when["equals"], key=field)
                if when
                else messages.missing_key(key=field, place=kind)
            )
            yield RecordFinding(self._rule, f"/{field}", message)


class LessThan(Rule):
    """A field is smaller than another one of the same record."""

    def message(self, seen: Observation) -> str | None:
        """Return that the field is not smaller."""
        than = self._terms["than"]
        value, bound = seen.field(self._field), seen.field(than)
        if value is UNSET or bound is UNSET or value < bound:
            return None
        return messages.not_less(field=self._field, found=shown_number(value), bound=shown_number(bound), than=than)


class Differs(Rule):
    """The value at a pointer differs from a field of the same record."""

    def message(self, seen: Observation) -> str | None:
        """Return that the two are equal."""
        self._pointer = self._terms["pointer"]
        value, other = seen.field(self._field), seen.at(self._pointer)
        if value is UNSET or value != other:
            return None
        return messages.names_itself(found=shortened(str(other)), field=self._field)


class Inside(Rule):
    """A field is a path that does not leave the directory of the stream."""

    def message(self, seen: Observation) -> str | None:
        """Return that the path leads out, on any system."""
        path = seen.field(self._field)
        if path is UNSET or not leaves_bundle(path):
            return None
        return messages.leaves_bundle(field=self._field, found=shortened(path))


class Counted(Rule):
    """A field is a map of counts, none of which is greater than 0."""

    def message(self, seen: Observation) -> str | None:
        """Return the largest count, the first of equal ones."""
        counts = seen.field(self._field)
        names = [name for name, count in counts.items() if count > 0] if counts is not UNSET else []
        if not names:
            return None
        most = max(names, key=counts.__getitem__)
        count, name, others = shown_number(counts[most]), shortened(most), len(names) - 1
        if others:
            return messages.log_lacks_more(field=self._field, count=count, name=name, others=str(others))
        return messages.log_lacks(field=self._field, count=count, name=name)


class RankOfFile(Rule):
    """A field is the rank that the name of the stream's file implies."""

    def message(self, seen: Observation) -> str | None:
        """Return that it is another one."""
        rank, found = self._facts.rank, seen.field(self._field)
        if rank is None or found in (UNSET, rank):
            return None
        return messages.other_rank(field=self._field, found=shown_number(found), expected=str(rank))


class SameRun(Rule):
    """A field of a rank's stream equals that of the first record of the stream of rank 0."""

    def message(self, seen: Observation) -> str | None:
        """Return that the two differ."""
        directory, found = self._facts.directory, seen.field(self._field)
        if directory is None or not self._facts.rank or found is UNSET:
            return None
        expected = _first_value(os.path.join(directory, EVENTS_FILE), self._kind, self._field)
        if expected in (None, found):
            return None
        return messages.other_run(
            field=self._field, found=shortened(found), expected=shortened(str(expected)), name=EVENTS_FILE
        )


class Filed(Rule):
    """The file that two fields name is in the bundle."""

    def message(self, seen: Observation) -> str | None:
        """Return that it is not there as a regular file."""
        name, directory = self._terms["hash"], self._facts.directory
        self._pointer = f"/{name}"
        sha256, media_type = seen.field(name), seen.field(self._terms["media_type"])
        if directory is None or sha256 is UNSET or media_type is UNSET:
            return None
        path = media_file(sha256, media_type)
        if path is None or _is_regular(os.path.join(directory, *path.split("/"))):
            return None
        return messages.media_missing(name=path)


class NullNumber(Rule):
    """A null among numbers, reported once."""

    loud_terms = ()

    def message(self, seen: Observation) -> str | None:
        """Return where the first null is."""
        for name, value in seen.record.items() if seen.known and not self.state else ():
            if name in self._terms["fields"] and name not in seen.bad:
                inner = value.items() if isinstance(value, dict) else ()
                path = [name] if value is None else next(([name, key] for key, item in inner if item is None), None)
                if path is not None:
                    self.state, self._pointer = True, pointer_to(path)
                    where = shortened(self._pointer[1:])
                    return messages.unexpected(path=where, found="null", expected=messages.EXPECTED_NUMBER)
        return None

    def after(self, block: Block) -> Any:
        """Return the state if a null was reported, or there is none in the block."""
        is_quiet = (
            self.state
            or b"null" not in block.lines.together
            or not any(_has_null(list(map(attrgetter(name), block.records))) for name in self._terms["fields"])
        )
        return self.state if is_quiet else UNPROVEN


def _first_value(path: str, kind: str, field: str) -> str | None:
    """Return the string *field* of the first record of the stream at *path*; None unless it is of *kind*."""
    # Imported here: few runs have several ranks.
    from toyspec.core.errors import StreamError
    from toyspec.core.reading.reader import read

    try:
        first = next(iter(read(path, mode="salvage", dialect=None)), None)
    except (OSError, StreamError):
        return None
    found = first.value.get(field) if first is not None and first.kind == kind else None
    return found if isinstance(found, str) else None


def _is_regular(path: str) -> bool:
    """Return whether *path* is a regular file, reached without symbolic links below the bundle."""
    try:
        of_folder, of_file = os.lstat(os.path.dirname(path)), os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(of_folder.st_mode) and stat.S_ISREG(of_file.st_mode)


def _has_null(column: list[Any]) -> bool:
    types = set(map(type, column))
    if dict in types:
        maps = column if len(types) == 1 else [value for value in column if type(value) is dict]
        types |= set(map(type, chain.from_iterable(map(dict.values, maps))))
    return type(None) in types


_TYPES: dict[str, Callable[[dict[str, Any], Facts], Rule]] = {
    "first": First,
    "once": Once,
    "last": Last,
    "present": Present,
    "monotone": Monotone,
    "sequence-per-phase": SequencePerPhase,
    "same-as-last": SameAsLast,
    "nested": Nested,
    "requires": Requires,
    "null-number": NullNumber,
    "less-than": LessThan,
    "differs": Differs,
    "inside": Inside,
    "counted": Counted,
    "rank-of-file": RankOfFile,
    "same-run": SameRun,
    "filed": Filed,
}


class StreamRules:
    """All rules of one profile that relate records, in the order of its ``stream.json``."""

    def __init__(self, profile: str) -> None:
        self.facts = Facts(profile)
        self._all = [_TYPES[rule["type"]](rule, self.facts) for rule in STREAMS[profile]["rules"]]
        complete = STREAMS[profile].get("complete", {})
        self._closing: str | None = complete.get("last")
        self._reopening: str | None = complete.get("reopened_by", {}).get("kind")
        self._has_begun = False
        self._ended = False
        self.loud = frozenset().union(*(rule.loud for rule in self._all))
        """The kinds of records that must be observed one by one."""

    def observe(self, seen: Observation) -> list[RecordFinding]:
        """Return the findings at a record; ``seen.kind`` is None if the tag is missing or not a string."""
        if self._ended and seen.kind == self._reopening:
            self._ended = False
            for rule in self._all:
                rule.reopen()
        self._has_begun = True
        self._ended = self._ended or (seen.kind is not None and seen.kind == self._closing)
        concerned = [rule for rule in self._all if not rule.kinds or seen.kind in rule.kinds]
        findings = [finding for rule in concerned for finding in rule.observe(seen)]
        self.facts.observe(seen)
        return findings

    def pass_over(self, block: Block) -> bool:
        """Return whether *block*, which has no record of a loud kind, is proven to have no finding; if so, take it in.

        If not, the state does not change. The first record, and what comes after the end, are observed one by one.
        """
        if self._ended or not self._has_begun:
            return False
        states = []
        for rule in self._all:
            state = rule.after(block)
            if state is UNPROVEN:
                return False
            states.append(state)
        for rule, state in zip(self._all, states, strict=True):
            rule.state = state
        return True

    def gap(self) -> None:
        """Note an unreadable line."""
        self.facts.gap_seen = True
        for rule in self._all:
            rule.gap()

    def finish(self) -> list[RecordFinding]:
        """Return the findings at the end of a stream that has records and no fragment."""
        return [finding for rule in self._all for finding in rule.finish()]
