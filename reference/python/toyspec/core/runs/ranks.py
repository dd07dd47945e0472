"""The processes of one run: what each of them logged, which stopped first, and which is slowest. See spec/ranks.md."""

from __future__ import annotations

import os
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, TypeVar

import msgspec

from toyspec.core.errors import StreamError
from toyspec.core.findings import PathError
from toyspec.core.format.numbers import number
from toyspec.core.generated.runs import RunState
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import is_of_latest_attempt, rank_streams
from toyspec.core.reading.stream_files import found_at, locate_stream
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.core.reading.records import Record

_MICROSECONDS = 1e6
# started_at has whole seconds, and clocks of machines differ.
_CLOCK_SECONDS = 2.0
# What differs by less may differ by chance.
_SLOWER = 1.1
# A rank that is written is late from time to time.
_MANY_STEPS = 10
# The size is what a log says, and any number may be in it.
_MOST_RANKS = 1 << 20
_ENDED_WELL = (None, "completed")

_Log = TypeVar("_Log")


class RankProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one process of a run came."""

    rank: int
    path: str
    """Path of its stream."""
    state: RunState
    reason: str | None
    """How it ended; None where its log has no end."""
    error: str | None
    first_step: int | None
    last_step: int | None
    behind: int | None
    """Number of steps that it lacks to the rank that came furthest; None without steps, and of an earlier attempt."""
    step_seconds: float | None
    """Median time from one step to the next, in seconds; None with fewer than two steps."""
    compute_seconds: float | None
    """Median ``compute_us`` of its steps, in seconds; None where it logs none."""
    last_at: float | None
    """Time of its last record before ``run_end``, in seconds since 1970; None where ``started_at`` is missing."""
    silent_seconds: float | None
    """Time from then to the last record of any rank, in seconds; None for a rank of an earlier attempt."""


class FirstToStop(msgspec.Struct, frozen=True):
    """The rank that stopped before the others."""

    rank: int
    why: str
    """What shows it, for people."""


class Slowest(msgspec.Struct, frozen=True):
    """The rank that takes longest for a step."""

    rank: int
    factor: float
    """Its time divided by the median time of the others; at least 1."""
    by: str
    """What was compared: ``compute_us``, or ``step time``, from one step to the next."""


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """All processes of one run."""

    run_id: str | None
    directory: str
    world_size: int | None
    """Number of processes of the last attempt, as the stream of rank 0 says it, else another one."""
    ranks: list[RankProgress]
    """Those that have a stream, in order."""
    missing: list[int]
    """Those below the number of processes that have none."""
    errors: tuple[PathError, ...]
    """Streams that cannot be read."""
    first_to_stop: FirstToStop | None
    """Among those that the last attempt has. None where all came equally far, or nothing tells them apart."""
    slowest: Slowest | None
    """None where no two ranks tell how long a step takes, or they differ by less than a tenth."""
    metrics_elsewhere: list[str]
    """Names of metrics that the first of the ranks does not have."""

    @property
    def latest(self) -> list[RankProgress]:
        """The ranks that the last attempt has; all where it is not known."""
        return list(_latest({each.rank: each for each in self.ranks}, self.world_size).values())


def ranks_of(run: str | os.PathLike[str]) -> Ranks:
    """Return what the processes of *run*, a run directory or one of its streams, have logged.

    Raises StreamError if no stream can be read. Ranks of which only the first logs are one rank; damage is skipped.
    """
    path = os.fspath(run)
    directory = path if os.path.isdir(path) else os.path.dirname(path)
    found = rank_streams(directory) if os.path.isdir(directory or os.curdir) else {}
    # All but a directory of streams of ranks is a run of one process.
    places = found or {0: locate_stream(path)}
    logs: dict[int, _RankLog] = {}
    errors: list[PathError] = []
    for rank, place in places.items():
        try:
            logs[rank] = _RankLog(place)
        except StreamError as error:
            errors.append(PathError(place, error.fact))
            if len(errors) == len(places):
                raise
    # Of a run that went on with fewer processes, the streams of the others still have the earlier number.
    sizes = {rank: log.summary.world_size or 0 for rank, log in logs.items()}
    size = sizes.get(0) or max(sizes.values(), default=0) or None
    latest = _latest(logs, size)
    rows = [_progress(rank, log, latest) for rank, log in logs.items()]
    own = [each for each in rows if each.rank in latest]
    first = next(iter(logs.values())).summary
    return Ranks(
        run_id=first.facts.run_id,
        directory=(directory or os.curdir) if found else first.directory,
        world_size=size,
        ranks=rows,
        missing=[rank for rank in range(min(size or 0, _MOST_RANKS)) if rank not in places],
        errors=tuple(errors),
        first_to_stop=_first_to_stop(own),
        slowest=_slowest(own),
        metrics_elsewhere=list(
            dict.fromkeys(name for log in logs.values() for name in log.summary.series if name not in first.series)
        ),
    )


class _RankLog:
    """The stream of one rank."""

    def __init__(self, path: str) -> None:
        self.summary = summarize_run(found_at(path))
        self.last_at: float | None = None
        self._base: tuple[float, float] | None = None
        self._step: tuple[float, float] | None = None
        self.step_times: list[float] = []
        self.compute_times: list[float] = []
        with read(path, mode="salvage", attempts="latest") as reading:
            for record in reading:
                self._take(record)

    def _take(self, record: Record) -> None:
        time, step = record.time, record.step
        if time is None:
            return
        if record.kind in ("run_start", "run_resume"):
            # The clock of the log stands still between two attempts.
            wall = _wall(record.get("started_at" if record.kind == "run_start" else "resumed_at"))
            self._base = self._base if wall is None else (wall, time)
            self._step = None
        if record.kind != "run_end" and self._base is not None:
            self.last_at = self._base[0] + time - self._base[1]
        if step is None or record.kind not in ("step", "scalars"):
            return
        if self._step is not None and step > self._step[0]:
            self.step_times.append((time - self._step[1]) / (step - self._step[0]))
        if self._step is None or step > self._step[0]:
            self._step = (step, time)
        # `run.log` has it among the metrics of a step.
        compute = number(record.values.get("compute_us", record.get("compute_us")))
        if compute is not None:
            self.compute_times.append(compute / _MICROSECONDS)


def _wall(text: object) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _latest(ranks: Mapping[int, _Log], size: int | None) -> Mapping[int, _Log]:
    """Return those of *ranks* that the latest attempt of *size* processes has; all where it has none of them."""
    return {rank: each for rank, each in ranks.items() if is_of_latest_attempt(rank, size)} or ranks


def _progress(rank: int, log: _RankLog, latest: Mapping[int, _RankLog]) -> RankProgress:
    """Return how far *rank* came beside the *latest* ones."""
    summary = log.summary
    furthest = max(
        (each.summary.last_step for each in latest.values() if each.summary.last_step is not None), default=0
    )
    last_at = max((each.last_at for each in latest.values() if each.last_at is not None), default=0.0)
    is_latest = rank in latest
    return RankProgress(
        rank=rank,
        path=summary.path,
        state=summary.facts.state,
        reason=summary.facts.reason,
        error=summary.facts.error,
        first_step=summary.first_step,
        last_step=summary.last_step,
        behind=None if summary.last_step is None or not is_latest else furthest - summary.last_step,
        step_seconds=median(log.step_times) if log.step_times else None,
        compute_seconds=median(log.compute_times) if log.compute_times else None,
        last_at=log.last_at,
        silent_seconds=None if log.last_at is None or not is_latest else last_at - log.last_at,
    )


def _first_to_stop(rows: Sequence[RankProgress]) -> FirstToStop | None:
    stopped = [each for each in rows if _has_stopped(each)]
    is_level = len({each.last_step for each in rows}) == 1
    ended_well = all(each.state == "complete" and each.reason in _ENDED_WELL for each in rows)
    if len(rows) == 1 or not stopped or (is_level and ended_well):
        return None
    furthest = max(map(_came_to, rows))
    lowest = min(map(_came_to, stopped))
    left = [each for each in stopped if _came_to(each) == lowest]
    if len(left) == 1 and lowest < furthest:
        came = "it has no step" if left[0].last_step is None else f"its last is step {lowest}"
        return FirstToStop(left[0].rank, f"{came}, and the furthest rank came to step {furthest}")
    return _first_at(left)


def _came_to(row: RankProgress) -> int:
    """Return the last step of a rank; one without a step came less far than any other, as in the views."""
    return -1 if row.last_step is None else row.last_step


def _first_at(rows: Sequence[RankProgress]) -> FirstToStop | None:
    """Return which of *rows*, which came to the same step, stopped first."""
    unended = [each for each in rows if each.state in ("torn", "damaged")]
    if len(unended) == 1 < len(rows):
        return FirstToStop(unended[0].rank, "it has no run_end, and the others have one")
    times = sorted((each.last_at, each.rank) for each in unended or rows if each.last_at is not None)
    apart = times[1][0] - times[0][0] if len(times) > 1 else 0.0
    if apart <= _CLOCK_SECONDS:
        return None
    return FirstToStop(times[0][1], f"its last record is {apart:.1f} s before that of the next")


def _has_stopped(row: RankProgress) -> bool:
    """Return whether a rank stopped: one that is being written has, when it is silent for many steps."""
    if row.state != "running":
        return True
    silent = row.silent_seconds or 0.0
    return silent > _CLOCK_SECONDS and silent > _MANY_STEPS * (row.step_seconds or 0.0)


def _slowest(rows: Sequence[RankProgress]) -> Slowest | None:
    # Ranks that wait for each other take equally long from step to step: only what each computes tells them apart.
    found: Slowest | None = None
    for by, times in (
        ("compute_us", {each.rank: each.compute_seconds for each in rows}),
        ("step time", {each.rank: each.step_seconds for each in rows}),
    ):
        known = {rank: seconds for rank, seconds in times.items() if seconds is not None}
        if found is not None or len(known) < 2:
            continue
        rank = max(known, key=lambda each: known[each])
        others = median(seconds for each, seconds in known.items() if each != rank)
        if others > 0 and known[rank] / others >= _SLOWER:
            found = Slowest(rank, known[rank] / others, by)
    return found
