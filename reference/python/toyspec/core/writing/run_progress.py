"""The progress of a toy/v1 stream, by which its writer refuses records that would make the stream invalid.

It covers the rules of severity error that relate records; records that cause only a warning may be written. A resumed
run goes on where the first step that is logged says, before which values may come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, UnsetType

from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.generated.fields import FIELDS
from toyspec.core.writing.events import is_phase
from toyspec.core.writing.logged_values import LeftOut, SortedValues, is_count, members_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


COUNTED: Final = "counted"
"""Stands for the step of values that are logged without one."""

_TRAIN: Final = "train"
_KINDS: Final = frozenset(FIELDS["toy/v1"])


class RunProgress:
    """The facts from the records of one stream so far."""

    def __init__(self) -> None:
        self.records = 0
        self.run_id: str | None = None
        """Run id of the run_start; None before it."""
        self.phase = _TRAIN
        """Phase of every record without a phase."""
        self.time = 0.0
        """``t`` of the last record that has one, in seconds."""
        self.ended = False
        """True after run_end."""
        self.must_resume = False
        """True while a resumed stream waits for its run_resume."""
        self.is_running = False
        """True between run_start, or run_resume in a resumed stream, and run_end; a run may go on after its end."""
        self.last_train_step: int | UnsetType = UNSET
        """Number of the last step event of phase train; UNSET before it."""
        self.last_train_loss: float | UnsetType | None = UNSET
        """Loss of that event; None if it was not finite, UNSET if it has none."""
        self._last_steps: dict[str, int] = {}
        self._logged_steps: dict[str, int] = {}
        self._last_values_step: int | None = None
        self._has_values = False
        self.had_ended = False
        """True in a resumed stream whose last record is a run_end."""
        self.from_step: int | None = None
        """Step after which the latest attempt goes on; None in the first one."""
        self.config: dict[str, Any] = {}
        """Settings of the run, those of its resumptions included."""
        self._first_settings: dict[str, Any] = {}
        """Those of run_start and resumptions: a program that resumes the run may not know the others yet."""

    @property
    def resume_step(self) -> int | None:
        """Largest step of phase train in the latest attempt, of ``step`` or ``scalars``; None before the first."""
        known = [step for step in (self._last_steps.get(_TRAIN), self._last_values_step) if step is not None]
        return max(known, default=None)

    @property
    def has_steps(self) -> bool:
        """True once this attempt has a ``step`` record of phase train."""
        return _TRAIN in self._logged_steps

    @property
    def is_resumed_before_steps(self) -> bool:
        """True between a run_resume and the first train step after it."""
        return self.from_step is not None and not self.has_steps and self._last_values_step is None

    @property
    def is_resumed_by_steps(self) -> bool:
        """True in a later attempt of a run that writes ``step`` records, before the first of that attempt."""
        is_later = self.must_resume or self.from_step is not None
        return is_later and self.last_train_step is not UNSET and not self.has_steps

    @property
    def final_step(self) -> int | UnsetType:
        """Number of the last step event of phase train, else the largest step of values; UNSET before both."""
        if self.last_train_step is not UNSET:
            return self.last_train_step
        if self._last_values_step is not None:
            # Values may be added to earlier steps of a run that goes on.
            return max(self._last_values_step, self.from_step or 0)
        return self.from_step if self._has_values and self.from_step is not None else UNSET

    @property
    def can_end(self) -> bool:
        """True when a run_end is allowed next."""
        return self.records > 0 and not self.ended and not self.must_resume

    def await_resume(self) -> None:
        """Expect a run_resume next, unless the stream has no record."""
        self.must_resume = self.records > 0
        self.had_ended = self.ended
        self.ended = False
        self.is_running = False

    def next_step(self, phase: str) -> int:
        """Return the number of the step that comes next in *phase*, from 1."""
        return self._last_steps.get(phase, 0) + 1

    def log_step(self, phase: str) -> int | UnsetType:
        """Return the step of values that are logged without one.

        That is the last step of a run that writes ``step`` records, else in phase train one more than the last one at
        which values were logged, and in other phases that one.
        """
        if self.has_steps:
            return self._logged_steps[_TRAIN]
        if self.is_resumed_by_steps:
            return self.resume_step or 0
        last = self._last_values_step
        if phase == _TRAIN:
            return max(last or 0, self._last_steps.get(_TRAIN, 0)) + 1
        return UNSET if last is None else last

    def pass_step(self, step: int, phase: str) -> None:
        """Count a step that is not in the stream, left out on purpose or lost: the next one follows it."""
        self._last_steps[phase] = step

    def admit(self, kind: str | None, event: Mapping[str, Any]) -> None:
        """Raise InvalidEventError when the record *event*, valid by itself, is not allowed next."""
        self.admit_kind(kind)
        if kind not in _KINDS:
            return
        if event["t"] < self.time:
            raise InvalidEventError(
                f"t {event['t']} of {kind} is less than {self.time} of the previous record; t must not decrease"
            )
        if kind == "step":
            self.admit_step(event["step"], event.get("phase") or self.phase)

    def admit_kind(self, kind: str | None) -> None:
        """Raise InvalidEventError when a record of *kind* is not allowed next."""
        if self.ended and kind != "run_resume":
            raise InvalidEventError(f"{kind} after run_end: the run has ended; write run_resume first")
        if not self.records and kind != "run_start":
            raise InvalidEventError(f"{kind} before run_start: write run_start first")
        if self.run_id is not None and kind == "run_start":
            raise InvalidEventError("a second run_start: a stream has one run; resume it with run_resume")
        if self.must_resume and kind != "run_resume":
            raise InvalidEventError(f"{kind} in a resumed stream: write run_resume first")

    def admit_step(self, step: int, phase: str) -> None:
        """Raise InvalidEventError when *step* is not greater than the last one of *phase*."""
        last = self._last_steps.get(phase, -1)
        if step <= last:
            fact = f"step {step} after step {last} in phase {phase}: step numbers must increase"
            raise InvalidEventError(f"{fact}; to repeat steps, write run_resume first")

    def take(self, kind: str | None, event: Mapping[str, Any]) -> None:
        """Learn from a record in the stream; fields of the wrong type are ignored."""
        t = event.get("t")
        if kind in _KINDS and isinstance(t, int | float) and not isinstance(t, bool):
            self.time = max(self.time, float(t))
        if kind == "step" and is_count(event.get("step")):
            loss = event.get("loss", UNSET)
            loss = loss if loss is None or type(loss) in {float, int} else UNSET
            self.take_step(self.time, event["step"], phase_of(event) or self.phase, loss)
            return
        if kind == "scalars":
            is_train = is_count(event.get("step")) and (phase_of(event) or self.phase) == _TRAIN
            self.take_values(self.time, event["step"] if is_train else None)
            return
        self.records += 1
        if kind == "run_start" and self.run_id is None:
            self.run_id = event.get("run_id") if isinstance(event.get("run_id"), str) else ""
            self.phase = phase_of(event) or _TRAIN
            self._take_config(event.get("config"), self._first_settings)
        elif kind == "run_resume":
            self._resume(event.get("from_step"))
            self._take_config(event.get("config"), self._first_settings)
        elif kind == "run_config":
            self._take_config(event.get("config"))
        elif kind == "run_end":
            self.ended = True
        self.is_running = not self.ended and not self.must_resume

    def take_step(self, t: float, step: int, phase: str, loss: float | UnsetType | None) -> None:
        """Learn from a step record in the stream."""
        self.records += 1
        self.time = t
        self._last_steps[phase] = self._logged_steps[phase] = step
        if phase == _TRAIN:
            self.last_train_step = step
            self.last_train_loss = loss

    def take_values(self, t: float, step: int | None) -> None:
        """Learn from a record of values; *step* is None unless it is one of phase train."""
        self.records += 1
        self.time = max(self.time, t)
        if step is not None:
            self._has_values = True
            self._last_values_step = max(self._last_values_step or 0, step)

    def last_of(self, phase: str) -> int:
        """Return the last step of *phase* in this attempt; -1 before the first."""
        return self._last_steps.get(phase, -1)

    def changed(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of *config* that differ from those of the run; None for those that it lacks."""
        different = {key: value for key, value in config.items() if key not in self.config or self.config[key] != value}
        gone = [key for key in self._first_settings if key not in config and self.config[key] is not None]
        return different | dict.fromkeys(gone)

    def _take_config(self, config: Any, *others: dict[str, Any]) -> None:
        for known in (self.config, *others):
            known.update(config if isinstance(config, dict) else {})

    def _resume(self, from_step: Any) -> None:
        self.must_resume = False
        self.had_ended = False
        self.ended = False
        self.from_step = from_step if is_count(from_step) else 0
        self._last_steps = {_TRAIN: from_step} if is_count(from_step) else {}
        self._logged_steps = {}
        self._last_values_step = None


