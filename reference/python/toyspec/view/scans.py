"""Takes in the records of one run: its summary, and a pyramid of each of its curves."""

from __future__ import annotations

from array import array
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from toyspec.format.json_numbers import number
from toyspec.read_reports import Gap
from toyspec.reading.number_blocks import NumberBlock, Rows
from toyspec.reading.rows import Row
from toyspec.runs.curves import Curve
from toyspec.runs.metrics_of import metrics_of
from toyspec.runs.summary import RunSummary
from toyspec.view.pyramids import MOST_BUCKETS, Pyramid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toyspec.reading.attempts import Attempts
    from toyspec.reading.records import Record

    Wanted = Callable[[str], bool]

MOST_METRICS = 1000
MOST_MARKS = 2000
_MOST_NAMES = 100_000
_MAX_STEP = 1 << 63
_MOST_STRETCHES = 20


class Scan:
    """What the curves of a run are made of. Memory does not grow with the run, but with the number of its metrics.

    *attempts* are the resumptions of the whole stream, from a first scan: what they supersede is apart.
    *wanted* chooses metrics by name, and *most* is the number of buckets of each.
    """

    def __init__(
        self, path: str, *, attempts: Attempts | None = None, wanted: Wanted | None = None, most: int = MOST_BUCKETS
    ) -> None:
        self.summary = RunSummary(path)
        if attempts is not None:
            self.summary.attempts = attempts
        self._learns = attempts is None
        self._wanted = wanted
        self._most = most
        self.latest: dict[str, Pyramid] = {}
        """The curve of each metric, as the latest attempt made it."""
        self.abandoned: list[dict[str, Pyramid]] = []
        """What later attempts did again, one stretch for each resumption."""
        self._ends_stretch = True
        self.gaps: list[dict[str, Any]] = []
        """Unreadable lines: the place before them, line, offset and length."""
        self.resumes: list[dict[str, Any]] = []
        """Resumptions: the place that they go on from, and the line."""
        self._beyond: set[int] = set()
        self._place: tuple[float, float, float] = (nan, nan, nan)
        self._first_time: float | None = None

    @property
    def needs_second(self) -> bool:
        """True after a first scan that found resumptions: only another one can tell what they supersede."""
        return self._learns and bool(self.summary.attempts or self.summary.starts_late)

    @property
    def metrics_left_out(self) -> int:
        """Number of metrics beyond those that are kept, counted up to a limit."""
        return len(self._beyond)

    def take(self, items: Iterable[Record | NumberBlock | Gap]) -> None:
        """Add records, blocks of numbers and gaps in their order."""
        for item in items:
            if isinstance(item, Gap):
                self._take_gap(item)
            elif isinstance(item, NumberBlock):
                self._take_block(item)
            else:
                self._take_record(item)

    def _take_gap(self, gap: Gap) -> None:
        if len(self.gaps) < MOST_MARKS:
            place = _named(self._place)
            self.gaps.append(
                {**place, "line": gap.line, "offset": gap.offset, "length": gap.length, "reason": gap.reason}
            )

    def _take_block(self, block: NumberBlock) -> None:
        attempts = self.summary.attempts
        rows = block.rows
        kept = None if self._learns or block.profile != "toy/v1" else attempts.last_step_kept(block.line)
        is_own = (block.phase or attempts.own_phase) == attempts.own_phase
        if (
            kept is not None
            and is_own
            and attempts.own_phase == "train"
            and rows is not None
            and max(rows.steps) > kept
        ):
            self._take_split(block, kept)
            return
        self.summary.take([block], "attempts" if self._learns else "nothing")
        if rows is None or not is_own:
            return
        for name, (steps, values) in block.columns.items():
            curve = self._curve(name)
            if curve is not None:
                is_whole = len(steps) == len(rows.steps)
                places = (rows.steps, rows.times, rows.epochs) if is_whole else _places_of(steps, block)
                curve.add_all(places, values, (block.offset, block.line))
        self._place = (rows.steps[-1], rows.times[-1], nan if rows.epochs is None else rows.epochs[-1])

    def _take_split(self, block: NumberBlock, kept: int) -> None:
        """Take in a block of which a later attempt supersedes the steps after *kept*."""
        assert block.rows is not None
        inside = [at for at, step in enumerate(block.rows.steps) if step <= kept]
        outside = [at for at, step in enumerate(block.rows.steps) if step > kept]
        for name, (steps, values) in block.columns.items():
            places = _places_of(steps, block)
            curve = self._curve(name, self._stretch())
            if curve is not None:
                chosen = [at for at, step in enumerate(steps) if step > kept]
                curve.add_all(_picked(places, chosen), [values[at] for at in chosen], (block.offset, block.line))
        if inside:
            self._take_block(_part(block, inside))
        last = outside[-1]
        self._place = (block.rows.steps[last], block.rows.times[last], nan)

    def _take_record(self, record: Record) -> None:
        summary = self.summary
        if self._learns:
            summary.attempts.learn(record)
        is_abandoned = not self._learns and self._is_abandoned(record)
        if not is_abandoned:
            summary.take([record])
        if record.kind == "run_resume" and record.profile == "toy/v1":
            self._resume(record)
        metrics = _system_metrics(record.value) if record.kind == "system" else metrics_of(record)
        place = self._place_of(record) if metrics else None
        if place is None:
            return
        self._place = place
        if record.kind == "system" and not is_abandoned:
            self._list_system(int(place[0]), metrics)
        where = self._stretch() if is_abandoned else self.latest
        for name, value in metrics.items():
            curve = self._curve(name, where)
            if curve is not None:
                curve.add(
                    place, float(value) if value is not None and isfinite(value) else nan, (record.offset, record.line)
                )

    def _list_system(self, step: int, metrics: dict[str, Any]) -> None:
        """List the metrics of the machine among those of the run: the summary counts those of the training alone."""
        series = self.summary.series
        for name, value in metrics.items():
            if name not in series and len(series) < MOST_METRICS:
                series[name] = Curve()
            if name in series:
                series[name].add(step, float(value) if isfinite(value) else None)

    def _stretch(self) -> dict[str, Pyramid]:
        """Return the curves of the stretch that is abandoned at this point; the last one takes in what is too many."""
        if self._ends_stretch and len(self.abandoned) < _MOST_STRETCHES:
            self.abandoned.append({})
        self._ends_stretch = False
        return self.abandoned[-1]

    def _is_abandoned(self, record: Record) -> bool:
        attempts = self.summary.attempts
        if record.profile != "toy/v1":
            return getattr(record, "attempt", attempts.last_attempt) < attempts.last_attempt
        kept = attempts.last_step_kept(record.line)
        return kept is not None and attempts.is_superseded(record, kept)

    def _resume(self, record: Record) -> None:
        if len(self.resumes) < MOST_MARKS:
            step, time = record.get("from_step"), number(record.get("t"))
            place = (step if type(step) is int else nan, nan if time is None else time, nan)
            self.resumes.append({**_named(place), "line": record.line})
        self._ends_stretch = True

    def _place_of(self, record: Record) -> tuple[float, float, float] | None:
        """Return step, time and epoch of a record with metrics; None if its values are not of the run's own curve."""
        summary, value = self.summary, record.value
        last = summary.last_step or 0
        if isinstance(record, Row):
            time = self._since_first(record.time) if record.time_origin == "unix" else record.time
            return self._placed(last if record.step is None else record.step, time, record.epoch)
        if record.profile == "metrics/v1":
            milliseconds = number(value.get("wall_time_ms"))
            return self._placed(value.get("step"), None if milliseconds is None else milliseconds / 1000, None)
        if record.profile == "kaun/v1":
            return self._placed(
                value.get("step"), self._since_first(number(value.get("wall_time"))), value.get("epoch")
            )
        if record.kind == "step" and not summary.attempts.is_own_step(record):
            return None
        return self._placed(value.get("step", last), number(value.get("t")), value.get("epoch"))

    def _placed(self, step: Any, time: float | None, epoch: Any) -> tuple[float, float, float] | None:
        figure = number(step)
        if figure is None or abs(figure) >= _MAX_STEP or (isinstance(figure, float) and not isfinite(figure)):
            return None
        known = number(epoch)
        seconds = nan if time is None or not isfinite(time) else time
        return float(figure), seconds, nan if known is None else float(known)

    def _since_first(self, time: float | None) -> float | None:
        """Return the seconds since the first of the times of day."""
        if time is None:
            return None
        self._first_time = time if self._first_time is None else self._first_time
        return time - self._first_time

    def _curve(self, name: str, where: dict[str, Pyramid] | None = None) -> Pyramid | None:
        where = self.latest if where is None else where
        curve = where.get(name)
        if curve is not None or (self._wanted is not None and not self._wanted(name)):
            return curve
        if len(where) >= MOST_METRICS:
            if len(self._beyond) < _MOST_NAMES:
                self._beyond.add(hash(name))
            return None
        curve = where[name] = Pyramid(self._most)
        return curve


