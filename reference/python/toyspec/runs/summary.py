"""Summarizes a run from its stream; of a torn or damaged one, everything that can be read."""

from __future__ import annotations

import os
from array import array
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from toyspec.format.json_numbers import number
from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE, stream_name
from toyspec.generated.fields import FIELDS
from toyspec.generated.streams import STREAMS
from toyspec.kaun.scalars import is_smaller_better, scalar_of
from toyspec.reading.attempts import Attempts
from toyspec.reading.manifests import manifest_start, read_manifest
from toyspec.reading.number_blocks import NumberBlock
from toyspec.reading.rows import Row, RowBlock
from toyspec.reading.sealed_files import has_seal
from toyspec.runs.columns import FACTS
from toyspec.runs.curves import Curve
from toyspec.runs.members import flat
from toyspec.runs.metrics_of import LOSS_TAGS, goal_of, loss_among, metrics_of
from toyspec.runs.own_records import own_facts
from toyspec.runs.series import Series, value_in
from toyspec.system_calls import is_locked
from toyspec.writing.clocks import utc_text

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from toyspec.findings import DialectUse, Profile
    from toyspec.read_reports import ReadReport
    from toyspec.reading.records import Record
    from toyspec.runs.extents import Extent
    from toyspec.runs.own_records import OwnFacts

    Taken = Record | NumberBlock | RowBlock

RunState = Literal["complete", "running", "torn", "damaged"]
"""The state of a stream, or running if a writer has it open."""

# Bounds memory if a log has an endless number of names.
_MAX_NAMES = 200
_MAX_WALL = 1e11
_MAX_STEP = 1 << 63
_MEMBERS = ("loss", "grad_norm", "throughput_samples_per_sec")