def phase_of(event: Mapping[str, Any]) -> str | None:
    """Return the phase of *event*; None where it has no valid one."""
    phase = event.get("phase")
    return phase if is_phase(phase) else None


_NOT_METRICS: Final = frozenset(["kind", "phase", "t", "step", "extra", "nonfinite"])
# A resumed run that only adds values may do so without end.
_MOST_EARLY: Final = 10_000


class Resumption:
    """What a resumed stream knows of where its run goes on, and what it has logged before that is known.

    It writes nothing: the stream asks it before and after each record, and passes its progress.
    """

    def __init__(self) -> None:
        self.names = LoggedNames()
        """The metrics of the stream as it was found."""
        self.members: dict[str, Any] = {}
        """Members of the run_resume that comes by itself, besides where the run goes on."""
        self.awaits_first_step = False
        """True between a run_resume that came before any step and the first train step after it."""
        # The last records at steps before the first step, and whether the step was counted.
        self._early: list[tuple[dict[str, Any], bool]] = []
        self._early_count = 0

    def is_early(self, progress: RunProgress) -> bool:
        """Return whether the next train step may go back further than the run_resume said."""
        return self.awaits_first_step or progress.is_resumed_before_steps

    def is_decided_by(self, first: int | None, kind: str, progress: RunProgress) -> bool:
        """Return whether a record of *kind* at the train step *first* is the first one after a run_resume.

        After one of the caller's own, only a ``step`` record is.
        """
        if first is None:
            return False
        return self.awaits_first_step or (kind == "step" and progress.is_resumed_before_steps)

    def from_step(self, first: int | None, progress: RunProgress) -> int | None:
        """Return the ``from_step`` of the run_resume to write before the train step *first*; None for no run_resume.

        Where a run_resume is due, what comes before the first train step goes on from the last one.
        """
        if progress.must_resume:
            return first - 1 if first is not None else progress.resume_step or 0
        if first is None or progress.from_step is None or progress.has_steps:
            return None
        return first - 1 if first <= progress.from_step else None

    def settle(self, *, is_decided: bool) -> None:
        """Take that the run_resume is written, and whether a train step has decided where the run goes on."""
        self.awaits_first_step = not is_decided
        self.forget()

    def keep(self, record: Mapping[str, Any], *, is_counted: bool) -> None:
        """Keep a *record* that is written early; its step *is_counted* where the stream gave it."""
        del self._early[: len(self._early) + 1 - _MOST_EARLY]
        self._early.append(({key: record[key] for key in record if key != "t"}, is_counted))
        self._early_count += 1

    def forget(self) -> None:
        """Forget the early records: no later run_resume supersedes them."""
        self._early.clear()
        self._early_count = 0

    def superseded(self, from_step: int) -> tuple[list[dict[str, Any]], list[LeftOut]]:
        """Return, and forget, the early records that a run_resume from *from_step* supersedes, to be written again.

        The second part says how many are no longer known.
        """
        unknown = self._early_count - len(self._early)
        found = [
            {**members, "step": from_step} if is_counted else members
            for members, is_counted in self._early
            if members["step"] > from_step
        ]
        self.forget()
        if not unknown:
            return found, []
        why = f"more than {_MOST_EARLY} were logged before the first step, which went back to {from_step + 1}"
        return found, [LeftOut(f"what was logged before the first step ({unknown} records)", why)]

    def adds(self, values: object, step: object, progress: RunProgress) -> bool:
        """Return whether *values* at *step* add to steps of an earlier attempt, and do not repeat them."""
        last = progress.resume_step if progress.must_resume else progress.from_step
        if not (progress.must_resume or self.awaits_first_step) or type(step) is not int:
            return False
        members = members_in(values)
        if last is None or step > last or members is None:
            return False
        found = SortedValues(members)
        return not self.names.are_repeated([*found.numbers, *found.texts], step)


