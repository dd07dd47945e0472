"""Decides where a resumed run goes on: by the first step that is logged, before which values may come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toyspec.core.writing.logged_values import LeftOut, SortedValues, members_in
from toyspec.core.writing.run_progress import is_count, phase_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toyspec.core.writing.run_progress import RunProgress

_NOT_METRICS: Final = frozenset(["kind", "phase", "t", "step", "extra", "nonfinite"])
# A resumed run that only adds values may do so without end.
_MOST_EARLY: Final = 10_000


class Resumption:
    """What a resumed stream knows of where its run goes on, and what it has logged before that is known.

    It writes nothing: the stream asks it before and after each record, and passes its progress.
    """

    __slots__ = ("_early", "_early_count", "awaits_first_step", "members", "names")

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
