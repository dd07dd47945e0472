"""What differs between two runs beside their metrics, before a step: in the order of time, the start first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.format.numbers import number
from toyspec.core.runs.run import open_run
from toyspec.core.runs.run_facts import as_scalar, cut, differing, flat
from toyspec.expect.measurements import is_seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.reading.records import Record

    _Events = dict[tuple[str, float, str], tuple[tuple[Any, ...], int]]

# The members of run_start that may be a reason, the likeliest first, and what each is about.
_OF_START = {
    "config": "setting", "model": "setting", "franken": "setting", "franken_moe": "setting", "dfa": "setting",
    "data": "data",
    "phase": "start", "step": "start", "parent": "start", "world_size": "ranks", "git": "code", "packages": "version",
    "argv": "command", "backend": "machine", "host": "machine",
}  # fmt: skip
_ORDER = ("setting", "seed", "data", "start", "ranks", "code", "version", "command", "machine")
# Members of records that frame them, or differ in every run.
_FRAMING = frozenset(["kind", "phase", "t", "step", "resumed_at", "from_step"])
_EVENTS = {"run_resume": "resumption", "run_config": "setting", "alert": "alert", "note": "note"}


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Something that differs between two runs before they part."""

    what: str
    """What it is about: setting, seed, data, ranks, code, version and the like."""
    name: str
    a: Any
    """Its value in the first run; None if it has none."""
    b: Any
    step: int | float | None = None
    """The step at which it happened; None for the start of the runs."""
    line_a: int | None = None
    line_b: int | None = None


class Circumstances:
    """What a log records beside its metrics; take its records in order."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        """The flat members of the first record."""
        self.line: int | None = None
        """Its line."""
        self.phase: str | None = None
        """The phase of values whose record names none."""
        self.events: _Events = {}
        """What happened later by what, step and name: the values, and the line of the first."""
        self.damaged_bytes = 0

    def take(self, record: Record, step: float) -> None:
        """Take in the next record, which is at *step*."""
        if self.line is None and record.profile == "toy/v1" and record.kind == "run_start":
            self._begin(record.value, record.line)
            self.phase = record.phase or "train"
        what = _EVENTS.get(record.kind or "") if record.profile == "toy/v1" else None
        if what is None or record.get("topic") == "left-out":
            return
        place = (number(record.get("from_step")) or 0 if record.kind == "run_resume" else step, record.line)
        members = {key: value for key, value in record.value.items() if key not in _FRAMING}
        if what in ("alert", "note"):
            self._happened(what, str(members.get("rule") or members.get("topic") or what), _text(members), *place)
            return
        config = members.pop("config", None)
        if what == "resumption":
            self._happened(what, f"from step {place[0]}", _text(members) or "yes", *place)
        for name, value in flat(config) if isinstance(config, dict) else ():
            self._happened("setting", name, as_scalar(value), *place)

    def finish(self, stream: str, choice: DialectChoice, damaged_bytes: int) -> None:
        """Take in that the log, *stream*, ends; of the log of another program, the settings are read."""
        self.damaged_bytes = damaged_bytes
        if self.line is None:
            self._begin(open_run(stream, dialect=choice).start, None)

    def _happened(self, what: str, name: str, value: Any, step: float, line: int) -> None:
        values, first = self.events.get((what, step, name), ((), line))
        self.events[what, step, name] = (*values, value), first

    def _begin(self, start: dict[str, Any], line: int | None) -> None:
        self.start = {
            name: as_scalar(value) for name, value in flat({key: start[key] for key in _OF_START if key in start})
        }
        self.line = line


def reasons_for(a: Circumstances, b: Circumstances, step: float) -> list[Reason]:
    """Return what differs between two runs until *step*, where they part."""
    found = sorted(_of_start(a, b), key=lambda each: _ORDER.index(each.what))
    found += sorted(_of_events(a.events, b.events, step), key=lambda each: each.step or 0)
    if a.damaged_bytes or b.damaged_bytes:
        found.append(Reason(what="damage", name="bytes that cannot be read", a=a.damaged_bytes, b=b.damaged_bytes))
    return found


def _of_start(a: Circumstances, b: Circumstances) -> Iterator[Reason]:
    for name in [name for name in dict.fromkeys([*a.start, *b.start]) if name in differing([a.start, b.start])]:
        if a.start.get(name) is None and b.start.get(name) is None:
            # One has it as null.
            continue
        top, _, rest = name.partition(".")
        what = _OF_START[top]
        if what == "setting" and is_seed(name):
            what = "seed"
        shown = rest if top in ("config", "packages") and rest else name
        yield Reason(what=what, name=shown, a=a.start.get(name), b=b.start.get(name), line_a=a.line, line_b=b.line)


def _of_events(a: _Events, b: _Events, until: float) -> Iterator[Reason]:
    for what, step, name in dict.fromkeys([*a, *b]):
        key = (what, step, name)
        (left, line_a), (right, line_b) = a.get(key, ((), None)), b.get(key, ((), None))
        if left != right and step <= until:
            values = [each[0] if len(each) == 1 else "; ".join(map(str, each)) or None for each in (left, right)]
            yield Reason(what=what, name=name, a=values[0], b=values[1], step=step, line_a=line_a, line_b=line_b)


def _text(members: dict[str, Any]) -> str:
    """Return the text of a record, else its members."""
    text = members.get("text") or members.get("reason")
    return (
        cut(text) if isinstance(text, str) else ", ".join(f"{key} {as_scalar(each)}" for key, each in members.items())
    )
