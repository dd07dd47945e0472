"""Makes records from the bytes of a stream, for the reader of whole files and the follower of live ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import repeat
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.core.findings import Gap, Profile
from toyspec.core.format.decoding import event_of, take_integers
from toyspec.core.format.known_formats import is_of_another_format
from toyspec.core.format.line_validation import decode, validate, validate_line
from toyspec.core.format.lines import Line, LineSplitter
from toyspec.core.format.numbers import binary32, number
from toyspec.core.format.profiles import closing_kind, detect_profile, record_kind, reopening_kind
from toyspec.core.format.record_mapping import TimeOrigin, Values, mapping_of, said_in
from toyspec.core.generated import rules
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.limits import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toyspec.core.findings import DialectUse, Fragment, State
    from toyspec.core.format.lines import Cutter


_SHOWN_BYTES = 60


class CutFeed:
    """A feed that cuts the stream with ``_splitter``."""

    chunk_bytes = 1 << 16
    """Number of bytes that are fed at once when a file is read."""

    _splitter: Cutter

    @property
    def max_line_bytes(self) -> int:
        """Longest line that is read, LF excluded."""
        return self._splitter.max_line_bytes

    @property
    def committed(self) -> int:
        """Byte offset after the last LF, or after the last object of a document that is not closed."""
        return self._splitter.committed

    @property
    def next_line(self) -> int:
        """Number of the line that the next LF ends, counted from 1."""
        return self._splitter.next_number

    @property
    def size(self) -> int:
        """Number of bytes fed so far."""
        return self._splitter.size

    def fragment(self) -> Fragment | None:
        """Return the bytes that are not committed at this time; None if there are none."""
        return self._splitter.fragment()

    def drop_fragment(self) -> None:
        """Drop the bytes that are not committed, as if they had not been fed."""
        self._splitter.drop_fragment()


# The content of a line is a tree, so records are not in cycles; the garbage collector would visit each one twice.
class Record(msgspec.Struct, eq=False, gc=False):
    """One committed JSON object: what it says in terms of any log, and the bytes that it came from.

    ``step``, ``time``, ``epoch``, ``phase``, ``values`` and ``texts`` mean the same in every log, as do ``start``,
    ``end`` and ``goal``: which keys they are read from, ``schemas/records.json`` and the dialects say.
    ``record[key]`` and ``record.get(key)`` look into ``value``.
    """

    raw: bytes
    """The line exactly as it is in the stream, without its LF; unknown kinds and keys included."""
    line: int
    """Line number, counted from 1."""
    offset: int
    """Byte offset of the line's first byte, counted from 0 at the start of the stream."""
    profile: Profile | None
    """The profile of the stream; None for a file of another format."""
    kind: str | None
    """The kind that the record declares as a string; None if it does not, or the profile has no kinds."""
    _value: dict[str, Any] | None = None
    _event: Any = ...
    _said: tuple[Values, dict[str, str]] | None = None

    @property
    def step(self) -> int | float | None:
        """The step; None if the record has none, or not a valid one."""
        return mapping_of(self.profile).step_in(self.value)

    @property
    def time(self) -> float | None:
        """Seconds, since ``time_origin``; None if the record has no time."""
        return mapping_of(self.profile).time_in(self.value)

    @property
    def time_origin(self) -> TimeOrigin | None:
        """``unix`` for times since 1970, ``run`` for times since the start of the run; None without a time."""
        mapping = mapping_of(self.profile)
        return mapping.origin_of(mapping.time_in(self.value))

    @property
    def epoch(self) -> int | float | None:
        """The epoch; None if the record has none."""
        key = mapping_of(self.profile).epoch
        return None if key is None else number(self.value.get(key))

    @property
    def phase(self) -> str | None:
        """The phase that the record names, if it is a valid one."""
        mapping = mapping_of(self.profile)
        phase = None if mapping.phase is None else self.value.get(mapping.phase)
        return phase if type(phase) is str and phase in mapping.phases else None

    @property
    def values(self) -> Values:
        """The metrics by name. None is null; NaN and infinities are there where the record says what null was.

        They are the numbers of a step and of its extra; the values of ``scalars``; an eval's numbers, after its name
        and a slash; the value of a kaun scalar, by its tag; the numbers of a record of a user's profile; and those of
        all other kinds, after the kind, and what it speaks about: ``grad/wte/l2``.
        """
        if self._said is None:
            self._said = said_in(self.value, self.profile, self.kind)
        return self._said[0]

    @property
    def texts(self) -> dict[str, str]:
        """The texts by name; empty if the record has none."""
        if self._said is None:
            self._said = said_in(self.value, self.profile, self.kind)
        return self._said[1]

    @property
    def start(self) -> dict[str, Any] | None:
        """The run's metadata in the record as members of ``run_start``; None if it has none."""
        mapping = mapping_of(self.profile)
        if mapping.of_kind(self.kind).role != "start":
            return None
        if mapping.others.names != "shared":
            return self.value
        framing = (mapping.tag, mapping.time.key if mapping.time else None)
        return {"config": {key: member for key, member in self.value.items() if key not in framing}}

    @property
    def end(self) -> dict[str, Any] | None:
        """The end of the run as members of ``run_end``; None if the record does not end it."""
        return self.value if mapping_of(self.profile).of_kind(self.kind).role == "end" else None

    @property
    def goes_on(self) -> bool:
        """Whether the run goes on with the record, after an end too: an earlier end does not count any more."""
        return self.kind is not None and self.kind == reopening_kind(self.profile)

    @property
    def changed_config(self) -> dict[str, Any]:
        """The settings that the record adds to those of the run, or changes; empty if it has none."""
        is_change = mapping_of(self.profile).of_kind(self.kind).role == "config"
        found = self.get("config") if is_change else None
        return found if isinstance(found, dict) else {}

    @property
    def goal(self) -> dict[str, str]:
        """The goals of metrics that the record states, ``min``, ``max`` or ``none``, by name."""
        mapping = mapping_of(self.profile)
        read = mapping.of_kind(self.kind)
        if read.role == "goal":
            name, goal = self.get("name"), self.get("goal")
            return {name: goal} if isinstance(name, str) and isinstance(goal, str) else {}
        if read.minimize is not None:
            name, minimize = self.get(read.pair[0]), self.get(read.minimize)
            return {name: "min" if minimize else "max"} if isinstance(name, str) and isinstance(minimize, bool) else {}
        return mapping.goals

    @property
    def attempt(self) -> int:
        """Number of the attempt, counted from 1, in logs that count them; a later one supersedes those before."""
        return 1

    @property
    def is_known(self) -> bool:
        """Whether the record is of a kind that its profile defines, or the profile has no kinds."""
        fields = FIELDS.get(self.profile or "", {})
        return (self.kind or mapping_of(self.profile).untagged) in fields or "entry" in fields

    @property
    def counts(self) -> bool:
        """False for an entry with an invalid loss: views are as if it were not in the stream."""
        valid = mapping_of(self.profile).of_kind(self.kind).valid
        if self.profile is None or not valid or valid not in self.value:
            return True
        loss = number(self.value[valid])
        return self.value[valid] is None or (loss is not None and isfinite(binary32(loss)))

    @property
    def is_step(self) -> bool:
        """Whether the record is one of the steps that a run consists of, with a valid step; its phase may be any."""
        mapping, value = mapping_of(self.profile), self.value
        read = mapping.of_kind(self.kind)
        if read.role != "step" or mapping.step_in(value) is None:
            return False
        if read.values == "pair":
            return bool(self.values)
        if read.valid:
            return self.counts
        time = mapping.time_in(value)
        return self.profile != "toy/v1" or (time is not None and time >= 0)

    @property
    def value(self) -> dict[str, Any]:
        """The decoded object; of a repeated key, the last value. Integers are ints, whatever their spelling."""
        if self._value is None:
            value = decode(self.raw) or validate(self.raw, first=False).value
            assert value is not None, "a record is made from a readable line"
            take_integers(value, self.profile, self.kind)
            self._value = value
        return self._value

    @property
    def event(self) -> Any:
        """The object as the type of its kind, for example ``Step``; None if the kind is unknown or a field is wrong.

        A member that the record lacks is None there. A number that is null was not finite: it is NaN, or the infinity
        that the record says it was.

        The formats of dates and the rules that relate records are not checked here; the checker does that.
        """
        if self._event is ...:
            self._event = event_of(self.value, self.kind, self.profile, has_null=b"null" in self.raw)
        return self._event

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of *key*, or *default* if the record does not have it."""
        return self.value.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self.value[key]

    def __contains__(self, key: object) -> bool:
        return key in self.value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (self.raw, self.line, self.offset, self.profile) == (other.raw, other.line, other.offset, other.profile)

    def __ne__(self, other: object) -> bool:
        # A Struct has its own, which compares identity.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.raw, self.line, self.offset))

    def __repr__(self) -> str:
        shown = self.raw if len(self.raw) <= _SHOWN_BYTES else self.raw[:_SHOWN_BYTES] + b"..."
        return f"<Record line={self.line} offset={self.offset} {shown!r}>"


def state_of(profile: Profile | None, last: tuple[str | None] | None, *, has_gap: bool, is_open: bool) -> State:
    """Return the state of a stream of *profile*, by the kind of its *last* record; that is None without one.

    *has_gap* means that a line cannot be read, *is_open* that bytes follow the last record. See spec/stream.md.
    """
    if has_gap:
        return "damaged"
    closing = closing_kind(profile)
    is_unfinished = last is None or (closing is not None and last[0] != closing)
    return "torn" if is_open or is_unfinished else "complete"


def nothing_missing() -> dict[str, Counter[str]]:
    """Return the counts of ``count_missing`` before the first record."""
    return {"left_out": Counter(), "dropped": Counter()}


def count_missing(missing: Mapping[str, Counter[str]], record: Record) -> None:
    """Add to *missing* what *record*, if it is a note, counts as left out of the log."""
    if record.kind == "note" and record.profile == "toy/v1":
        for key, counts in missing.items():
            found = record.get(key)
            if isinstance(found, dict):
                counts.update({name: n for name, n in found.items() if type(n) is int})


class RecordFeed(CutFeed):
    """Makes records from a stream that arrives in pieces of any size.

    *profile* None means that the first record decides: *detect* returns the profile, by default from the record
    alone; its second argument says whether a line was unreadable. *max_line_bytes* is the longest line that is read,
    LF excluded.
    """

    def __init__(
        self,
        *,
        profile: Profile | None = None,
        detect: Callable[..., Profile | None] = detect_profile,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self._splitter: LineSplitter = LineSplitter(max_line_bytes=max_line_bytes)
        self._detect = detect
        self._named = profile
        self._profile = profile
        self._is_decided = profile is not None
        self.last: Record | None = None
        """The last record so far."""
        self.records = 0
        """Number of records so far."""
        self.gap_bytes = 0
        """Number of bytes in unreadable lines so far, their LFs included."""

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the records that *chunk* commits, and a gap for each unreadable line, in order."""
        found: list[Any] = []
        number, offset = self._splitter.position
        lines = self._splitter.cut(chunk)
        if lines is None:
            # One of the lines may be too long.
            for line in self._splitter.feed(chunk):
                self._take(line, found)
            return found
        for at, data in enumerate(lines, number):
            value = decode(data) if data else None
            if value is not None:
                found.append(self._record(data, at, offset, value))
            elif data:
                self._take(Line(at, offset, len(data), data, b""), found)
            offset += len(data) + 1
        return found

    use: DialectUse | None = None
    """None: a stream of a profile has no dialect."""

    @property
    def is_by_lines(self) -> bool:
        """True once a record has decided the profile: each line is then read by itself."""
        return self._is_decided

    def skip(self, size: int, lines: int = 0) -> None:
        """Pass over *size* bytes of whole lines, which count as *lines*; call it after an LF."""
        self._splitter.skip(lines, size)

    @property
    def profile(self) -> Profile | None:
        """The profile of the stream, as far as it is known; None for a file of another format."""
        if self._is_decided:
            return self._profile
        return self.without_records(has_gap=self.gap_bytes > 0 or is_of_another_format(self.fragment()))

    def without_records(self, *, has_gap: bool) -> Profile | None:
        """Return the profile that the stream would have without its records."""
        return self._named or self._detect(None, has_gap=has_gap)

    @property
    def state(self) -> State:
        """The state of the stream if it ended now."""
        last = None if self.last is None else (self.last.kind,)
        return state_of(self.profile, last, has_gap=self.gap_bytes > 0, is_open=self.size > self.committed)

    def uncommitted(self) -> dict[str, Any] | None:
        """Return the object in the bytes after the last LF, or None if they are not a whole object."""
        fragment, data = self._splitter.fragment(), self._splitter.pending()
        if fragment is None or data is None:
            return None
        value = validate(data, first=fragment.number == 1).value
        if value is not None:
            take_integers(value, self.profile, record_kind(value, self.profile))
        return value

    def _record(self, data: bytes, number: int, offset: int, value: dict[str, Any]) -> Record:
        if not self._is_decided:
            self._profile = self._detect(value)
            self._is_decided = True
        kind = record_kind(value, self._profile)
        take_integers(value, self._profile, kind)
        self.last = Record(data, number, offset, self._profile, kind, value)
        self.records += 1
        return self.last

    def _take(self, line: Line, found: list[Record | Gap]) -> None:
        verdict = validate_line(line, max_line_bytes=self._splitter.max_line_bytes)
        if verdict.value is not None:
            assert line.data is not None, "a record is made from a readable line"
            found.append(self._record(line.data, line.number, line.offset, verdict.value))
        elif verdict.status == "unreadable":
            finding = next(finding for finding in verdict.findings if finding.rule != rules.DUPLICATE_KEY)
            self.gap_bytes += line.length + 1
            found.append(Gap(line.number, line.offset, line.length + 1, finding.rule, finding.message))


