"""Where the values of records are: at the step that a record names, else at the last step of the run."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, TypeGuard

from toyspec.core.format.record_mapping import mapping_of
from toyspec.core.reading.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toyspec.core.reading.attempts import Attempts
    from toyspec.core.reading.records import Record

    Step = int | float

_MAX_STEP = 1 << 63


class Placing:
    """Follows the steps of a run: take its records in order. *attempts* say which phase is the run's own."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._has_steps = False
        self._has_start = False
        self.starts_late = False
        """True when a step came before the first run_start, which decides on the run's own phase."""
        self.first: int | None = None
        """The first step in the run's own phase."""
        self.last: int | None = None
        """The last step in the run's own phase; of a log that may go back, the highest."""

    def begin_at(self, step: float) -> None:
        """Take that the records before the next one came to *step*, where a stream is read from its middle."""
        self.last = int(step) if isfinite(step) else None

    def step_of(self, record: Record) -> Step:
        """Return the step that the values of *record*, the next one, are at."""
        step = record.step
        if step is not None:
            return step
        last = self.last or 0
        # Records of a profile without steps are counted.
        return last + 1 if record.values and mapping_of(record.profile).is_counted else last

    def take(self, record: Record) -> Step:
        """Take in the next record; return the step that its values are at."""
        step = self.step_of(record)
        if record.start is not None:
            self.starts_late = self.starts_late or (self._has_steps and not self._has_start)
            self._has_start = True
        if mapping_of(record.profile).of_kind(record.kind).role == "step":
            self._has_steps = self._has_steps or record.kind == "step"
            if self._attempts.is_own_step(record) and type(step) is int:
                self._reach(step, step)
        elif type(step) is int and self._counts(record):
            # An evaluation may have an earlier step, or count epochs.
            self._reach(step, step if self.last is None else max(self.last, step))
        return step

    def take_block(self, kinds: Iterable[tuple[str, int]], steps: tuple[int, int] | None, phase: str | None) -> None:
        """Take in many records: the number of each of *kinds*, the first and the last of *steps*, and their phase."""
        self._has_steps = self._has_steps or any(kind == "step" for kind, _ in kinds)
        own = self._attempts.own_phase
        if steps is not None and (phase or own) == own:
            self._reach(*steps)

    def take_rows(self, steps: Sequence[int] | None, count: int) -> Sequence[int]:
        """Take in *count* rows with *steps*, None where they have none; return the step of each."""
        if steps is None:
            return [self.last or 0] * count
        self._reach(steps[0], max(steps) if self.last is None else max(self.last, *steps))
        return steps

    def _reach(self, first: int, last: int) -> None:
        self.first = first if self.first is None else self.first
        self.last = last

    def _counts(self, record: Record) -> bool:
        """Return whether the step of *record* is one of the run: that of any record with metrics, without events."""
        if record.profile == "toy/v1":
            return record.kind == "scalars" and record.step is not None and not self._has_steps
        return record.step is not None if isinstance(record, Row) else bool(record.values)


def is_listed(step: object) -> TypeGuard[int]:
    """Return whether a database and a chart can hold *step*: an integer of 64 bits."""
    return type(step) is int and abs(step) < _MAX_STEP
