"""Summarizes a run from its stream, or from its ends; of a torn or damaged one, everything that can be read."""

from __future__ import annotations

import os
import re
from array import array
from contextlib import suppress
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeGuard

from toyspec.core.engine import native
from toyspec.core.errors import StreamError
from toyspec.core.files import open_file
from toyspec.core.format.numbers import finite_number, number
from toyspec.core.format.profiles import closing_kind
from toyspec.core.format.record_mapping import mapping_of
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.generated.runs import LOSS_NAMES
from toyspec.core.generated.streams import STREAMS
from toyspec.core.kaun.scalars import is_smaller_better
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.annotations import NONE, read_annotations
from toyspec.core.reading.attempts import Attempts, Placing, world_size_of
from toyspec.core.reading.log_detection import HEAD_BYTES, DialectChoice, manifest_start, read_manifest
from toyspec.core.reading.reader import is_other_document, read, unknown_format
from toyspec.core.reading.records import Record, RecordFeed, Row, RowBlock, count_missing, nothing_missing
from toyspec.core.reading.run_files import earlier_logs, run_of
from toyspec.core.reading.sealed_files import has_seal
from toyspec.core.reading.step_blocks import StepBlock, latest
from toyspec.core.reading.stream_files import locate_stream, stream_size, unpacked_head
from toyspec.core.runs.curves import Curve, Extremes, TagCurve
from toyspec.core.runs.run_facts import (
    MetricFacts,
    RunFacts,
    defined,
    goal_of,
    loss_among,
    planned_of,
    progress_of,
    remaining_of,
    settings_of,
    unended,
)
from toyspec.core.runs.stream_ends import WHOLE_BYTES, ends_at, is_end_unknown, records_among, states_of_other_ranks
from toyspec.core.system_calls import is_locked
from toyspec.core.writing.clocks import utc_text

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import toyspec_engine

    from toyspec.core.findings import DialectUse, Ended, Profile, ReadReport, State
    from toyspec.core.runs.discovery import Stream
    from toyspec.core.runs.run_facts import RankState

    Taken = Record | StepBlock | RowBlock

    Watch = Callable[[Iterable[Taken], int], Iterable[Taken]]


MOST_NAMES = 100_000
"""Number of metrics, kinds, evaluations and goals that are kept, each; metrics that are left out are counted."""

_MOST_COUNTED = 1_000_000
_MAX_WALL = 1e11


# Kinds of toy/v1 that say nothing but their time and metrics: most records of a stream.
_NUMBERS_ONLY = frozenset(["step", "scalars", "system", "tap", "grad", "drift"])


