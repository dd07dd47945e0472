"""Makes the log of one run of what another tool has: what a time, a step and a value become is decided here alone.

A value becomes what ``run.log`` makes of it. Each one is counted, and a note in the log names what was left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from itertools import islice
from math import inf, isfinite
from operator import le
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.convert.reports import (
    INVALID,
    NO_PLACE,
    ROUNDED,
    SECRET,
    STEP_UNUSABLE,
    SUPERSEDED,
    TIME_JUMPS,
    TIME_UNUSABLE,
    as_setting,
    is_number,
    step_member,
    step_of,
)
from toyspec.core.escaping import shortened
from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError, encode_record
from toyspec.core.format.redaction import Redaction
from toyspec.core.runs.stream_ends import END_UNKNOWN
from toyspec.core.writing.clocks import utc_text
from toyspec.core.writing.dropped_records import TOPIC
from toyspec.core.writing.events import check_record
from toyspec.core.writing.lenience import Completions
from toyspec.core.writing.logged_values import prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from toyspec.convert.reports import Ledger
    from toyspec.convert.run_items import Bins


PROVENANCE: Final = "provenance"
"""Topic of the note with the facts about a run that ``run_start`` has no member for."""
_NUMBER_MAPS: Final = {"scalars": "values", "system": "extra"}
NUMBERS: Final = frozenset([float, int])
"""The types of plain numbers."""
# What is not the same in every writer of JSON.
_ODD: Final = re.compile(r"[^ !#-\[\]-~]")
_LARGEST_EXACT: Final = 2**53
_MOST_NAMED: Final = 100
_NOT_COUNTED: Final = frozenset(["kind", "t", "started_at", "name", "config"])
PHASES: Final = frozenset(["train", "eval", "decode", "serve"])
_encode = msgspec.json.encode
_encode_lines = msgspec.json.Encoder().encode_lines


class Intake:
    """Takes the records of one run in order, and gives the lines of its log, each with its LF."""

    def __init__(self, ledger: Ledger, complete: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> None:
        """Count in *ledger*; *complete* makes the ``run_start`` that is written of the one of the source."""
        self.ledger = ledger
        self.timeline = Timeline(ledger, None)
        self.is_begun = False
        self.has_metrics = False
        self._complete = complete
        self._end: dict[str, Any] | None = None
        self._completions = Completions()
        self._rounded: Counter[str] = Counter()

    def begin(
        self, wall: float | None, *, config: Any = None, rest: Mapping[str, Any] | None = None, **facts: Any
    ) -> Iterator[bytes]:
        """Yield the ``run_start`` of a run that began at *wall*, in seconds since the Unix epoch, with its *facts*.

        Facts that are empty are absent. A note has *rest*, for which there is no member.
        """
        self.timeline = Timeline(self.ledger, wall)
        start = self.timeline.run_start(
            **{name: fact for name, fact in facts.items() if fact not in (None, "", [], {})}
        )
        self.ledger.carry(len(start.keys() - _NOT_COUNTED))
        if "argv" in start:
            start["argv"] = Redaction().command_line(start["argv"])
        if config:
            start["config"] = self._settings(config, "config/")
        self.is_begun = True
        yield self._line(self._complete(start))
        if rest:
            text = _encode(self._settings(rest)).decode()
            yield self._line({"kind": "note", "t": 0.0, "text": text, "topic": PROVENANCE})

    def _settings(self, config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in config.items():
            self.ledger.items += 1
            redaction = Redaction()
            made[name] = redaction.settings(as_setting(value, f"{prefix}{name}", self.ledger), name)
            for path in redaction.replaced:
                self.ledger.changed(SECRET, f"{prefix}{path}", "a secret", "***")
            self.ledger.done()
        return made

    def at(self, wall: Any, step: Any, place: str) -> dict[str, Any]:
        """Return ``t`` and ``step`` of a record at *wall*, seconds since the Unix epoch; None is the time before."""
        return {"t": self.timeline.t(wall, place), **step_member(step, place, self.ledger)}

    def values(
        self, wall: Any, step: Any, values: Mapping[str, Any], place: str, *, kind: str = "scalars", **members: Any
    ) -> Iterator[bytes]:
        """Yield the record of *values*, which may be anything, with *members* such as an epoch."""
        t = self.timeline.t(wall, place)
        if self._end is not None:
            self._end["t"] = t
        made = _plain(values) if kind == "scalars" else None
        if made and (step is None or (type(step) is int and 0 <= step <= _LARGEST_EXACT)):
            self.ledger.items += len(made)
            self.ledger.done(len(made))
            self.has_metrics = True
            record: dict[str, Any] = {"kind": kind}
            if "phase" in members:
                record["phase"] = members["phase"]
            record["t"] = t
            if step is not None:
                record["step"] = step
            if "epoch" in members:
                record["epoch"] = members["epoch"]
            record["values"] = made
            yield _encode(record) + b"\n"
        elif values:
            yield from self._sorted({"kind": kind, "t": t, **members}, step, values, place)

    def _sorted(self, record: dict[str, Any], step: Any, values: Mapping[str, Any], place: str) -> Iterator[bytes]:
        """Yield the records of values of any type, as the writer sorts them."""
        ledger, key = self.ledger, _NUMBER_MAPS[record["kind"]]
        members, others, left_out, _ = prepared(record["kind"], {**record, key: values}, is_lenient=False)
        numbers, texts = members.get(key, {}), {**members.get("texts", {}), **others}
        ledger.items += len(numbers) + len(texts) + len(left_out)
        for name, why in left_out:
            value = values.get(name, why)
            ledger.drop(NO_PLACE, f"{place}: {name}", value, name=name)
        at = {} if (number_of_step := step_of(step)) is None else {"step": number_of_step}
        for name in (*numbers, *texts):
            if step is not None and not at:
                ledger.changed(STEP_UNUSABLE, f"{place}: {name}", step)
            number = numbers.get(name)
            if type(number) is int and abs(number) > _LARGEST_EXACT and (kept := _binary64(number)) != number:
                ledger.changed(ROUNDED, f"{place}: {name}", number, kept)
                self._rounded[name] += 1
            ledger.done()
        self.has_metrics = self.has_metrics or bool(numbers)
        if numbers or (texts and key == "values"):
            yield self._line({**members, **at})
        if others:
            yield self._line({"kind": "scalars", "t": record["t"], **at, "values": {}, "texts": others})

    def rows(
        self,
        columns: Mapping[str, Sequence[Any]],
        *,
        walls: Sequence[float] | None = None,
        steps: Sequence[Any] | None = None,
        epoch: Sequence[Any] | None = None,
        phase: Sequence[str] | None = None,
    ) -> bytes | None:
        """Return the lines of rows of numbers by *columns*, each with its *epoch* and *phase* if there are any.

        The values are counted. None, and nothing is counted, if ``values`` would change something in one of the rows.
        """
        names = _names_in_order(tuple(columns))
        if not names:
            return None
        count = len(next(iter(columns.values())))
        values = [made for name in names if (made := _floats(columns[name])) is not None]
        epochs = None if epoch is None else _floats(epoch)
        is_plain = (
            len(values) == len(names)
            and (steps is None or ({int} == set(map(type, steps)) and 0 <= min(steps) <= max(steps) <= _LARGEST_EXACT))
            and (epoch is None or (epochs is not None and min(epochs) >= 0))
            and PHASES.issuperset(phase or ())
        )
        times = self.timeline.times(walls, count) if is_plain else None
        if times is None:
            return None
        present: dict[str, Any] = {"phase": phase, "t": times, "step": steps, "epoch": epochs}
        present = {name: column for name, column in present.items() if column is not None}
        record, metrics = _types(tuple(present), names)
        present["values"] = map(metrics, *values)
        return self.lines(_encode_lines(map(record, *present.values())), count * len(columns), times[-1])

    def lines(self, lines: bytes, count: int, last: float) -> bytes:
        """Return *lines* of ``scalars``, canonical already: *count* values up to the time *last*."""
        self.ledger.carry(count)
        self.timeline.take(last)
        if self._end is not None:
            self._end["t"] = last
        self.has_metrics = True
        return lines

    def histogram(self, at: dict[str, Any], name: str, bins: Bins, place: str) -> Iterator[bytes]:
        """Yield the record of *bins*."""
        edges, counts = (list(map(_binary64, part)) for part in bins)
        yield from self.record({"kind": "histogram", **at, "name": name, "edges": edges, "counts": counts}, place)

    def samples(
        self, wall: Any, step: Any, name: str, rows: Sequence[Mapping[str, Any]], place: str
    ) -> Generator[bytes, None, bool]:
        """Yield a ``sample`` of each new row of the table *name*; return False if its rows are not completions."""
        samples = self._completions.new_in(name, rows, step)
        for sample in samples or ():
            yield from self.record({"kind": "sample", **self.at(wall, step, place), **sample}, place)
        return samples is not None

    def record(self, record: dict[str, Any], place: str) -> Iterator[bytes]:
        """Yield the line of *record*, one item; without ``t`` it has the time before. An invalid one is dropped."""
        yield from self._held()
        self.ledger.items += 1
        if record.get("kind") == "run_end":
            self._end = record
        else:
            yield from self._admitted({"t": self.timeline.last, **record}, place)

    def _held(self) -> Iterator[bytes]:
        end, self._end = self._end, None
        if end is not None:
            yield from self._admitted(end, "run_end")

    def _admitted(self, record: dict[str, Any], place: str) -> Iterator[bytes]:
        kind = str(record.get("kind"))
        try:
            line = self._line(_explained(record))
        except (InvalidEventError, RecordRefusedError) as error:
            self.ledger.drop(INVALID, place, str(error), name=kind)
            return
        self.has_metrics = self.has_metrics or kind in ("step", "eval", *_NUMBER_MAPS)
        self.ledger.done()
        yield line

    def end(self, reason: str, wall: Any = None, **members: Any) -> None:
        """Take that the run has ended; the ``run_end`` comes after all else, and another end replaces it."""
        if self._end is not None:
            self.ledger.drop(SUPERSEDED, "end", self._end["reason"], name="end")
        self.ledger.items += 1
        self._end = {"kind": "run_end", "t": self.timeline.t(wall, "end"), "reason": reason, **members}

    def finish(self, reason: str | None) -> Iterator[bytes]:
        """Yield the note of what was left out, and the end; one with *reason* if the source has none."""
        ledger = self.ledger
        counts = {"left_out": dict(ledger.left_out), "dropped": dict(ledger.dropped)}
        if any(counts.values()):
            lost = [loss for loss in ledger.losses if loss.effect == "dropped"]
            text = "; ".join(f"{loss.count} {loss.cause} ({loss.meaning})" for loss in lost)
            note = {"kind": "note", "t": self.timeline.last, "text": f"left out by the import: {text}", "topic": TOPIC}
            yield self._line(note | {key: each for key, each in counts.items() if each})
        if self._rounded:
            names = "; ".join(f"{shortened(name)} ({count})" for name, count in self._rounded.most_common(_MOST_NAMED))
            text = f"integers beyond 2^53 are rounded to the nearest binary64: {names}"
            yield self._line({"kind": "note", "t": self.timeline.last, "text": text, "topic": "rounded"})
        if self._end is None and reason is None:
            ledger.note("the source does not say how the run ended, so it has no run_end")
            text = "the source does not say how the run ended"
            yield self._line({"kind": "note", "t": self.timeline.last, "text": text, "topic": END_UNKNOWN})
        elif self._end is None:
            yield self._line(_explained({"kind": "run_end", "t": self.timeline.last, "reason": reason}))
        else:
            yield from self._held()

    def _line(self, record: dict[str, Any]) -> bytes:
        line = encode_record(record)
        check_record(line, record["kind"])
        return line + b"\n"


def _explained(record: dict[str, Any]) -> dict[str, Any]:
    """Return *record*; the end of a run that failed says in words what is not known."""
    if record.get("kind") != "run_end" or record.get("reason") != "errored" or "error" in record:
        return record
    return {**record, "error": "the source says that the run failed, and not why"}


def _binary64(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _plain(values: Mapping[str, Any]) -> dict[str, float] | None:
    """Return *values* sorted by name if all are finite numbers that binary64 holds; None for anything else."""
    names = _names_in_order(tuple(values)) if NUMBERS.issuperset(map(type, values.values())) else None
    if names is None:
        return None
    found = [values[name] for name in names]
    made = _floats(found)
    return None if made is None else dict(zip(names, made, strict=True))


def _floats(numbers: Sequence[Any]) -> list[float] | None:
    """Return *numbers* as floats; None if one is not a finite number that binary64 holds."""
    try:
        made = list(map(float, numbers)) if NUMBERS.issuperset(map(type, numbers)) else None
    except OverflowError:
        return None
    # A sum may be infinite without one of them: such rows are only slower.
    return made if made == list(numbers) and isfinite(sum(made)) else None


@lru_cache(maxsize=1 << 10)
def _names_in_order(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return *names* sorted; None if one needs the canonical writer."""
    return None if _ODD.search("".join(names)) else tuple(sorted(names))