class RunSummary:
    """The facts about one run that fit on a screen; only ``asked`` grows with it. Each ``Curve`` has *parts*."""

    def __init__(self, path: str, metric: str | None = None, *, parts: int = 32) -> None:
        self._metric, self._parts = metric, parts
        self.asked = Series()
        """The metric that was asked for, at every step in the run's own phase."""
        self.metric_names: set[str] = set()
        """Names of the metrics that the steps have, where one was asked for."""
        self.path = path
        """Path of the stream."""
        self.attempts = Attempts()
        self.start: dict[str, Any] = {}
        """The first run_start; the manifest of a kaun run; empty where there is none."""
        self.end: dict[str, Any] | None = None
        """The last run_end; None where there is none."""
        self.kinds: dict[str, int] = {}
        """Number of records by kind; metrics entries count as entry."""
        self.series: dict[str, Curve] = {}
        """Curve of every metric: see ``metrics_of``."""
        self.goals: dict[str, str] = {}
        """The goal of each metric that is defined, ``min``, ``max`` or ``none``; a name may end in ``*``."""
        self.dialect: DialectUse | None = None
        """How the log of another program is read; None for a stream of toyspec."""
        self._time_origin: str | None = None
        self._loss_name: str | None = None
        self.starts_late = False
        """True when a step came before the first run_start, which decides on the run's own phase."""
        self.minimized: dict[str, bool] = {}
        """The last ``minimize`` of each tag of a kaun run that has one."""
        self.evals: dict[str, dict[str, Any]] = {}
        """The last eval event of each name."""
        self.first_step: int | None = None
        """Number of the first step in the run's own phase."""
        self.last_step: int | None = None
        """Number of the last step in the run's own phase."""
        self.first_time: float | None = None
        self.last_time: float | None = None
        """Times of the first and the last record that have one, in seconds."""
        self.profile: Profile | None = "toy/v1"
        self.extent: Extent
        self.report: ReadReport
        """The account of the reading; there is none where only the ends of the stream were read."""

    def _repr_html_(self) -> str:
        from toyspec.runs.run_html import run_html

        return run_html(self)

    @property
    def directory(self) -> str:
        """Path of the run: the directory of its stream, or the stream where that has a name of its own."""
        named = STREAMS.get(self.profile or "", {}).get("file")
        is_bundle = stream_name(os.path.basename(self.path)) in (EVENTS_FILE, METRICS_FILE, named)
        return os.path.dirname(self.path) or "." if is_bundle else self.path

    sealed: Any = property(lambda self: has_seal(self.directory), doc="True if the run has a seal.")
    reason: Any = property(lambda self: self.end.get("reason") if self.end else None, doc="How the run ended, or None.")

    @cached_property
    def is_running(self) -> bool:
        """True while a writer holds the stream; asked of the system once."""
        return self.extent.state == "torn" and is_locked(self.path)

    @property
    def state(self) -> RunState:
        """State of the stream; ``running`` for a torn one that a writer holds."""
        return "running" if self.is_running else self.extent.state

    def smaller_is_better(self, name: str) -> bool | None:
        """Return whether smaller values of the series *name* are better; None if that is unknown."""
        if self.profile == "kaun/v1":
            return is_smaller_better(name, self.minimized.get(name, UNSET))
        goal = goal_of(name, self.goals)
        return None if goal in (None, "none") else goal == "min"

    def best(self, name: str) -> tuple[int, float] | None:
        """Return the step and the value at which the metric *name* was best; None where it has no goal or no value."""
        curve, smaller = self.series.get(name), self.smaller_is_better(name)
        if curve is None or smaller is None:
            return None
        return curve.lowest if smaller else curve.highest

    def row(self) -> dict[str, Any]:
        """Return the facts as one flat row: what every run has, model, config, and the last value of each series."""
        found: dict[str, Any] = {name: fact(self) for name, fact in FACTS.items()}
        for part in ("model", "config"):
            if isinstance(self.start.get(part), dict):
                found |= {f"{part}.{name}": value for name, value in flat(self.start[part])}
        found |= {f"last.{name}": curve.last[1] for name, curve in self.series.items() if curve.last is not None}
        best = {name: self.best(name) for name in self.series}
        return found | {f"best.{name}": point[1] for name, point in best.items() if point is not None}

    def cell(self, column: str) -> Any:
        """Return the value of *column* in the row, None if it has none. What every run has costs no row."""
        fact = FACTS.get(column)
        return self.row().get(column) if fact is None else fact(self)

    @property
    def name(self) -> str:
        """Last part of the path of the run; where another program names its runs in their logs, that name."""
        named = self.start.get("name") if self.dialect is not None else None
        return named if isinstance(named, str) else os.path.basename(os.path.abspath(self.directory))

    @property
    def loss(self) -> Curve | None:
        """Curve of the training loss; None where the run has none."""
        if self.profile == "metrics/v1" or "step" in self.kinds:
            return self.series.get("loss")
        return next((self.series[tag] for tag in LOSS_TAGS if tag in self.series), None)

    @property
    def final_loss(self) -> float | None:
        """Loss at the end, by run_end, else by the last step; None where it is unknown or was not finite."""
        if self.end is not None and self._end_says_loss:
            return number(self.end["final_loss"])
        loss = self.loss
        return loss.last[1] if loss is not None and loss.last is not None else None

    @property
    def says_final_loss(self) -> bool:
        """True when the run says its loss at the end, also where that was not finite."""
        return self._end_says_loss or self.loss is not None

    @property
    def _end_says_loss(self) -> bool:
        found = "" if self.end is None else self.end.get("final_loss", "")
        return found is None or number(found) is not None

    @property
    def seconds(self) -> float | None:
        """Time from the start of the run to its last record; None where no record has one, or all steps are at 0."""
        is_timeless = not self.last_time and self.first_step != self.last_step
        if self.first_time is None or self.last_time is None or is_timeless:
            return None
        begin = self.first_time if self.profile == "kaun/v1" or self._time_origin == "unix" else 0.0
        return self.last_time - begin

    @property
    def started_at(self) -> str | None:
        """Wall-clock time of the start as the run says it, RFC 3339; None where it does not."""
        started = self.start.get("started_at")
        if isinstance(started, str):
            return started
        created = self.first_time if self._time_origin == "unix" else number(self.start.get("created_at"))
        return utc_text(created) if created and 0 <= created < _MAX_WALL else None

    def describe(self, profile: Profile | None, extent: Extent) -> None:
        """Take in what is known of the stream beyond its records; the manifest beside it, where its format has one."""
        self.profile, self.extent = profile, extent
        if self.dialect is not None:
            self.start = manifest_start(os.path.dirname(self.path), self.dialect.name) | self.start
        if profile == "kaun/v1":
            self.start = read_manifest(os.path.dirname(self.path)) or {}

    def take(self, records: Iterable[Taken], learn: Literal["attempts", "nothing"] = "nothing") -> None:
        """Add *records* in order, blocks of numbers among them."""
        for record in records:
            if isinstance(record, NumberBlock | RowBlock):
                self._take_block(record) if isinstance(record, NumberBlock) else self._take_rows(record)
                continue
            if learn == "attempts":
                self.attempts.learn(record)
            kind = "entry" if record.profile == "metrics/v1" else record.kind or "without kind"
            if isinstance(record, Row):
                self._take_row(record)
            elif kind in self.kinds or len(self.kinds) < _MAX_NAMES:
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
            said = own_facts(record, self.last_step)
            if self._metric is not None:
                self._keep(record, said)
            self._take_record(record) if said is None else self._take_own(said)

    def _take_record(self, record: Record) -> None:
        if record.profile == "toy/v1":
            self._take_toy(record)
        elif record.profile == "metrics/v1":
            self._take_entry(record.value)
        elif record.profile == "kaun/v1":
            self._take_scalar(record)

    def _take_block(self, block: NumberBlock) -> None:
        """Add many records at once."""
        for kind, number_of in block.kinds:
            if kind in self.kinds or len(self.kinds) < _MAX_NAMES:
                self.kinds[kind] = self.kinds.get(kind, 0) + number_of
        for time in block.times or ():
            self._take_time(time)
        own = self.attempts.own_phase
        if block.steps is None or (block.phase or own) != own:
            return
        first, self.last_step = block.steps
        self.first_step = first if self.first_step is None else self.first_step
        self._take_columns(block.columns)
        self.minimized.update(block.minimized)
        for names in block.groups if self._metric is not None else ():
            self.asked.add_all(*block.columns.get(self._name_among(names), ((), ())))

    def _take_columns(self, columns: Mapping[str, tuple[Sequence[int], array[float]]]) -> None:
        for name, (steps, values) in columns.items():
            if (curve := self._curve(name)) is not None:
                curve.add_all(steps, values)
        if self._metric is not None and len(self.metric_names) < _MAX_NAMES:
            self.metric_names.update(columns)

    def _curve(self, name: str) -> Curve | None:
        curve = self.series.get(name)
        # The loss of a run that logs hundreds of other metrics before it is not left out.
        if curve is None and (len(self.series) < _MAX_NAMES or name in LOSS_TAGS):
            curve = self.series[name] = Curve(self._parts)
        return curve

    def _take_rows(self, block: RowBlock) -> None:
        """Add many rows at once."""
        said = block.said
        self._time_origin = self._time_origin or said.time_origin
        if said.times is not None and said.time_origin == self._time_origin:
            self._take_time(said.times[0])
            self._take_time(said.times[-1])
        columns = {name: array("d", values) for name, values in said.metrics.items()}
        steps = [self.last_step or 0] * len(block.table.lines) if said.steps is None else said.steps
        self.first_step = steps[0] if self.first_step is None else self.first_step
        # An evaluation may have an earlier step, or count epochs.
        self.last_step = max(steps) if self.last_step is None else max(self.last_step, *steps)
        self._take_columns({name: (steps, each) for name, each in columns.items()})
        name = None if said.steps is None or self._metric is None else self._name_among(columns)
        if name in columns:
            self.asked.add_all(steps, columns[name])

    def _name_among(self, names: Container[str]) -> str:
        """Return the name of the metric that was asked for; the loss may have another among *names*."""
        if self._metric not in (None, "loss"):
            return self._metric
        if "step" not in self.kinds:
            self._loss_name = self._loss_name or loss_among(names)
        elif self._loss_name is not None:
            # The loss of a run with steps is theirs, whatever was logged before the first.
            self._loss_name = None
            self.asked = Series()
        return self._loss_name or "loss"

    def _keep(self, record: Record, said: OwnFacts | None) -> None:
        placed = record if isinstance(record, Row) else said
        step = record.get("step", self.last_step) if placed is None else placed.step
        is_other = record.kind == "step" and not self.attempts.is_own_step(record)
        if is_other or type(step) is not int or abs(step) >= _MAX_STEP:
            return
        if len(self.metric_names) < _MAX_NAMES:
            self.metric_names.update(metrics_of(record))
        is_there, value = value_in(record, self._name_among(metrics_of(record)))
        if is_there:
            self.asked.add(step, value)

    def _take_toy(self, record: Record) -> None:
        value = record.value
        if record.kind in FIELDS["toy/v1"]:
            self._take_time(number(value.get("t")))
        if record.kind == "step":
            if self.attempts.is_own_step(record):
                self._take_step(value.get("step"), metrics_of(record))
        elif record.kind == "run_start":
            self.starts_late = self.starts_late or (not self.start and "step" in self.kinds)
            self.start = self.start or value
        elif record.kind == "run_end":
            self.end = value
        elif record.kind == "scalars":
            self._take_scalars(value.get("step"), metrics_of(record))
        elif record.kind in ("eval", "define"):
            self._take_named(record, value.get("name"))

    def _take_named(self, record: Record, name: Any) -> None:
        """Take in an evaluation, or what a metric means."""
        if not isinstance(name, str):
            return
        if record.kind == "eval":
            if name in self.evals or len(self.evals) < _MAX_NAMES:
                self.evals[name] = record.value
            self._take_metrics(record.get("step", self.last_step or 0), metrics_of(record))
        elif isinstance(record.get("goal"), str) and len(self.goals) < _MAX_NAMES:
            self.goals[name] = record["goal"]

    def _take_entry(self, value: dict[str, Any]) -> None:
        milliseconds = number(value.get("wall_time_ms"))
        self._take_time(None if milliseconds is None else milliseconds / 1000)
        extra = value.get("extra")
        metrics = {name: value[name] for name in _MEMBERS if name in value}
        self._take_step(value.get("step"), metrics | (extra if isinstance(extra, dict) else {}))

    def _take_scalars(self, step: Any, metrics: dict[str, Any]) -> None:
        """Take in values at any time; in a run without step events their steps are those of the run."""
        if step is None or "step" in self.kinds:
            self._take_metrics(self.last_step or 0 if step is None else step, metrics)
        else:
            self._take_step_of_any_order(step, metrics)

    def _take_row(self, row: Row) -> None:
        self._time_origin = self._time_origin or row.time_origin
        self._take_time(row.time if row.time_origin == self._time_origin else None)
        if row.config or row.run:
            self.start = row.start | self.start
        self.end = self.end if row.end is None else {"reason": row.end}
        self.goals |= [row.goal] if row.goal is not None and len(self.goals) < _MAX_NAMES else []
        if row.step is not None or row.values:
            self._take_step_of_any_order(row.step if row.step is not None else self.last_step or 0, row.values)

    def _take_own(self, said: OwnFacts) -> None:
        self.goals = said.goals
        self._time_origin = self._time_origin or said.origin
        self._take_time(said.time)
        self.start = self.start or said.start
        self.end = said.end or self.end
        if said.step is not None:
            self._take_step_of_any_order(said.step, said.metrics)

    def _take_step_of_any_order(self, step: Any, metrics: dict[str, Any]) -> None:
        highest = self.last_step
        self._take_step(step, metrics)
        if highest is not None and self.last_step is not None:
            # An evaluation may have an earlier step, or count epochs.
            self.last_step = max(highest, self.last_step)

    def _take_scalar(self, record: Record) -> None:
        self._take_time(number(record.get("wall_time")))
        try:
            scalar = scalar_of(record.raw, record.value)
        except ValueError:
            return
        if scalar.minimize is not UNSET:
            self.minimized[scalar.tag] = scalar.minimize
        self._take_step(scalar.step, {scalar.tag: scalar.value})

    def _take_step(self, step: Any, metrics: dict[str, Any]) -> None:
        if type(step) is int and abs(step) < _MAX_STEP:
            self.first_step = step if self.first_step is None else self.first_step
            self.last_step = step
            self._take_metrics(step, metrics)

    def _take_metrics(self, step: Any, metrics: dict[str, Any]) -> None:
        if type(step) is not int or abs(step) >= _MAX_STEP:
            return
        for name, value in metrics.items():
            if (value is None or number(value) is not None) and (curve := self._curve(name)) is not None:
                curve.add(step, None if value is None or not isfinite(value) else float(value))

    def _take_time(self, seconds: float | None) -> None:
        if seconds is not None:
            self.first_time = seconds if self.first_time is None else self.first_time
            self.last_time = seconds