class Row(Record, eq=False, gc=False):
    """One record of another program's log, and what it says."""

    step: int | float | None = None
    """The step; None if the record has none."""
    time: float | None = None
    """Seconds, since ``time_origin``."""
    time_origin: TimeOrigin | None = None
    """``unix`` for times since 1970, ``run`` for times since the start of the run; None without a time."""
    epoch: int | float | None = None
    phase: str | None = None
    values: Values = msgspec.field(default_factory=dict)
    """The metrics by name. NaN and infinities are floats; None is null."""
    attempt: int = 1
    """Number of the attempt, counted from 1; a later one supersedes those before."""
    config: dict[str, Any] | None = None
    """The settings that the record has; None if it has none."""
    run: str | None = None
    """The name of the run that the record has; None if it has none."""
    end: dict[str, Any] | None = None
    """How the run ended, as ``reason`` of ``run_end``, if the record says that."""
    goal: dict[str, str] = msgspec.field(default_factory=dict)
    """``min`` or ``max`` by the name of a metric, if the record says which values of it are better."""
    members: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The object, flattened."""
    hidden: list[tuple[str, Any]] = []
    """Name and value of each member of which a later one has the name once flattened."""

    @property
    def start(self) -> dict[str, Any] | None:
        """The description of the run in the record, as members of ``run_start``; None if it has none."""
        members = {"config": self.config, "name": self.run}
        return {name: value for name, value in members.items() if value} or None

    @property
    def texts(self) -> dict[str, str]:
        """Empty: which texts of another program's log are values, no dialect says."""
        return {}

    @property
    def is_known(self) -> bool:
        """True: a dialect has no kinds."""
        return True

    @property
    def is_step(self) -> bool:
        """False: rows come in any order of their steps."""
        return False


