"""A run of a list: what a list shows of it is there, and everything else is read when it is asked for."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toyspec.format.profiles import closing_kind
from toyspec.reading.records import RecordFeed
from toyspec.reading.sealed_files import has_seal
from toyspec.runs.summary import Extent, RunSummary

if TYPE_CHECKING:
    from collections import Counter

    from toyspec.findings import Ended, Profile, State
    from toyspec.reading.attempts import Attempts
    from toyspec.reading.placing import Placing
    from toyspec.runs.curves import Curve
    from toyspec.runs.series import Series

    Facts = tuple[int, int, float | int | None, float | None, float | None, str | None, bool, str | None]
    """First and last step, final loss, first and last time, start, whether a record ends the run, and how it ended."""
    Found = tuple[Profile, State, int, int, bytes, Facts | None]
    """Profile, state, number of records, size, telling lines, and what those say where it is plain."""


def summary_of(path: str, found: Found, *, sealed: bool | None = None) -> RunSummary:
    """Return the summary of the run whose stream is at *path* from what the compiled engine has *found*."""
    profile, state, count, size, lines, facts = found
    if facts is not None:
        return ListedRun(path, found, facts, sealed=sealed)
    summary = _taken(path, profile, lines)
    summary.describe(profile, Extent(state, count, size))
    return summary


def _taken(path: str, profile: Profile, lines: bytes) -> RunSummary:
    summary = RunSummary(path)
    summary.take(RecordFeed(profile=profile).feed(lines), learn="attempts")
    return summary


def _read(name: str) -> Any:
    """Return an attribute that the records say."""
    return cached_property(lambda run: getattr(run.whole, name))


class ListedRun(RunSummary):
    """A run of toy/v1 or metrics/v1 that was never resumed."""

    # Its times count from its start.
    _time_origin = None
    first_step: int | None = None
    last_step: int | None = None

    def __init__(self, path: str, found: Found, facts: Facts, *, sealed: bool | None) -> None:
        """Take what was *found* of the stream at *path*; *sealed* is None where it is not known."""
        profile, state, count, size, self._lines, _ = found
        self.path, self.profile, self.extent = path, profile, Extent(state, count, size)
        self.dialect, self._profile = None, profile
        (
            self.first_step, self.last_step, self._final_loss, self.first_time, self.last_time,
            self._started_at, self._has_end, self._reason,
        ) = facts  # fmt: skip
        self._is_sealed = sealed

    @cached_property
    def whole(self) -> RunSummary:
        """What the records say, which are read once."""
        return _taken(self.path, self._profile, self._lines)

    @property
    def metrics_left_out(self) -> int:
        """See RunSummary."""
        return self.whole.metrics_left_out

    @property
    def ended(self) -> Ended:
        """See RunSummary."""
        return "yes" if self._has_end else "unknown" if closing_kind(self._profile) is None else "no"

    start: dict[str, Any] = _read("start")
    end: dict[str, Any] | None = _read("end")
    kinds: dict[str, int] = _read("kinds")
    world_size: int | None = _read("world_size")
    series: dict[str, Curve] = _read("series")
    step_names: dict[str, str] = _read("step_names")
    goals: dict[str, str] = _read("goals")
    evals: dict[str, dict[str, Any]] = _read("evals")
    attempts: Attempts = _read("attempts")
    left_out: dict[str, int] = _read("left_out")
    asked: Series = _read("asked")
    metric_names: set[str] = _read("metric_names")
    placing: Placing = _read("placing")
    missing: dict[str, Counter[str]] = _read("missing")

    @property
    def name(self) -> str:
        """Last part of the path of the run."""
        last = self.directory.rpartition(os.sep)[2]
        return super().name if last in ("", os.curdir, os.pardir) else last

    @property
    def final_loss(self) -> float | None:
        """Loss at the end, by run_end, else by the last step; None where it was not finite."""
        return self._final_loss

    @property
    def says_final_loss(self) -> bool:
        """True: others have to be read."""
        return True

    @property
    def started_at(self) -> str | None:
        """Wall-clock time of the start as the run says it, RFC 3339; None where it does not."""
        return self._started_at

    @property
    def reason(self) -> Any:
        """How the run ended, as it says it; None where it does not."""
        return self._reason

    @property
    def sealed(self) -> bool:
        """True if the run has a seal."""
        return has_seal(self.directory) if self._is_sealed is None else self._is_sealed