@lru_cache(maxsize=64)
def _types(members: tuple[str, ...], names: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the types of a record with *members*, and of its values with *names*."""
    # Fields are written in their order, and have names that Python allows.
    fields = [(f"m{index}", float, msgspec.field(name=name)) for index, name in enumerate(names)]
    metrics = msgspec.defstruct("Metrics", fields, gc=False)
    own = [*((name, Any) for name in members), ("values", metrics)]
    return msgspec.defstruct("Scalars", own, tag_field="kind", tag="scalars", gc=False), metrics


LAST_WALL = 253_402_300_800.0
"""The first second of the year 10000, which RFC 3339 cannot write."""


def is_wall(seconds: Any) -> bool:
    """Return whether *seconds* since the Unix epoch can be written as a date."""
    return is_number(seconds) and 0.0 <= seconds < LAST_WALL


def earliest(walls: Iterable[Any]) -> float | None:
    """Return the earliest of *walls* that is a time; None without one. A program that knows no time writes 0."""
    return min((wall for wall in walls if is_wall(wall)), key=lambda wall: (not wall, wall), default=None)


# Threads that write at once are this far apart; more is another clock.
_JUMP_SECONDS = 1.0
# A year: no run waits so long, but a clock that was not set yet may be off by decades.
_LONGEST_PAUSE_SECONDS = 365 * 86400.0
# Programs that write together, and threads, go back and forth between so many clocks.
_MOST_SHIFTS = 4


class Timeline:
    """The times of one run, in seconds since its start.

    The start is a whole second, so that start plus ``t`` gives back exactly the time that the source had. Where the
    clock went back, or forward by a year or more, what follows is moved by as much, until the clock is there again: the
    time between two values is kept.
    """

    def __init__(self, ledger: Ledger, start: float | None) -> None:
        """Begin in the second of *start*, seconds since the Unix epoch; with None every ``t`` is 0."""
        self._ledger = ledger
        self.start = float(math.floor(start)) if start is not None and is_wall(start) else None
        self.last = 0.0
        """The last ``t``."""
        self._shifts: list[float] = []
        self.is_running = False
        """Whether a time has been taken: what comes after it may be too far from it."""

    def run_start(self, **members: Any) -> dict[str, Any]:
        """Return a ``run_start`` with *members*, and with the start where that is a date: a clock may begin at 0."""
        started_at = {} if not self.start else {"started_at": utc_text(self.start)}
        return {"kind": "run_start", "t": 0.0, **members, **started_at}

    def t(self, wall: Any, place: str) -> float:
        """Return ``t`` at *wall*, seconds since the Unix epoch; another one, with an entry, where the clock jumped.

        None means that the source has no time here; for anything else that is not a time, there is an entry.
        """
        if wall is None or self.start is None:
            return self.last
        if not is_wall(wall):
            self._ledger.changed(TIME_UNUSABLE, place, wall, self.start + self.last)
        elif (t := wall - self.start) >= self.last and not self._is_jump(t):
            self.last = t + 0.0
        else:
            self.last = self._moved(t)
            self._ledger.changed(TIME_JUMPS, place, wall, self.start + self.last)
        self.is_running = True
        return self.last

    def times(self, walls: Sequence[float] | None, count: int) -> list[float] | None:
        """Return ``t`` of each of *count* rows at *walls*; None if ``t`` would change one of them."""
        if walls is None or self.start is None:
            return [self.last] * count
        start = self.start
        times = [wall - start + 0.0 for wall in walls]
        last = times[-1]
        is_near = last - (self.last if self.is_running else times[0]) < _LONGEST_PAUSE_SECONDS
        is_usable = is_near and times[0] >= self.last and last + start < LAST_WALL
        return times if is_usable and all(map(le, times, islice(times, 1, None))) else None

    def take(self, last: float) -> None:
        """Go on from the time *last*."""
        self.last, self.is_running = last, True

    def _is_jump(self, t: float) -> bool:
        """Return whether *t* is so much later than the last time that the clock was set."""
        return self.is_running and t - self.last >= _LONGEST_PAUSE_SECONDS

    def _moved(self, t: float) -> float:
        """Return the time, the last one or later, to which *t* is moved: as others were moved before, if possible."""
        known = [t + shift for shift in self._shifts if t + shift >= self.last and not self._is_jump(t + shift)]
        if known:
            return min(known)
        self._shifts = [*self._shifts, self.last - t][-_MOST_SHIFTS:]
        gap = t - self.last
        if abs(gap) >= _JUMP_SECONDS:
            way = "forward" if gap > 0 else "back"
            self._ledger.note(f"its clock went {way} by {abs(gap):.6g} s: the times after that are moved by as much")
        return self.last


_WORDS = {"info": "info", "warning": "warn", "error": "error"}
"""Their word for each level."""
_LEVELS = {word: level for level, word in _WORDS.items()}


def alert_event(title: str, text: str, word: str) -> dict[str, Any]:
    """Return the members of an ``alert`` but for its time; a level that is not known counts as info."""
    return {
        "kind": "alert",
        "rule": title or "alert",
        "level": _LEVELS.get(word.lower(), "info"),
        "text": text or title,
    }


def level_word(level: object) -> str:
    """Return their word for *level* of an ``alert``, in lower case: ``info``, ``warn`` or ``error``."""
    return _WORDS.get(str(level), "info")