class ReadLine(NamedTuple):
    """A line of another program's log, and the object that it is read as."""

    line: Line
    value: dict[str, Any]
    members: Mapping[str, Any]
    """The object, flattened."""
    hidden: list[tuple[str, Any]]
    """Name and value of each member of which a later one has the name."""


class RowBlock(NamedTuple):
    """Successive lines with the same members, of which nothing but the numbers and phases counts."""

    number: int
    """Number of the first line, counted from 1."""
    offset: int
    """Byte offset of the first line."""
    lines: Sequence[bytes]
    objects: Sequence[dict[str, Any]]
    """The object of each line."""
    columns: dict[str, Sequence[Any]]
    """The numbers, texts or truths of each member, flattened."""
    steps: Sequence[int] | None
    """None where no line has one, as for all that follow."""
    times: Sequence[float] | None
    """Seconds, since ``time_origin``."""
    time_origin: TimeOrigin | None
    epochs: Sequence[int | float] | None
    phases: Sequence[str] | None
    metrics: dict[str, Sequence[int | float]]
    """The values of each metric; all are finite."""
    unused: int
    """Number of members that are none of these."""
    attempt: int = 1
    """Number of the attempt, as that of a ``Row``."""

    def each_line(self) -> Iterator[Line]:
        """Yield the lines one by one."""
        offset = self.offset
        for at, data in enumerate(self.lines, self.number):
            yield Line(at, offset, len(data), data, b"")
            offset += len(data) + 1

    def rows(self) -> list[Row]:
        """Return the rows."""
        nothing: Any = repeat(None)
        places = zip(*(each or nothing for each in (self.steps, self.times, self.epochs, self.phases)), strict=False)
        metrics = zip(*self.metrics.values(), strict=True) if self.metrics else repeat(())
        members: Iterable[Mapping[str, Any]] = self.objects
        if self.columns.keys() != self.objects[0].keys():
            names = tuple(self.columns)
            members = (dict(zip(names, each, strict=True)) for each in zip(*self.columns.values(), strict=True))
        return [
            Row(
                raw=line.data or b"",
                line=line.number,
                offset=line.offset,
                profile=None,
                kind=None,
                _value=value,
                step=step,
                time=time,
                time_origin=self.time_origin,
                epoch=epoch,
                phase=phase,
                values=dict(zip(self.metrics, values, strict=True)),
                attempt=self.attempt,
                members=flat,
            )
            for line, value, flat, (step, time, epoch, phase), values in zip(
                self.each_line(), self.objects, members, places, metrics, strict=False
            )
        ]
