"""The runs below a directory as one table: filtered, sorted, and converted to pandas, Polars or Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from toyspec.core.errors import StreamError, UnknownFormatError, check_choice
from toyspec.core.findings import PathError
from toyspec.core.format.numbers import number
from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.core.places.addresses import is_address, path_in, public
from toyspec.core.reading.log_detection import DialectChoice, LogNames, usual_names
from toyspec.core.runs.columns import in_order, meets, places_by, require_fields, value_of
from toyspec.core.runs.discovery import find_streams
from toyspec.core.runs.each_result import each_result
from toyspec.core.runs.ends import engine_ends, summarize_ends
from toyspec.core.runs.expressions import expression
from toyspec.core.runs.history import cell_text, table_library
from toyspec.core.runs.rank_states import states_of_other_ranks
from toyspec.core.runs.run import Run
from toyspec.core.runs.summarizing import summarize_run
from toyspec.core.runs.walking import NotALog, Stream, ranks_in

if TYPE_CHECKING:
    from toyspec.core.runs.run_facts import RunFacts
    from toyspec.core.runs.summary import RunSummary

Extent = Literal["ends", "whole"]
"""How much of each stream is read: its first and last lines, or every byte."""

_SHOWN_RUNS = 20
_SHOWN_COLUMNS = ("run", "state", "reason", "last_step", "final_loss", "started_at")
# A run that has events is listed by them alone.
_SECOND = (f"{os.sep}{METRICS_FILE}", f"/{METRICS_FILE}")


def list_runs(  # noqa: PLR0913 - each is an option of its own
    *roots: str | os.PathLike[str],
    read: Extent = "ends",
    on_error: Literal["skip", "raise"] = "skip",
    on_progress: Callable[[int, int], None] | None = None,
    on_look: Callable[[], object] | None = None,
    dialect: DialectChoice | str | None = "auto",
    profiles: Sequence[str | os.PathLike[str]] = (),
) -> Runs:
    """Return the runs below *roots*, of every profile, the lowest final loss first and those without one last.

    The logs of other programs are runs too if their *dialect* is recognized; None leaves them out. *profiles* are
    directories of profiles of the user, which are tried first.
    A root is a directory that is searched to any depth, a run directory, or a stream, also in an object store
    (``s3://bucket/runs``); the default is the current directory. With *read* ``"whole"`` every byte is read, and the
    metrics of each run are known. A run that cannot be read does not stop the others: it is in ``errors``; with
    *on_error* ``"raise"`` its StreamError is raised. A file of another format below a root is not a run: it is counted
    in ``skipped``. *on_progress* is given the number of bytes done and of all bytes; before that, *on_look* is called
    for each file that may be a log of another program.
    """
    check_choice("read", read, get_args(Extent))
    check_choice("on_error", on_error, ("skip", "raise"))
    own = [os.fspath(each) for each in profiles]
    choice = dialect if isinstance(dialect, DialectChoice) else DialectChoice(dialect, profiles=own)
    others: list[str] = []
    named = [public(os.fspath(root)) for root in roots] or ["."]
    names = usual_names(choice)
    if isinstance(names, LogNames):
        names.on_look = on_look
    errors, streams = streams_below(named, names, others.append)
    summarize = summarize_run if read == "whole" else summarize_ends
    may_be_other = choice.is_named or choice.may_be_own
    found = (
        engine_ends([each for each in streams if not each.path.endswith(".json") and each.is_regular])
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
            if on_error == "raise" and not is_foreign:
                raise
            skipped += is_foreign and not stream.is_hinted
            errors += [] if is_foreign else [PathError(stream.path, error.fact)]
        done += stream.size
    listed = [runs[stream.path] for stream in streams if stream.path in runs]
    return Runs(listed, errors=errors, skipped=skipped).sort("run").sort("final_loss")


def _run(summary: RunSummary, stream: Stream, choice: DialectChoice) -> Run:
    """Return the run of *summary*, with what a search has found beside its *stream*."""
    summary.choice, summary.may_be_annotated = choice, stream.may_be_annotated
    if not stream.is_hinted:
        summary.is_sealed = stream.is_sealed
    if stream.identity and not ranks_in(stream.identity):
        summary.known_ranks = ()
    elif is_address(stream.path):
        summary.known_ranks = states_of_other_ranks(stream.path, stream.identity)
    return Run.of(summary)


class Runs(Sequence[Run]):
    """Runs in an order; ``filter`` and ``sort`` give new ones.

    It shows itself as a table, in a notebook as HTML; ``toyspec.report`` shows the curves there.
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

    def filter(
        self, condition: Callable[[Run], object] | Mapping[str, Any] | str | None = None, /, **fields: Any
    ) -> Runs:
        """Return the runs for which *condition* is true, and whose *fields* have the values that are named.

        *condition* may also be a filter as of ``toyspec ls`` and the viewer, ``"lr < 1e-3 and val/acc > .7"``, or a
        mapping of fields: ``{"optim.lr": 3e-4}``. Raises ExpressionError if the filter cannot be read, or no run has a
        field of that name. Metrics are read from the streams where only their ends were.
        """
        wanted = {**condition, **fields} if isinstance(condition, Mapping) else fields
        filters = [expression(condition)] if isinstance(condition, str) else []
        names = [*wanted, *(name for each in filters for name in each.fields)]
        found = [run.known(names) for run in self._runs]
        require_fields(wanted, found, filters)
        kept = [
            run
            for run, facts in zip(self._runs, found, strict=True)
            if (not callable(condition) or condition(run))
            and meets(facts, filters)
            and all(value_of(facts, name) == value for name, value in wanted.items())
        ]
        return self._like(kept)

    def sort(self, by: str | Callable[[Run], Any], *, reverse: bool = False) -> Runs:
        """Return the runs in the order of a field or a key; those without a value come last, whichever way round.

        A metric with a goal has its best value first, all else its smallest. The order of runs with equal values stays.
        Raises ExpressionError if no run has a field of that name.
        """
        if callable(by):
            return self._like(in_order(self._runs, lambda run: _order(by(run)), reverse=reverse))
        return self._like([self._runs[at] for at in places_by(self._known(by), by, reverse=reverse)])

    def best(self, field: str = "final_loss", *, goal: Literal["min", "max"] | None = None) -> Run | None:
        """Return the run with the best number in *field*; None where no run has a number there.

        The best is the smallest (*goal* ``"min"``) or the largest (``"max"``); without *goal* it is as the runs define
        the metric, else the smallest. Raises ExpressionError if no run has a field of that name.
        """
        found = self._known(field)
        first = next(iter(places_by(found, field, goal=goal)), None)
        return None if first is None or number(value_of(found[first], field)) is None else self._runs[first]

    def _known(self, field: str) -> list[RunFacts]:
        """Return the facts of the runs, one of which has *field*; raise ExpressionError otherwise."""
        found = [run.known([field]) for run in self._runs]
        require_fields([field], found)
        return found

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

    def to_polars(self) -> Any:
        """Return a Polars DataFrame with one row for each run. Raise ImportError without Polars."""
        return table_library("polars").DataFrame(self._columns(), strict=False)

    def to_arrow(self) -> Any:
        """Return an Arrow table with one row for each run. Raise ImportError without pyarrow."""
        return table_library("pyarrow").table(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        """Return the columns; one whose values are of several types becomes text: a table has one type a column."""
        rows = self.rows()
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
        return {name: _of_one_type(values) for name, values in columns.items()}

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
        cells = [_SHOWN_COLUMNS, *self._shown()]
        widths = [max(len(row[at]) for row in cells) for at in range(len(_SHOWN_COLUMNS))]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        )
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _SHOWN_COLUMNS)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._shown())
        return f"<table><caption>{self._title()}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _title(self) -> str:
        title = f"{len(self)} run" if len(self) == 1 else f"{len(self)} runs"
        more = [f"the first {_SHOWN_RUNS} are shown"] if len(self) > _SHOWN_RUNS else []
        more += [f"{len(self.errors)} could not be read"] if self.errors else []
        return ", ".join([title, *more])

    def _shown(self) -> list[tuple[str, ...]]:
        return [tuple(cell_text(run.facts[name]) for name in _SHOWN_COLUMNS) for run in self._runs[:_SHOWN_RUNS]]


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


def _order(value: Any) -> tuple[bool, Any] | None:
    """Return a key that compares a column with values of several types: numbers before text; None for None."""
    return None if value is None else (not isinstance(value, int | float), value)


def _of_one_type(values: list[Any]) -> list[Any]:
    types = {type(value) for value in values if value is not None}
    if len(types) <= 1 or types == {int, float}:
        return values
    return [value if value is None else str(value) for value in values]