def _system_metrics(value: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a system event, which are not metrics of the training, under names of their own."""
    extra = value.get("extra")
    members = {**value, **(extra if isinstance(extra, dict) else {})}
    found = {
        name: member for name, member in members.items() if name not in ("t", "step") and number(member) is not None
    }
    return {f"system/{name}": member for name, member in found.items()}


def _named(place: tuple[float, float, float]) -> dict[str, float | None]:
    names = ("step", "time", "epoch")
    return {name: figure if isfinite(figure) else None for name, figure in zip(names, place, strict=True)}


def _places_of(steps: Any, block: NumberBlock) -> Any:
    """Return the places of values at *steps*, some of the rows of *block*."""
    rows = block.rows
    assert rows is not None
    if len(steps) == len(rows.steps):
        return rows.steps, rows.times, rows.epochs
    chosen, at = [], 0
    for step in steps:
        while rows.steps[at] != step:
            at += 1
        chosen.append(at)
        at += 1
    return _picked((rows.steps, rows.times, rows.epochs), chosen)


def _picked(places: Any, chosen: list[int]) -> Any:
    steps, times, epochs = places
    return (
        array("q", [steps[at] for at in chosen]),
        array("d", [times[at] for at in chosen]),
        None if epochs is None else array("d", [epochs[at] for at in chosen]),
    )


def _part(block: NumberBlock, chosen: list[int]) -> NumberBlock:
    """Return the *chosen* rows of *block*."""
    assert block.rows is not None
    steps, times, epochs = _picked(block.rows, chosen)
    kept = set(steps)
    columns = {}
    for name, (at_steps, values) in block.columns.items():
        inside = [at for at, step in enumerate(at_steps) if step in kept]
        columns[name] = (array("q", [at_steps[at] for at in inside]), array("d", [values[at] for at in inside]))
    return NumberBlock(
        profile=block.profile,
        line=block.line,
        offset=block.offset,
        kinds=[("step", len(chosen))],
        phase=block.phase,
        times=(times[0], times[-1]),
        steps=(steps[0], steps[-1]),
        columns=columns,
        rows=Rows(steps, times, epochs),
    )
