"""The table of the runs of a catalog, as lists of values and as runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.catalog.filter_sql import condition, field_json, is_own, meanings, number_of, string_of
from toyspec.catalog.layout import read_manifest, unreadable
from toyspec.catalog.tables import COLUMNS, connect, library, name, parquet, text
from toyspec.format.pointers import pointer_to
from toyspec.runs.columns import ALERT_FIELDS, metric_of, unknown_field
from toyspec.runs.metric_names import MOST_ALIKE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toyspec.catalog.layout import Manifest
    from toyspec.findings import Ended
    from toyspec.runs.expressions import Expression
    from toyspec.runs.listing import Runs
    from toyspec.runs.summary import RunState


class RunColumns(NamedTuple):
    """The usual columns of a list; all have one length and one order."""

    path: list[str]
    """The directory of each run."""
    name: list[str | None]
    """The name of a run that is a root of the catalog, whose path from there is empty; None of others."""
    state: list[RunState]
    sealed: list[bool]
    reason: list[str | None]
    last_step: list[int | None]
    final_loss: list[float | None]
    seconds: list[float | None]
    started_at: list[str | None]
    as_of: list[int | None]
    """See RunSummary."""
    given_name: list[str | None]
    """The name by annotation, else the one that the run gives itself, where it is not that of the run's directory."""
    starred: list[bool]
    ended: list[Ended]
    unended_ranks: list[list[tuple[int, str]] | None]
    """Which other ranks had a log that was not whole when the run was read, and which it was: see ``unended``."""
    says_final_loss: list[bool]
    """Whether the run says its final loss, also where that was not finite."""
    more: dict[str, list[Any]] = {}  # noqa: RUF012 - never changed
    """Other columns by name."""


Order = Literal["loss", "name", "state", "steps", "took", "started"]
"""What runs are sorted by: the lowest loss, the longest and the most steps are first."""

_ORDERS: dict[Order, str] = {
    "loss": "final_loss",
    "name": "stream",
    "state": "list_position(['complete', 'running', 'torn', 'damaged'], state)",
    "steps": "-nullif(last_step, 0)",
    "took": "-nullif(seconds, 0)",
    "started": "started_at",
}

_LISTED = ("path", "run", "state", "sealed", "reason", "last_step", "said_loss", "seconds", "started_at", "as_of",
           "given_name", "starred", "ended", "unended_ranks")  # fmt: skip

_GIVEN_NAME = "nullif(nullif(\"name\", ''), run)"

# Rows that are handed over at once: they are in order also if several threads read.
_FEW = 2048


class RunSelection(NamedTuple):
    """Which runs of a catalog are wanted, and in which order."""

    filters: Sequence[Expression] = ()
    sort: str = "loss"
    """An Order, or the name of a field: the best value of a metric with a goal is first, else the smallest."""
    reverse: bool = False
    limit: int | None = None


