"""One run, and runs in an order, as a program reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import msgspec

from toyspec.core import rooms
from toyspec.core.errors import ExpressionError, StreamError, UnknownFormatError, check_choice
from toyspec.core.findings import PathError
from toyspec.core.format.numbers import number
from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.core.places.addresses import path_in, public
from toyspec.core.reading.log_detection import DialectChoice, LogNames, usual_names
from toyspec.core.reading.reader import Reading, read
from toyspec.core.runs.columns import (
    ALERT_FIELDS,
    OWN_FIELDS,
    field_goal,
    meets,
    metric_of,
    needs_metrics,
    places_by,
    requiring,
    value_of,
)
from toyspec.core.runs.discovery import NotALog, Stream, each_result, find_streams, is_counted
from toyspec.core.runs.expressions import expression
from toyspec.core.runs.history import table_library
from toyspec.core.runs.summary import engine_ends, summarize_ends, summarize_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.core.reading.reader import AttemptView
    from toyspec.core.runs.history import History
    from toyspec.core.runs.run_facts import MetricFacts, RunFacts
    from toyspec.core.runs.summary import RunSummary


# What depends on settings.
_PLANNED = frozenset(["progress", "remaining", "eta"])


def open_run(path: str | os.PathLike[str], *, dialect: DialectChoice | str | None = "auto") -> Run:
    """Return the run at *path*, a run directory or a stream, also in a store; all of it is read once.

    The log of another program is a run too if its *dialect* is recognized. A torn or damaged run raises nothing:
    see ``facts.state`` and ``records().report``. Raises StreamMissingError, StreamUnreadableError, and
    UnknownFormatError for what is not a run.
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
        known = [("name", facts.name), ("state", facts.state_text)]
        known += [(name, facts[name]) for name in ("last_step", "final_loss")]
        shown = "".join(f", {name}={value!r}" for name, value in known if value is not None)
        return f"{type(self).__name__}({facts.path!r}{shown})"

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

    def history(self, metrics: Sequence[str] | str | None = None, *, attempts: AttemptView = "latest") -> History:
        """Return every value that the run has logged, read from its stream: see ``toyspec.history``."""
        from toyspec.core.runs.history import history

        return history(self.path, metrics, attempts=attempts, dialect=self._choice)

    @cached_property
    def whole(self) -> RunFacts:
        """The facts with every metric; those that are known if the stream cannot be read any more."""
        if self.facts.metrics is not None:
            return self.facts
        try:
            found = summarize_run(self.path, dialect=self._choice).facts
        except StreamError:
            return self.facts
        # The other ranks of a run in a store were found with it.
        return msgspec.structs.replace(found, unended_ranks=self.facts.unended_ranks)

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


Extent = Literal["ends", "whole"]
"""How much of each stream is read: its first and last lines, or every byte."""

_SHOWN_RUNS = 20
# A run that has events is listed by them alone.
_SECOND = (f"{os.sep}{METRICS_FILE}", f"/{METRICS_FILE}")


def list_runs(
    *roots: str | os.PathLike[str],
    read: Extent = "ends",
    on_progress: Callable[[int, int], None] | None = None,
    on_look: Callable[[], object] | None = None,
    dialect: DialectChoice | str | None = "auto",
) -> Runs:
    """Return the runs below *roots*, of every profile, the lowest final loss first and those without one last.

    The logs of other programs are runs too if their *dialect* is recognized; None leaves them out.
    A root is a directory that is searched to any depth, a run directory, or a stream, also in an object store
    (``s3://bucket/runs``); the default is the current directory. With *read* ``"whole"`` every byte is read, and the
    metrics of each run are known. A run that cannot be read does not stop the others: it is in ``errors``. A file of
    another format below a root is not a run: it is counted in ``skipped``. *on_progress* is given the number of bytes
    done and of all bytes; before that, *on_look* is called for each file that may be a log of another program.
    """
    check_choice("read", read, get_args(Extent))
    choice = DialectChoice.of(dialect)
    others: list[str] = []
    named = [public(os.fspath(root)) for root in roots] or ["."]
    names = usual_names(choice)
    if isinstance(names, LogNames):
        names.on_look = on_look
    errors, streams = streams_below(named, names, others.append)
    summarize = summarize_run if read == "whole" else summarize_ends
    may_be_other = choice.is_named or choice.may_be_own
    found = (
        engine_ends([each for each in streams if not each.path.endswith(".json")])
        if read == "ends" and not may_be_other
        else {}
    )
    runs = {stream.path: _run(found[stream.path], stream, choice) for stream in streams if stream.path in found}
    unread = [stream for stream in streams if stream.path not in runs]
    total, skipped = sum(stream.size for stream in streams), len(others)
    done = total - sum(stream.size for stream in unread)
    for stream, run in each_result(unread, lambda each: _run(summarize(each.path, dialect=choice), each, choice)):
        if on_progress is not None:
            on_progress(done, total)
        try:
            runs[stream.path] = run()
        except StreamError as error:
            is_foreign = isinstance(error, UnknownFormatError) and (stream.is_below or stream.is_hinted)
            skipped += is_foreign and (not stream.is_hinted or is_counted(stream.path, stream.size))
            errors += [] if is_foreign else [PathError(stream.path, error.fact)]
        done += stream.size
    listed = [runs[stream.path] for stream in streams if stream.path in runs]
    return Runs(listed, errors=errors, skipped=skipped).sort("run").sort("final_loss")