class RunSummary:
    """The facts about one run that fit on a screen. Each ``Curve`` has *parts*."""

    found: Stream | None = None
    """What a search has found of the stream and beside it, so that it is not looked for again."""
    knows_metrics = True
    """False where only the ends of the stream were taken in, which have not every value."""
    choice: DialectChoice | None = None
    """What the stream was read by, where that was chosen."""
    is_settled = True
    """False where only the ends of a long stream were read, whose settings may have been changed between them."""

    def __init__(self, path: str, *, attempts: Attempts | None = None, parts: int = 32) -> None:
        self._parts, self._learns = parts, attempts is None
        self.path = path
        """Path of the stream."""
        self.attempts = Attempts() if attempts is None else attempts
        self.placing = Placing(self.attempts)
        self.start: dict[str, Any] = {}
        """The first run_start; the manifest of a kaun run; empty where there is none."""
        self.end: dict[str, Any] | None = None
        """The last run_end; None where there is none, and where the run has gone on after it."""
        self.world_size: int | None = None
        """Number of processes of the latest attempt; None where the run does not say it."""
        self.kinds: dict[str, int] = {}
        """Number of records by kind; metrics entries count as entry."""
        self.series: dict[str, Curve] = {}
        """Curve of every metric: by name: those of ``Record.values``."""
        self.step_names: dict[str, str] = {}
        """The metric over which a metric is drawn, as the run defines it; ``*`` at the end of a name stands for any."""
        self.goals: dict[str, str] = {}
        """The goal of each metric that is defined, ``min``, ``max`` or ``none``; a name may end in ``*``."""
        self.dialect: DialectUse | None = None
        """How the log of another program is read; None for a stream of toyspec."""
        self._time_origin: str | None = None
        self._step_loss: tuple[float | None] | None = None
        """Loss of the last step of toy/v1 that has one, None where it was not finite."""
        self._beyond: set[int] = set()
        self.evals: dict[str, dict[str, Any]] = {}
        """The last eval event of each name."""
        self.first_time: float | None = None
        self.last_time: float | None = None
        """Times of the first and the last record that have one, in seconds."""
        self.profile: Profile | None = "toy/v1"
        self.state: State
        """The state of the stream."""
        self.records: int | None
        """Number of records; None where not all were read: damage between the ends would not have been seen."""
        self.size: int
        """Size of the stream in bytes."""
        self.report: ReadReport
        """The account of the reading; there is none where only the ends of the stream were read."""

    @property
    def first_step(self) -> int | None:
        """Number of the first step in the run's own phase."""
        return self.placing.first

    @property
    def last_step(self) -> int | None:
        """Number of the last step in the run's own phase."""
        return self.placing.last

    @property
    def needs_second(self) -> bool:
        """True after a first pass that found resumptions, or the run's own phase late: another one has to follow."""
        return bool(self.attempts) or self.placing.starts_late

    @property
    def metrics_left_out(self) -> int:
        """Number of metrics beyond the first ``MOST_NAMES``, which have no curve; counted up to a million."""
        return len(self._beyond)

    @property
    def directory(self) -> str:
        """Path of the run: the directory of its stream, or the stream where that has a name of its own."""
        return run_of(self.path, STREAMS.get(self.profile or "", {}).get("file")) or "."

    @cached_property
    def ended(self) -> Ended:
        """Whether the run says that it ended; unknown where its format has no end, or the log has that fact."""
        if self.end is not None:
            return "yes"
        if self.dialect is not None:
            return self.dialect.ended
        is_unknown = closing_kind(self.profile) is None or (self.state == "torn" and is_end_unknown(self.path))
        return "unknown" if is_unknown else "no"

    def smaller_is_better(self, name: str) -> bool | None:
        """Return whether smaller values of the series *name* are better; None if that is unknown."""
        if self.profile == "kaun/v1":
            stated = self.goals.get(name)
            return is_smaller_better(name, None if stated is None else stated == "min")
        goal = goal_of(name, self.goals)
        return None if goal in (None, "none") else goal == "min"

    def best(self, name: str) -> tuple[int, float] | None:
        """Return the step and the value at which the metric *name* was best; None where it has no goal or no value."""
        curve, smaller = self.series.get(name), self.smaller_is_better(name)
        if curve is None or smaller is None:
            return None
        return curve.lowest if smaller else curve.highest

    @property
    def loss_name(self) -> str | None:
        """Name of the metric that is the training loss; None where the run has none."""
        if self.profile == "metrics/v1" or "step" in self.kinds:
            return "loss" if "loss" in self.series else None
        return loss_among(self.series)

    @property
    def loss(self) -> Curve | None:
        """Curve of the training loss; None where the run has none."""
        name = self.loss_name
        return None if name is None else self.series[name]

    @cached_property
    def missing(self) -> dict[str, Counter[str]]:
        """What the log lacks by its own notes: values ``left_out`` by name, and records ``dropped`` by kind."""
        return nothing_missing()

    @cached_property
    def facts(self) -> RunFacts:
        """What the run comes to."""
        directory, end = self.directory, self.end or {}
        found, is_running = self.found, self.state == "torn" and is_locked(self.path)
        if is_running:
            self.settle()
        processes = self._processes()
        start = self.start  # with the settings that were searched for
        named = _text(start.get("name"))
        run = named if self.dialect is not None and named is not None else os.path.basename(os.path.abspath(directory))
        said = read_annotations(self.path) if found is None or found.may_be_annotated else NONE
        own = _descriptions(start, named or run)
        now = said.over(own)
        # What was changed between the ends is searched for where it is asked for.
        settings = settings_of(start) if self.is_settled else {}
        planned = planned_of(settings)
        seconds, steps = self._seconds(), (self.first_step, self.last_step)
        loss, has_loss = self._final_loss()
        return RunFacts(
            run=run, path=directory, run_id=_text(start.get("run_id")),
            **{"starred": False, "hidden": False} | now,
            profile=self.profile or (self.dialect.name if self.dialect else None),
            state="running" if is_running else self.state, ended=self.ended,
            reason=_text(end.get("reason")), error=_text(end.get("error")) if self.ended == "yes" else None,
            sealed=has_seal(directory) if found is None or found.is_sealed is None else found.is_sealed,
            first_step=steps[0], last_step=steps[1],
            progress=progress_of(steps[1], planned),
            remaining=None if self.ended == "yes" else remaining_of(seconds, steps, planned),
            final_loss=loss, loss_not_finite=has_loss and loss is None,
            seconds=seconds, started_at=self._started_at(start), records=self.records, bytes=self.size,
            stream=self.path, read="ends" if self.records is None else "whole",
            earlier_logs=len(earlier_logs(self.path)), superseded_steps=self.attempts.superseded[0],
            annotated=said.count > 0,
            said={key: value for key, value in own.items() if now[key] != value},
            dialect=self.dialect, **processes,
            settings=settings if self.is_settled else None,
            metrics={name: self._metric_facts(name) for name in self.series} if self.knows_metrics else None,
            metrics_left_out=self.metrics_left_out,
        )  # fmt: skip

    def settle(self) -> None:
        """Search the middle of a long stream for what changes its settings."""
        if not self.is_settled:
            self.is_settled = True
            for record in _changes(self.path):
                self._take_changes(record)
            self.__dict__.pop("facts", None)

    def _take_changes(self, record: Record) -> None:
        self.start = start_after(self.start, record)
        self.world_size = world_size_of(record) or self.world_size

    @cached_property
    def other_ranks(self) -> list[RankState]:
        """The states of the logs of the other ranks of the run."""
        return states_of_other_ranks(self.path, self.found)

    def _processes(self) -> dict[str, Any]:
        """Return the number of processes, and which of the other ranks are not whole."""
        broken = unended(self.other_ranks, None)
        if broken:
            # Of a long run, its size is searched for.
            self.settle()
        size = self.world_size
        return {"world_size": size, "unended_ranks": tuple(unended(broken, size))}

    def _metric_facts(self, name: str) -> MetricFacts:
        curve, smaller = self.series[name], self.smaller_is_better(name)
        best_step, best = self.best(name) or (None, None)
        last_step, last = curve.last or (None, None)
        step_name = defined(name, self.step_names)
        return MetricFacts(
            count=curve.count, nan=curve.not_finite,
            first=curve.first[1] if curve.first else None,
            last=curve.last_finite, last_step=last_step,
            last_not_finite=curve.last is not None and last is None, constant=curve.is_constant,
            best=best, best_step=best_step,
            goal=None if smaller is None else "min" if smaller else "max",
            step_name=None if step_name == name else step_name,
        )  # fmt: skip

    def _final_loss(self) -> tuple[float | None, bool]:
        """Return the loss at the end, by run_end, else by the last step, and whether there is one, finite or not.

        A loss that was logged beside the steps, as for steps that a program repeats, is not that of a step.
        """
        said: Any = "" if self.end is None else self.end.get("final_loss", "")
        # Null stands for one that was not finite.
        if said is None or number(said) is not None:
            return finite_number(said), True
        loss = self.loss
        if self._step_loss is not None:
            return self._step_loss[0], True
        return loss.last[1] if loss is not None and loss.last is not None else None, loss is not None

    def _seconds(self) -> float | None:
        """Return the time from the start to the last record; None where no record has one, or all steps are at 0."""
        is_timeless = not self.last_time and self.first_step != self.last_step
        if self.first_time is None or self.last_time is None or is_timeless:
            return None
        return finite_number(self.last_time - (self.first_time if self._time_origin == "unix" else 0.0))

    def _started_at(self, start: Mapping[str, Any]) -> str | None:
        started = start.get("started_at")
        if isinstance(started, str):
            return started
        is_clock = self._time_origin == "unix" and self.profile != "kaun/v1"
        created = self.first_time if is_clock else number(start.get("created_at"))
        return utc_text(created) if created and 0 <= created < _MAX_WALL else None

    def describe(self, profile: Profile | None, state: State, records: int | None, size: int) -> None:
        """Take in what is known of the stream beyond its records; the manifest beside it, where its format has one."""
        self.profile, self.state, self.records, self.size = profile, state, records, size
        for known in ("ended", "facts", "other_ranks"):
            self.__dict__.pop(known, None)
        for name, goal in mapping_of(profile).goals.items():
            _keep(self.goals, name, goal)
        if self.dialect is not None:
            self.start = manifest_start(os.path.dirname(self.path), self.dialect.name) | self.start
        if profile == "kaun/v1":
            self.start = read_manifest(os.path.dirname(self.path)) or {}

    def take(self, records: Iterable[Taken]) -> None:
        """Add *records* in order, blocks of numbers among them; a summary without known attempts learns them."""
        for record in records:
            if isinstance(record, Record):
                if self._learns:
                    self.attempts.learn(record)
                self._take_record(record)
            else:
                self._take_block(record) if isinstance(record, StepBlock) else self._take_rows(record)

    def forget_last(self) -> None:
        """Forget the last step and the values so far, after which comes what is not read."""
        self.placing.last = self._step_loss = None
        self.series.clear()

    def take_ends(self, found: toyspec_engine.EndsFields) -> None:
        """Take in what the compiled engine has *found* in a short stream, all that lists have of it."""
        profile, state, count, size, start, end, steps, times, loss = found
        if start is not None:
            record = Record(start, 1, 0, profile, "run_start")
            self.start, self.world_size = record.value, world_size_of(record)
        self.end = None if end is None else Record(end, count, size, profile, "run_end").value
        self.placing.first, self.placing.last = steps
        self.first_time, self.last_time = times
        self._time_origin = mapping_of(profile).origin_of(times[0])
        self._step_loss = (finite_number(loss),)
        self.describe(profile, state, count, size)

    def _take_record(self, record: Record) -> None:
        kind, profile = record.kind, record.profile
        if not isinstance(record, Row):
            self._count("entry" if profile == "metrics/v1" else kind or "without kind", 1)
        step = self.placing.take(record)
        if self.placing.is_step or (record.is_known and record.counts):
            self._take_time(record.time, record.time_origin)
        if (profile != "toy/v1" or kind not in _NUMBERS_ONLY) and profile != "metrics/v1":
            self._take_description(record)
        # Values of a record without a step of its own are at the last step.
        if self.placing.is_step is not False:
            self._take_values(record, step)

    def _take_description(self, record: Record) -> None:
        """Take in what *record* says beside its time and its metrics."""
        if (start := record.start) is not None:
            if isinstance(record, Row):
                # The records of another program's log say it in pieces.
                self.start = start | self.start
            elif not self.start.keys() - {"config"}:
                # A record before it, in a log whose first lines are lost, has settings alone.
                self.start = _with_settings(start, self.start.get("config"))
        self._take_changes(record)
        self.end = record.end or (None if record.goes_on else self.end)
        for name, goal in record.goal.items():
            _keep(self.goals, name, goal)
        if record.kind == "define" and record.profile == "toy/v1":
            name, step_name = record.get("name"), record.get("step_name")
            if isinstance(name, str) and isinstance(step_name, str):
                _keep(self.step_names, name, step_name)
        if record.kind == "eval" and record.profile == "toy/v1" and isinstance(record.get("name"), str):
            _keep(self.evals, record["name"], record.value)
        count_missing(self.missing, record)

    def _take_values(self, record: Record, step: float) -> None:
        """Take in the metrics of *record*, which are at *step*."""
        profile, epoch, series = record.profile, None, self.series
        values = self.attempts.named_values(record)
        if record.kind == "step" and profile == "toy/v1" and "loss" in values:
            self._step_loss = (finite_number(values["loss"]),)
        if not _is_place(step):
            return
        if profile == "kaun/v1":
            epoch = record.epoch
        for name, value in values.items():
            curve = series.get(name) or self._curve(name, profile)
            if curve is not None:
                curve.add(step, value, epoch)

    def _count(self, name: str, number_of: int) -> None:
        _keep(self.kinds, name, self.kinds.get(name, 0) + number_of)

    def _take_block(self, block: StepBlock) -> None:
        """Add many records at once."""
        self.take_numbers(block.extremes(), block.profile)
        for name, minimize in block.numbers.minimized:
            _keep(self.goals, name, "min" if minimize else "max")
        if not self._parts and block.profile != "kaun/v1":
            return
        for name, column in self.attempts.named(block.columns(), block.numbers.phase).items():
            curve = self.series.get(name)
            if curve is not None:
                curve.draw(column.values)
            if isinstance(curve, TagCurve):
                curve.keep_latest(column)

    def take_numbers(self, numbers: toyspec_engine.NumbersFields, profile: Profile) -> None:
        """Add many records of which the extremes of each metric are known: the shape of its curve then is not."""
        phase = numbers["phase"]
        for kind, number_of in numbers["kinds"]:
            self._count(kind, number_of)
        for time in numbers["times"] or ():
            self._take_time(time, mapping_of(profile).origin_of(time))
        self.placing.take_block(numbers["kinds"], numbers["steps"], phase)
        metrics = {name: Extremes._make(found) for name, *found in numbers["metrics"]}
        for name, found in self.attempts.named(metrics, phase).items():
            curve = self._curve(name, profile)
            if curve is not None:
                curve.merge(found)
            if name == "loss" and profile == "toy/v1":
                self._step_loss = (finite_number(found.last[1]),)

    def _curve(self, name: str, profile: Profile | None) -> Curve | None:
        curve = self.series.get(name)
        if curve is not None:
            return curve
        # The loss of a run that logs very many other metrics before it is not left out.
        if len(self.series) < MOST_NAMES or name in LOSS_NAMES:
            curve = self.series[name] = (TagCurve if profile == "kaun/v1" else Curve)(self._parts)
        elif len(self._beyond) < _MOST_COUNTED:
            self._beyond.add(hash(name))
        return curve

    def _take_rows(self, block: RowBlock) -> None:
        """Add many rows at once."""
        for time in () if block.times is None else (block.times[0], block.times[-1]):
            self._take_time(time, block.time_origin)
        steps = self.placing.take_rows(block.steps, len(block.lines))
        for name, values in block.metrics.items():
            curve = self._curve(name, None)
            if curve is not None and values:
                curve.add_all(steps, array("d", values))

    def _take_time(self, seconds: float | None, origin: str | None) -> None:
        """Take in a time; those that count from elsewhere than the first ones are not comparable."""
        if seconds is None:
            return
        self._time_origin = self._time_origin or origin
        if origin == self._time_origin:
            self.first_time = seconds if self.first_time is None else self.first_time
            self.last_time = seconds