class RunTable:
    """The runs of a catalog: what lists of them are made of. ``Catalog`` is the part of it for users."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the catalog at *path*; raise CatalogError for what is not a catalog of this version."""
        self.path = os.fspath(path)
        self.manifest: Manifest = read_manifest(self.path)
        self._connections: dict[int | None, Any] = {}

    def chosen(self, choice: RunSelection) -> Runs:
        """Return the runs of *choice*. Raise ExpressionError for a field that no run has."""
        # Imported when used: most lists make no run.
        from toyspec.catalog.rows import CatalogRun
        from toyspec.runs.listing import Runs

        every = ", ".join(map(name, COLUMNS))
        rows = self._fetched(f"SELECT {every} FROM {self._selected(choice)}") if self.manifest.runs else []
        runs = [CatalogRun(dict(zip(COLUMNS, row, strict=True))) for row in rows]
        return Runs(runs, errors=self.manifest.errors, skipped=self.manifest.skipped)

    def listed(self, choice: RunSelection, more: Sequence[str] = ()) -> RunColumns:
        """Return what a list shows of the runs of *choice*, with the fields *more*; raise as ``chosen`` does."""
        selected = self._selected(choice, more)
        roots = ", ".join(map(text, self.manifest.roots)) or "NULL"
        # Of a hundred thousand runs, a column takes as long as to start Python.
        shown = {
            "run": f"CASE WHEN path IN ({roots}) THEN run END",
            "said_loss": "said_loss::JSON",
            "unended_ranks": "unended_ranks::JSON",
            "given_name": _GIVEN_NAME,
        }
        columns = [shown.get(column, column) for column in _LISTED] + [f"{field_json('reason', has_endings=False)}"]
        is_short = choice.limit is not None and choice.limit <= _FEW
        lists = self._lists([*columns, "said_loss IS NOT NULL", *map(_column, more)], selected, is_short=is_short)
        usual, reasons, says, *found = [lists[: len(_LISTED)], *lists[len(_LISTED) :]]
        usual[_LISTED.index("reason")] = reasons
        return RunColumns._make([*usual, says, dict(zip(more, found, strict=True))])

    def count(self, filters: Sequence[Expression]) -> int:
        """Return the number of runs that meet all *filters*."""
        if not filters:
            return self.manifest.count
        ((found,),) = self._fetched(f"SELECT count(*) FROM {self._selected(RunSelection(filters, sort='name'))}")
        return int(found)

    def _selected(self, choice: RunSelection, more: Sequence[str] = ()) -> str:
        """Return the SQL of the rows of *choice*, with a column for each field that it asks for and for *more*."""
        is_field = choice.sort not in _ORDERS
        asked = [each.field for filter_ in choice.filters for each in filter_.comparisons]
        fields = dict.fromkeys([*asked, *more, *([choice.sort] if is_field else [])])
        endings = self._require(fields, choice)
        made = [f"{field_json(field, has_endings=field in endings)} AS {_column(field)}" for field in fields]
        met = condition(choice.filters, {field: _column(field) for field in fields})
        rows = f"(SELECT {', '.join(['*', *made])} FROM runs) WHERE {met}"
        order = _ORDERS[choice.sort] if not is_field else ""  # type: ignore[index]  # it is one of them
        if is_field:
            order = self._order(choice.sort, rows, reverse=choice.reverse)
        else:
            order = f"{order} {'DESC' if choice.reverse else 'ASC'} NULLS LAST"
        return f"(SELECT * FROM {rows} ORDER BY {order}, stream{limited(choice.limit)})"

    def _order(self, field: str, rows: str, *, reverse: bool) -> str:
        """Return the order of ``columns.sorted_by``: numbers, then text, and runs without a value last."""
        column = _column(field)
        is_larger_better = False
        if not is_own(field):
            goal = f"json_extract_string(metrics, {text(pointer_to([metric_of(field), 'goal']))}) = 'max'"
            is_larger_better = bool(self._fetched(f"SELECT 1 FROM {rows} AND {goal} LIMIT 1"))
        number, shown = number_of(column), string_of(column)
        value = f"CASE {column}::VARCHAR WHEN 'true' THEN 'True' WHEN 'false' THEN 'False' ELSE {shown} END"
        place = f"CASE WHEN {number} IS NOT NULL THEN 0 WHEN {value} IS NOT NULL THEN 1 ELSE 2 END"
        numbers = f"{number} {'DESC' if is_larger_better != reverse else 'ASC'}"
        return f"{place}, {numbers}, {value} {'DESC' if reverse else 'ASC'}"

    def _require(self, fields: Iterable[str], choice: RunSelection) -> frozenset[str]:
        """Return those of *fields* that the names of settings end in; raise ExpressionError for one that no run has.

        A field that is only to be shown may be one that no run has.
        """
        asked_alerts = [name for name in ALERT_FIELDS if name in fields]
        if asked_alerts and self.manifest.health is None:
            raise unknown_field(asked_alerts[0], ())
        asked = [field for field in fields if not is_own(field)]
        if not asked or not self.manifest.count:
            return frozenset()
        endings = set()
        places: dict[str, int | None] = {
            each.field: each.at for filter_ in choice.filters for each in filter_.comparisons
        }
        for field in asked:
            names = meanings(field)
            wanted = {("settings", each) for each in names.setting} | {("metrics", each) for each, _ in names.metrics}
            is_named = " OR ".join(f"(part = {text(part)} AND name = {text(each)})" for part, each in sorted(wanted))
            ends = f"part = 'settings' AND ends_with(name, {text(f'.{field}')})"
            ((has, has_ending),) = self._fetched(
                f"SELECT coalesce(bool_or({is_named}), false), coalesce(bool_or({ends}), false) FROM names"
            )
            if has_ending:
                endings.add(field)
            elif not has and (field in places or field == choice.sort):
                found = self._fetched(f"SELECT DISTINCT name FROM names WHERE part <> 'findings' LIMIT {MOST_ALIKE}")
                known = dict.fromkeys(each for (known,) in found for each in (known, known.rpartition(".")[2]))
                raise unknown_field(field, known, places.get(field))
        return frozenset(endings)

    def _lists(self, columns: Sequence[str], rows: str, *, is_short: bool) -> list[list[Any]]:
        """Return *columns*, SQL of values of JSON, of *rows*, each as a list.

        DuckDB makes a text of each: a cell at a time takes three times as long.
        """
        if not self.manifest.runs:
            return [[] for _ in columns]
        named = ", ".join(f"{column} AS c{number}" for number, column in enumerate(columns))
        lists = ", ".join(f"to_json(list(c{number}))" for number in range(len(columns)))
        # One thread keeps the order of the rows.
        query = f"SELECT {lists} FROM (SELECT {named} FROM {rows})"
        ((*texts,),) = self._fetched(query, threads=None if is_short else 1)
        return [[] if each is None else msgspec.json.decode(each) or [] for each in texts]

    def _fetched(self, query: str, threads: int | None = None) -> list[tuple[Any, ...]]:
        if threads not in self._connections:
            # A list asks several times, and to connect takes as long as to read a column.
            self._connections[threads] = self._connect(threads)
        try:
            found: list[tuple[Any, ...]] = self._connections[threads].cursor().execute(query).fetchall()
        except library().Error as error:
            raise unreadable(self.path, self.manifest, error) from None
        return found

    def _files(self, table: Literal["runs", "values", "names"]) -> list[str]:
        files: list[str] = getattr(self.manifest, table)
        return [os.path.join(self.path, file) for file in files]

    def _connect(self, threads: int | None = None, runs: str = "*") -> Any:
        """Return a connection that has the tables and reaches nothing else; *runs* is the SQL of its columns."""
        connection = connect(threads=threads)
        tables = {"runs": self._files("runs"), "values": self._files("values"), "names": self._files("names")}
        try:
            for table, files in tables.items():
                if files:
                    columns = runs if table == "runs" else "*"
                    connection.execute(f"CREATE VIEW {name(table)} AS SELECT {columns} FROM {parquet('', files)}")
            if not self.manifest.runs:
                members = ", ".join(f"{name(column)} {kind}" for column, kind in COLUMNS.items())
                connection.execute(f"CREATE TABLE runs ({members})")
            connection.execute("SET TimeZone = 'UTC'")
            # A query may read the directory for what does not fit in memory, which is below the current one.
            connection.execute("SET temp_directory = ''")
            allowed = ", ".join(text(file) for files in tables.values() for file in files)
            connection.execute(f"SET allowed_paths = [{allowed}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
        except library().Error as error:
            connection.close()
            raise unreadable(self.path, self.manifest, error) from None
        return connection


def _column(field: str) -> str:
    """Return the SQL of the column of a field of a selection; DuckDB does not tell names by their case."""
    return name(f"field.{field.encode('utf-8', 'backslashreplace').hex()}")


def limited(limit: int | None) -> str:
    """Return SQL for the first *limit* rows, for all if that is None."""
    return "" if limit is None else f" LIMIT {int(limit)}"
