"""The runs below a directory as one table: filtered, sorted, and converted to pandas, Polars or Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any, Literal, get_args, overload

from toyspec.errors import StreamError, UnknownFormatError, check_choice
from toyspec.findings import PathError
from toyspec.format.numbers import number
from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.places.addresses import path_in, public
from toyspec.reading.log_detection import DialectChoice, LogNames, usual_names
from toyspec.runs.columns import (
    OWN_FIELDS,
    Fields,
    in_order,
    needs_whole_streams,
    require_fields,
    sorted_by,
)
from toyspec.runs.discovery import find_streams
from toyspec.runs.each_result import each_result
from toyspec.runs.ends import engine_ends, summarize_ends
from toyspec.runs.expressions import expression
from toyspec.runs.history import cell_text, table_library
from toyspec.runs.rank_states import ranks_in_store
from toyspec.runs.summarizing import summarize_run
from toyspec.runs.summary import RunSummary
from toyspec.runs.walking import NotALog, Stream

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
    summarize = partial(_summary, summarize_run if read == "whole" else summarize_ends, choice)
    may_be_other = choice.is_named or choice.may_be_own
    found = (
        engine_ends([each for each in streams if not each.path.endswith(".json") and each.is_regular])
        if read == "ends" and not may_be_other
        else {}
    )
    unread = [stream for stream in streams if stream.path not in found] if found else streams
    total, skipped = sum(stream.size for stream in streams), len(others)
    done = total - sum(stream.size for stream in unread)
    for stream, summary in each_result(unread, summarize):
        if on_progress is not None:
            on_progress(done, total)
        try:
            found[stream.path] = summary()
            found[stream.path].choice = choice
            found[stream.path].may_be_annotated = stream.may_be_annotated
        except StreamError as error:
            is_foreign = isinstance(error, UnknownFormatError) and (stream.is_below or stream.is_hinted)
            if on_error == "raise" and not is_foreign:
                raise
            skipped += is_foreign and not stream.is_hinted
            errors += [] if is_foreign else [PathError(stream.path, error.fact)]
        done += stream.size
    listed = [found[stream.path] for stream in streams if stream.path in found]
    for run in listed:
        # Logs of other programs are read whole in any case.
        if not hasattr(run, "report"):
            run.read_rest = partial(_whole, choice, run)
    return Runs(listed, errors=errors, skipped=skipped).sort("run").sort("final_loss")


def _summary(summarize: Callable[..., RunSummary], choice: DialectChoice, stream: Stream) -> RunSummary:
    """Return the summary of *stream*, with the states of its other ranks where it is in a store."""
    found = summarize(stream.path, dialect=choice)
    found.known_ranks = ranks_in_store(stream.path, stream.identity)
    return found


def _whole(choice: DialectChoice, run: RunSummary) -> RunSummary:
    """Return the summary of the whole stream of *run*; that of its ends if it cannot be read any more."""
    try:
        found = summarize_run(run.path, dialect=choice)
    except StreamError:
        run.read_rest = None
        return run
    found.choice, found.may_be_annotated = run.choice, run.may_be_annotated
    found.known_ranks = run.known_ranks
    return found


class Runs(Sequence[RunSummary]):
    """Runs in an order; ``filter`` and ``sort`` give new ones.

    It shows itself as a table, in a notebook as HTML; ``toyspec.report`` shows the curves there.
    """

    def __init__(
        self,
        runs: Sequence[RunSummary],
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
        self, condition: Callable[[RunSummary], object] | Mapping[str, Any] | str | None = None, /, **fields: Any
    ) -> Runs:
        """Return the runs for which *condition* is true, and whose *fields* have the values that are named.

        *condition* may also be a filter as of ``toyspec ls`` and the viewer, ``"lr < 1e-3 and val/acc > .7"``, or a
        mapping of fields: ``{"optim.lr": 3e-4}``. Raises ExpressionError if the filter cannot be read, or no run has a
        field of that name. Metrics are read from the streams where only their ends were.
        """
        wanted = {**condition, **fields} if isinstance(condition, Mapping) else fields
        filters = [expression(condition)] if isinstance(condition, str) else []
        found = self._with([*wanted, *(name for each in filters for name in each.fields)])
        require_fields(wanted, found, filters)
        kept = [
            each.run
            for each in found
            if (not callable(condition) or condition(each.run))
            and all(filter_.holds(each.question) for filter_ in filters)
            and all(each.value(name) == value for name, value in wanted.items())
        ]
        return self._like(kept)

    def sort(self, by: str | Callable[[RunSummary], Any], *, reverse: bool = False) -> Runs:
        """Return the runs in the order of a field or a key; those without a value come last, whichever way round.

        A metric with a goal has its best value first, all else its smallest. The order of runs with equal values stays.
        Raises ExpressionError if no run has a field of that name.
        """
        if not callable(by):
            found = self._with([by])
            require_fields([by], found)
            return self._like([each.run for each in sorted_by(found, by, reverse=reverse)])
        return self._like(in_order(self._runs, lambda run: _order(by(run)), reverse=reverse))

    def best(self, field: str = "final_loss", *, goal: Literal["min", "max"] | None = None) -> RunSummary | None:
        """Return the run with the best number in *field*; None where no run has a number there.

        The best is the smallest (*goal* ``"min"``) or the largest (``"max"``); without *goal* it is as the runs define
        the metric, else the smallest. Raises ExpressionError if no run has a field of that name.
        """
        found = self._with([field])
        require_fields([field], found)
        ranked = sorted_by(found, field, goal=goal)
        first = ranked[0] if ranked else None
        return None if first is None or number(first.value(field)) is None else first.run

    def _with(self, names: Sequence[str]) -> list[Fields]:
        """Return the fields of the runs, whose metrics are known where *names* may be metrics."""
        if not needs_whole_streams(names):
            return [Fields(run) for run in self._runs]
        others = [name for name in names if name not in OWN_FIELDS]

        def known(run: RunSummary) -> Fields:
            fields = Fields(run)
            if run.read_rest is None or all(fields.is_setting(name) for name in others):
                return fields
            return Fields(run.read_rest())

        return list(map(known, self._runs))

    def _like(self, runs: Sequence[RunSummary]) -> Runs:
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
    def __getitem__(self, index: int) -> RunSummary: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> RunSummary | Runs:
        if isinstance(index, slice):
            return self._like(self._runs[index])
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[RunSummary]:
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
        rows = (run.facts.all() for run in self._runs[:_SHOWN_RUNS])
        return [tuple(cell_text(row.get(name)) for name in _SHOWN_COLUMNS) for row in rows]


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