class LoggedNames:
    """The metrics of an existing stream, and the last train step at which each was logged.

    They tell a repetition of steps from values that are added to them, such as a later evaluation of a checkpoint.
    """

    def __init__(self) -> None:
        self._of_steps: dict[str, int] = {}
        self._of_values: dict[str, int] = {}
        self._highest = 0

    def take(self, kind: str | None, event: Mapping[str, Any], phase: str) -> None:
        """Learn from a record in the stream, whose run is in *phase*."""
        step: Any = event.get("step")
        if kind == "run_resume":
            self._go_back(event.get("from_step"))
        elif not is_count(step) or (phase_of(event) or phase) != "train":
            return
        elif kind == "step":
            extra = event.get("extra")
            names = event.keys() - _NOT_METRICS
            self._of_steps.update(dict.fromkeys([*names, *extra] if isinstance(extra, dict) else names, step))
        elif kind == "scalars" and step >= self._highest:
            # Values at an earlier step are added to it.
            self._highest = step
            for values in (event.get("values"), event.get("texts")):
                self._of_values.update(dict.fromkeys(values, step) if isinstance(values, dict) else {})

    def are_repeated(self, names: Iterable[str], step: int) -> bool:
        """Return whether values by *names* at *step* repeat steps that are in the stream, rather than add to them.

        The loop of a run that writes ``step`` records goes on by these: only a metric of them repeats one.
        """
        known = self._of_steps or self._of_values
        return any(known.get(name, -1) >= step for name in names)

    def _go_back(self, from_step: Any) -> None:
        self._highest = last = from_step if is_count(from_step) else 0
        for known in (self._of_steps, self._of_values):
            for name, step in known.items():
                known[name] = min(step, last)
