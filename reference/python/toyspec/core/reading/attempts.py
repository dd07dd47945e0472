"""Which steps count, and which step a value is at.

A later attempt at the same steps supersedes records: see spec/toy/v1/run_resume.md. The values of a record are at the
step that it names, else at the last step of the run.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from math import isfinite
from typing import TYPE_CHECKING, Final, TypeGuard, TypeVar

from toyspec.core.format.record_mapping import mapping_of
from toyspec.core.generated.fields import FIELDS
from toyspec.core.reading.records import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from toyspec.core.reading.records import Record

    Value = TypeVar("Value")

    Step = int | float


_RESUME: Final = "run_resume"
_START: Final = "run_start"
_STEP: Final = "step"
_TRAIN: Final = "train"
# Kinds that frame the run do not belong to a step, even if they name one.
_OF_A_STEP = frozenset(kind for kind, fields in FIELDS["toy/v1"].items() if "step" in fields) - {
    _START,
    _RESUME,
    "run_config",
    "run_end",
}
_KNOWN = FIELDS["toy/v1"].keys()
# A step number counts train steps in every event of these phases; decoding and serving count their own.
_TRAINING = frozenset((_TRAIN, "eval"))
_MAX_STEP = (1 << 63) - 1


def world_size_of(record: Record) -> int | None:
    """Return the number of processes that a run has from *record* on; None where the record does not say it."""
    size = record.get("world_size") if record.kind in (_START, _RESUME) and record.profile == "toy/v1" else None
    return size if type(size) is int and size > 0 else None


def superseded_steps(last: int | None, from_step: int) -> int:
    """Return how many steps up to *last* a resumption from *from_step* supersedes; 0 for no more than a tenth."""
    count = (last or 0) - from_step
    return count if 10 * count > (last or 0) else 0


class Attempts:
    """Learns the resumptions from all records of a stream, then filters the same records.

    A ``run_resume`` supersedes every earlier event that belongs to a train step after its ``from_step``.
    Memory grows with the number of resumptions only. Other profiles have no resumptions. Of the rows of a dialect,
    those of the last attempt are the latest.
    """

    def __init__(self) -> None:
        # An earlier resumption is listed only if it goes back less far than all later ones: both columns increase.
        self._lines = array("q")
        self._from_steps = array("q")
        self._phase: str | None = None
        self.number = 1
        """Number of the last attempt in the log of another program, which may have several trainings."""
        self.superseded = (0, 0)
        """The most steps that a resumption supersedes, by ``superseded_steps``, and its line, as placing tells it."""

    def __bool__(self) -> bool:
        """Return whether anything can be superseded."""
        return bool(self._lines) or self.number > 1

    def learn(self, record: Record) -> None:
        """Take in the next record of the stream."""
        if record.profile != "toy/v1":
            self.number = max(self.number, record.attempt)
            return
        if record.kind == _START and self._phase is None:
            self._phase = record.phase or _TRAIN
        if record.kind != _RESUME:
            return
        from_step = record.get("from_step")
        if type(from_step) is not int or not 0 <= from_step <= _MAX_STEP:
            return
        while self._from_steps and self._from_steps[-1] >= from_step:
            self._from_steps.pop()
            self._lines.pop()
        self._from_steps.append(from_step)
        self._lines.append(record.line)

    @property
    def own_phase(self) -> str:
        """The phase of the run itself: that of its first run_start, else train."""
        return self._phase or _TRAIN

    def phase_of(self, record: Record) -> str:
        """Return the phase of *record*: its own, else that of run_start, else train."""
        return record.phase or self._phase or _TRAIN

    def is_of_run(self, record: Record) -> bool:
        """Return whether *record* is of the run's own phase; profiles but toy/v1 have one phase."""
        return record.profile != "toy/v1" or (record.phase or self.own_phase) == self.own_phase

    def named(self, columns: Mapping[str, Value], phase: str | None) -> Mapping[str, Value]:
        """Return metrics of steps that name *phase* by the names that they have in the run.

        The names of another phase than the run's own are after it: ``decode/loss``. Each phase counts its own steps.
        """
        if phase is None or phase == self.own_phase:
            return columns
        return {f"{phase}/{name}": value for name, value in columns.items()}

    def named_values(self, record: Record) -> Mapping[str, float | int | None]:
        """Return the metrics of *record* by the names that they have in the run."""
        return self.named(record.values, record.phase) if _is_a_step(record) else record.values

    def named_texts(self, record: Record) -> Mapping[str, str]:
        """Return the texts of *record* by the names that they have in the run."""
        return self.named(record.texts, record.phase) if _is_a_step(record) else record.texts

    def state(self) -> tuple[list[int], list[int], str | None, int]:
        """Return what was learned, as plain values that ``of`` takes."""
        return list(self._lines), list(self._from_steps), self._phase, self.number

    @classmethod
    def of(cls, lines: list[int], from_steps: list[int], phase: str | None, attempt: int) -> Attempts:
        """Return attempts that know what ``state`` returned."""
        found = cls()
        found._lines, found._from_steps = array("q", lines), array("q", from_steps)
        found._phase, found.number = phase, attempt
        return found

    def last_step_kept(self, line: int) -> int | None:
        """Return the step after which a resumption after *line* supersedes train steps; None where there is none."""
        following = bisect_right(self._lines, line)
        return self._from_steps[following] if following < len(self._lines) else None

    def latest(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield those of *records*, the same again, that no later attempt supersedes."""
        return (record for record in records if not self.is_abandoned(record))

    def is_abandoned(self, record: Record) -> bool:
        """Return whether a later attempt supersedes *record*."""
        if record.profile != "toy/v1":
            return self.number > 1 and record.attempt < self.number
        kept, step = self.last_step_kept(record.line), record.step
        if record.kind not in _OF_A_STEP or kept is None or step is None or step <= kept:
            return False
        phase = self.phase_of(record)
        return phase == _TRAIN or (phase in _TRAINING and record.kind != _STEP)

    def are_values_abandoned(self, record: Record) -> bool:
        """Return whether a later attempt supersedes the metrics of *record*: those of unknown kinds too.

        ``is_abandoned`` is what the reader follows, which returns records of unknown kinds like all others.
        """
        if record.profile != "toy/v1" or record.kind in _KNOWN:
            return self.is_abandoned(record)
        kept, step = self.last_step_kept(record.line), record.step
        return kept is not None and step is not None and step > kept and self.phase_of(record) in _TRAINING


def _is_a_step(record: Record) -> bool:
    return record.profile == "toy/v1" and record.kind == _STEP


class Placing:
    """Follows the steps of a run: take its records in order. *attempts* say which phase is the run's own."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._has_steps = False
        self._has_start = False
        # The last step of this attempt.
        self._reached = 0
        self.starts_late = False
        """True when a step came before the first run_start, which decides on the run's own phase."""
        self.first: int | None = None
        """The first step in the run's own phase."""
        self.last: int | None = None
        """The last step in the run's own phase; of a log that may go back, the highest."""
        self.is_step: bool | None = None
        """Whether the last record is a valid step; None where its kind is not that of steps."""

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
        return last + 1 if record.values and mapping_of(record.profile).step is None else last

    def take(self, record: Record) -> Step:
        """Take in the next record; return the step that its values are at."""
        step = record.step
        step = self.step_of(record) if step is None else step
        role = mapping_of(record.profile).of_kind(record.kind).role
        self.is_step = record.is_step if role == "step" else None
        if record.kind == _RESUME and (kept := self._attempts.last_step_kept(record.line - 1)) is not None:
            is_training = self._attempts.own_phase == _TRAIN
            count = superseded_steps(self._reached, kept) if is_training else 0
            self._attempts.superseded = max(self._attempts.superseded, (count, record.line))
            self._reached = kept
        if role == "start":
            self.starts_late = self.starts_late or (self._has_steps and not self._has_start)
            self._has_start = True
        if self.is_step is not None:
            self._has_steps = self._has_steps or record.kind == "step"
            if self.is_step and self._attempts.is_of_run(record) and type(step) is int:
                self._reach(step, step)
                self._reached = step
        elif type(step) is int and self._counts(record):
            # An evaluation may have an earlier step, or count epochs.
            self._reach(step, step if self.last is None else max(self.last, step))
            self._reached = max(self._reached, step)
        return step

    def take_block(self, kinds: Iterable[tuple[str, int]], steps: tuple[int, int] | None, phase: str | None) -> None:
        """Take in many records: the number of each of *kinds*, the first and the last of *steps*, and their phase."""
        self._has_steps = self._has_steps or any(kind == "step" for kind, _ in kinds)
        own = self._attempts.own_phase
        if steps is not None and (phase or own) == own:
            self._reach(*steps)
            self._reached = steps[1]

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
    return type(step) is int and abs(step) <= _MAX_STEP