def _run(summary: RunSummary, stream: Stream, choice: DialectChoice) -> Run:
    """Return the run of *summary*, with what a search has found beside its *stream*."""
    summary.choice, summary.found = choice, stream
    return Run.of(summary)


class Runs(Sequence[Run]):
    """Runs in an order; ``filter`` and ``sort`` give new ones.

    ``to_pandas`` makes a table of them, and ``toyspec.report`` shows their curves in a notebook.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        errors: Sequence[PathError] = (),
        skipped: int = 0,
    ) -> None:
        self._runs = tuple(runs)
        self.errors = tuple(errors)
        """Paths that could not be read, each with the reason."""
        self.skipped = skipped
        """Number of files of other formats below the roots."""

    def filter(self, condition: str) -> Runs:
        """Return the runs that meet *condition*, a filter as of ``toyspec ls``: ``"lr < 1e-3 and val/acc > .7"``.

        Raises ExpressionError if the filter cannot be read, or no run has a field of that name. Metrics are read from
        the streams where only their ends were.
        """
        wanted = expression(condition)
        found = list(requiring((run.known(wanted.fields) for run in self._runs), [], [wanted]))
        return self._like([run for run, facts in zip(self._runs, found, strict=True) if meets(facts, [wanted])])

    def sort(self, by: str, *, reverse: bool = False) -> Runs:
        """Return the runs in the order of a field; those without a value come last, whichever way round.

        A metric with a goal has its best value first, all else its smallest. The order of runs with equal values stays.
        Raises ExpressionError if no run has a field of that name.
        """
        return self._like([self._runs[at] for at in places_by(self._known(by), by, reverse=reverse)])

    def best(self, field: str = "final_loss", *, goal: Literal["min", "max"] | None = None) -> Run | None:
        """Return the run with the best number in *field*; None where no run has a number there.

        The best is the smallest (*goal* ``"min"``) or the largest (``"max"``). Without *goal* it is as the runs define
        the metric or as its name says, and the smallest for any other field. Raises ExpressionError if no run has a
        field of that name, or a metric for which nothing says which values are better [toy/define/default-goal].
        """
        found = self._known(field)
        goal = goal or field_goal(found, field)
        if goal is None:
            advice = f"pass goal='max' or goal='min', or log it: run.define({metric_of(field)!r}, goal='max')"
            raise ExpressionError(f"nothing says whether a larger or a smaller {field} is better; {advice}")
        first = next(iter(places_by(found, field, goal=goal)), None)
        return None if first is None or number(value_of(found[first], field)) is None else self._runs[first]

    def _known(self, field: str) -> list[RunFacts]:
        """Return the facts of the runs, one of which has *field*; raise ExpressionError otherwise."""
        return list(requiring((run.known([field]) for run in self._runs), [field]))

    def _like(self, runs: Sequence[Run]) -> Runs:
        return Runs(runs, errors=self.errors, skipped=self.skipped)

    def rows(self) -> list[dict[str, Any]]:
        """Return each run as a flat mapping, all with the same keys in the same order; None where a run has none."""
        rows = [run.row() for run in self._runs]
        names = dict.fromkeys(name for row in rows for name in row)
        return [{name: row.get(name) for name in names} for row in rows]

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one row for each run. Raise ImportError without pandas."""
        return table_library("pandas").DataFrame(self.rows())

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Run | Runs:
        if isinstance(index, slice):
            return self._like(self._runs[index])
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        return "\n".join([self._title(), *map(repr, self._runs[:_SHOWN_RUNS])])

    def _title(self) -> str:
        title = f"{len(self)} run" if len(self) == 1 else f"{len(self)} runs"
        more = [f"the first {_SHOWN_RUNS} are shown"] if len(self) > _SHOWN_RUNS else []
        more += [f"{len(self.errors)} could not be read"] if self.errors else []
        return ", ".join([title, *more])


def streams_below(
    roots: Sequence[str], hints: Sequence[str], on_other: Callable[[str], object] | None = None
) -> tuple[list[PathError], list[Stream]]:
    """Return what could not be listed, and each stream below *roots* once; metrics beside events are not a run.

    *on_other* is called with the path of each file that is text and not a log.
    """
    errors: list[PathError] = []
    streams: dict[str, Stream] = {}
    for root in roots:
        real_root = os.path.realpath(root)
        for found in find_streams(root, hints=hints):
            if isinstance(found, PathError):
                errors.append(found)
            elif isinstance(found, Stream):
                # Below a root only a file may be a link: to ask for the real path of each costs more than to read.
                real = os.path.realpath(found.path) if found.is_link else real_root + found.path[len(root) :]
                streams[real] = found
            elif isinstance(found, NotALog) and on_other is not None:
                on_other(found.path)
    return errors, one_of_each_run(streams)


def named_streams(roots: Sequence[str], choice: DialectChoice) -> list[Stream]:
    """Return each stream below *roots* once; raise StreamError where one cannot be listed, or there is none."""
    errors, streams = streams_below(roots, usual_names(choice))
    for error in errors:
        raise StreamError(error.path, error.message)
    if not streams:
        raise UnknownFormatError(", ".join(roots), "no run here")
    return streams


def one_of_each_run(streams: Mapping[str, Stream]) -> list[Stream]:
    """Return *streams*, by their paths, without metrics beside events."""
    seconds = [path for path in streams if path.endswith(_SECOND)]
    dropped = {path for path in seconds if path_in(os.path.dirname(path), EVENTS_FILE) in streams}
    return [stream for path, stream in streams.items() if path not in dropped]