def _keep(kept: dict[str, Any], name: str, value: Any) -> None:
    if name in kept or len(kept) < MOST_NAMES:
        kept[name] = value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def start_after(start: dict[str, Any], record: Record) -> dict[str, Any]:
    """Return *start*, the members of ``run_start``, after *record*, which may change settings of the run."""
    return _with_settings(start, record.changed_config)


def _with_settings(start: dict[str, Any], changed: Any) -> dict[str, Any]:
    before = start.get("config", {})
    if not isinstance(changed, dict) or not isinstance(before, dict) or not changed:
        return start
    return {**start, "config": {**before, **changed}}


def _is_place(step: object) -> TypeGuard[int]:
    """Return whether values can be at *step*; that of another program's log may have a fraction."""
    return type(step) is int or (type(step) is float and isfinite(step))


def _descriptions(start: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the members of *start* that annotations can replace; *name* is what the run is called."""
    tags = start.get("tags")
    found: dict[str, Any] = {"name": name} | {key: _text(start.get(key)) or None for key in ("group", "notes")}
    return found | {"tags": [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []}


def summarize_run(path: str, *, watch: Watch | None = None, dialect: DialectChoice | None = None) -> RunSummary:
    """Return the summary of the run at *path*, a run directory or a stream.

    *watch* is given the records and the size of the stream, and passes the records on. The log of another program is
    read by a *dialect*, by default the one that is recognized.
    Raises StreamMissingError, StreamUnreadableError, and UnknownFormatError for what is not a run; damage is skipped
    and is in the summary's report.
    """
    choice = dialect or DialectChoice()
    stream = locate_stream(path, choice.stream_files)
    summary = RunSummary(stream)
    reading = read(stream, mode="salvage", dialect=choice)
    reading.give_blocks()
    summary.take(reading if watch is None else watch(reading, _size(stream)))
    report = reading.report
    if report.dialect is None and (report.profile is None or (not report.records and _is_other(stream))):
        raise unknown_format(stream)
    if summary.needs_second:
        again = RunSummary(stream, attempts=summary.attempts)
        with read(stream, mode="salvage", profile=report.profile, dialect=choice) as reading:
            if report.dialect is None:
                reading.give_blocks(attempts=summary.attempts)
            again.take(latest(reading, summary.attempts))
        summary = again
    summary.report, summary.choice = report, choice
    summary.dialect = report.dialect
    summary.describe(report.profile, report.state, report.records, report.size)
    return summary


def _is_other(stream: str) -> bool:
    """Return whether the file *stream*, which has no record, is a document of another program."""
    try:
        return is_other_document(stream, unpacked_head(stream, HEAD_BYTES)[0])
    except (OSError, StreamError):
        return False


def _size(stream: str) -> int:
    try:
        return stream_size(stream)
    except OSError:
        return 0


_CHANGES = re.compile(rb"run_(?:resume|config)")
_PIECE_BYTES = 1 << 20


def summarize_ends(path: str, *, dialect: DialectChoice | None = None, checked_bytes: int | None = None) -> RunSummary:
    """Return the summary of the run whose stream is at *path*, from the ends of the stream.

    A stream up to *checked_bytes* (by default 1 MiB) is read completely. Of a larger one, more of an end is read, up to
    a limit, if it has no step with a loss; damage between the ends is not found, and ``records`` is None. Settings that
    were changed between them are searched for when settings are asked for, unless the stream is in an object
    store. Streams that cannot be read from the end are passed to ``summarize_run``; raises as that does.
    """
    choice = dialect or DialectChoice(None)
    ends = None if choice.is_named else ends_at(path, WHOLE_BYTES if checked_bytes is None else checked_bytes)
    # What follows no profile of toyspec is the log of another program, of a profile of the user, or not a run.
    if ends is None or ends.profile is None or choice.profile_of(ends.head[0].raw + b"\n", path) is not None:
        return summarize_run(path, dialect=dialect)
    summary = RunSummary(path, attempts=ends.attempts, parts=0)
    summary.knows_metrics = False
    summary.take(ends.head)
    if ends.tail:
        summary.forget_last()
        summary.take(ends.tail)
    summary.describe(ends.profile, ends.state, ends.number, ends.size)
    summary.is_settled = ends.number is not None or ends.profile != "toy/v1" or is_address(path)
    return summary


def _changes(path: str) -> Iterator[Record]:
    """Yield the records in the stream at *path* that change settings; none if it cannot be read any more."""
    rest = b""
    with suppress(OSError), open_file(path).detach() as file:
        while piece := file.read(_PIECE_BYTES):
            block = rest + piece
            end = block.rfind(b"\n") + 1
            rest = block[end:] if len(block) - end <= MAX_LINE_BYTES else b""
            found = _CHANGES.search(block, 0, end)
            while found is not None:
                after = block.find(b"\n", found.end()) + 1
                line = block[block.rfind(b"\n", 0, found.start()) + 1 : after]
                for record in records_among(RecordFeed(profile="toy/v1").feed(line)):
                    if record.goes_on or record.changed_config:
                        yield record
                found = _CHANGES.search(block, after, end)


def engine_ends(streams: Sequence[Stream]) -> dict[str, RunSummary]:
    """Return the summaries of runs with short streams that the compiled engine reads, by path; others are left out."""
    engine = native()
    if engine is None:
        return {}
    found = engine.run_ends([stream.path for stream in streams], WHOLE_BYTES)
    runs = {}
    for stream, each in zip(streams, found, strict=True):
        if each is not None:
            run = runs[stream.path] = RunSummary(stream.path, parts=0)
            run.knows_metrics = False
            run.take_ends(each)
    return runs
