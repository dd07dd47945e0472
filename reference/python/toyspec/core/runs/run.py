"""One run: what it comes to, its settings and metrics, and its records, which are read when they are asked for."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core import rooms
from toyspec.core.errors import StreamError
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import Reading, read
from toyspec.core.runs.columns import ALERT_FIELDS, OWN_FIELDS, needs_metrics
from toyspec.core.runs.ends import summarize_ends
from toyspec.core.runs.summarizing import summarize_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toyspec.core.findings import ReadReport
    from toyspec.core.reading.reader import AttemptView
    from toyspec.core.runs.history import History
    from toyspec.core.runs.ranks import Ranks
    from toyspec.core.runs.run_facts import MetricFacts, RunFacts
    from toyspec.core.runs.summary import RunSummary

# What depends on settings.
_PLANNED = frozenset(["progress", "remaining", "eta"])


def open_run(path: str | os.PathLike[str], *, dialect: DialectChoice | str | None = "auto") -> Run:
    """Return the run at *path*, a run directory or a stream, also in a store; all of it is read once.

    The log of another program is a run too if its *dialect* is recognized. A torn or damaged run raises nothing:
    see ``facts.state`` and ``report``. Raises StreamMissingError, StreamUnreadableError, and UnknownFormatError for
    what is not a run.
    """
    return Run.of(summarize_run(os.fspath(path), dialect=DialectChoice.of(dialect)))


class Run:
    """One run, as it was when it was read. Further reading, for ``records`` and ``history``, shows it as it is then."""

    def __init__(self, facts: RunFacts, choice: DialectChoice | None = None) -> None:
        """Return the run of *facts*, whose stream is read as *choice* says."""
        self.facts = facts
        """What the run comes to, as far as it was read: of a long one, a list reads only the ends."""
        self._choice = choice or DialectChoice()

    @classmethod
    def of(cls, summary: RunSummary) -> Run:
        """Return the run of *summary*."""
        run = cls(summary.facts, summary.choice)
        if summary.facts.settings is not None:
            run.__dict__["start"] = summary.start
        return run

    def __repr__(self) -> str:
        facts = self.facts
        known = {"name": facts.name, "state": facts.state, "last_step": facts.last_step, "final_loss": facts.final_loss}
        shown = "".join(f", {name}={value!r}" for name, value in known.items() if value is not None)
        return f"{type(self).__name__}({facts.path!r}{shown})"

    def _repr_html_(self) -> str:
        from toyspec.core.runs.run_html import run_html

        return run_html(self._read())

    @property
    def path(self) -> str:
        """Path of the stream."""
        return self.facts.stream

    @cached_property
    def start(self) -> dict[str, Any]:
        """The members of the first record, ``run_start``, with the settings that resumptions have changed."""
        return self._settled[1]

    @property
    def config(self) -> dict[str, Any]:
        """The settings as the run has them, nested: ``run.config["optim"]["lr"]``; empty without any."""
        found = self.start.get("config")
        return found if isinstance(found, dict) else {}

    @property
    def metrics(self) -> dict[str, MetricFacts]:
        """What each metric comes to, by name; all of the stream is read for that, once."""
        return self.whole.metrics or {}

    @property
    def ranks(self) -> Ranks:
        """The ranks of a run of several processes, with what their logs show together."""
        from toyspec.core.runs.ranks import ranks_of

        return ranks_of(self.facts.path)

    def row(self) -> dict[str, Any]:
        """Return the facts as one flat row: every column, settings, and last and best value of each metric.

        All of the stream is read for that, once.
        """
        settings, metrics = self.whole.settings or {}, self.metrics
        found = self.whole.columns
        found |= {name if name.startswith("model.") else f"config.{name}": value for name, value in settings.items()}
        found |= {f"last.{name}": None if each.last_not_finite else each.last for name, each in metrics.items()}
        return found | {f"best.{name}": each.best for name, each in metrics.items() if each.best is not None}

    def records(self, *, attempts: AttemptView = "latest") -> Reading:
        """Return the records of the run, in order; damage is skipped, and counted in the ``report`` of the reading."""
        return read(self.path, mode="salvage", attempts=attempts, dialect=self._choice)

    def history(
        self, metrics: Sequence[str] | str | None = None, x: str = "step", *, attempts: AttemptView = "latest"
    ) -> History:
        """Return every value that the run has logged, read from its stream: see ``toyspec.history``."""
        from toyspec.core.runs.history import history

        return history(self.path, metrics, x, attempts=attempts, dialect=self._choice)

    def report(self) -> ReadReport:
        """Return the account of every byte of the stream: records, gaps, and what follows the last record."""
        with read(self.path, mode="salvage", dialect=self._choice) as reading:
            reading.give_numbers()
            for _ in reading:
                pass
            return reading.report

    @cached_property
    def whole(self) -> RunFacts:
        """The facts with every metric; those that are known if the stream cannot be read any more."""
        if self.facts.metrics is not None:
            return self.facts
        try:
            found = self._read().facts
        except StreamError:
            return self.facts
        # The other ranks of a run in a store were found with it.
        return msgspec.structs.replace(found, unended_ranks=self.facts.unended_ranks)

    def _read(self) -> RunSummary:
        return summarize_run(self.path, dialect=self._choice)

    @cached_property
    def _settled(self) -> tuple[RunFacts, dict[str, Any]]:
        """The facts and the first record with the settings of all resumptions, which the ends of a long stream lack."""
        summary = summarize_ends(self.path, dialect=self._choice)
        summary.settle()
        return summary.facts, summary.start

    def known(self, names: Iterable[str]) -> RunFacts:
        """Return the facts with the fields *names*, for which as much of the stream is read as they need."""
        names = list(names)
        others = [name for name in names if name not in OWN_FIELDS]
        found = self.facts
        if found.settings is None and (others or not _PLANNED.isdisjoint(names)):
            found = self._settled[0]
        if needs_metrics(found, others):
            found = self.whole
        # A catalog, which has the number of findings, has that of incidents too, or was built without health rules.
        if found.alerts is None and found.findings is None and not set(ALERT_FIELDS).isdisjoint(names):
            found = msgspec.structs.replace(
                found, **(rooms.health_checking.counted_incidents(self.path, self._choice) or {})
            )
        return found
