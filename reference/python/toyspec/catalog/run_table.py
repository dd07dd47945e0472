"""The table of the runs of a catalog, as lists of values and as runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.catalog.asked_columns import asked_columns
from toyspec.catalog.layout import read_manifest, unreadable
from toyspec.catalog.run_columns import RunColumns
from toyspec.catalog.tables import COLUMNS, connect, library, name, parquet, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.catalog.layout import Manifest
    from toyspec.catalog.rows import CatalogRun
    from toyspec.runs.listing import Runs

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

EVERY = ", ".join(map(name, COLUMNS))
_LISTED = ("path", "run", "state", "sealed", "reason", "last_step", "final_loss", "seconds", "started_at")

# Rows that are handed over at once: they are in order also if several threads read.
_FEW = 2048


class RunTable:
    """The runs of a catalog: what lists of them are made of. ``Catalog`` is the part of it for users."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the catalog at *path*; raise CatalogError for what is not a catalog of this version."""
        self.path = os.fspath(path)
        self.manifest: Manifest = read_manifest(self.path)
        self._connections: dict[int | None, Any] = {}

    def runs_with(self, names: Sequence[str], *, has_words: bool = False) -> Runs:
        """Return its runs with the settings and metrics that *names* may mean, and no others: for a list.

        *has_words* is true where words are searched in the names of the runs.
        """
        return self._listing(asked_columns(names, has_words=has_words), "")

    def runs_at(self, streams: Sequence[str]) -> list[CatalogRun]:
        """Return the runs with some *streams*, in any order."""
        return self._made(EVERY, _where(streams)) if streams else []

    def columns_of(self, streams: Sequence[str]) -> RunColumns:
        """Return what a list shows of the runs with some *streams*, in their order."""
        paths, *columns = self.lists(["stream", *self._listed()], _where(streams) if len(streams) < _FEW else "")
        places = {path: place for place, path in enumerate(paths)}
        order = [places[stream] for stream in streams]
        lists = [[column[at] for at in order] for column in columns]
        return self._with_said_losses(self._shown(lists), streams)

    def listed(self, *, order: Order = "loss", reverse: bool = False, limit: int | None = None) -> RunColumns:
        """Return what a list shows of its runs, in the order of ``runs``: the JSON of most is not decoded."""
        rest = f"{ordering(order, reverse=reverse)}{limited(limit)}"
        is_short = limit is not None and limit <= _FEW
        found = self._shown(self.lists(self._listed(), rest, is_short=is_short))
        if all(found.says_final_loss):
            return found
        return self._with_said_losses(found, self.lists(["stream"], rest, is_short=is_short)[0])

    def _listed(self) -> list[str]:
        """Return the SQL of the columns that a list shows, in the order of RunColumns."""
        roots = ", ".join(map(text, self.manifest.roots)) or "NULL"
        # Of a hundred thousand runs, a column takes as long as to start Python.
        return [f"CASE WHEN path IN ({roots}) THEN run END" if column == "run" else column for column in _LISTED]

    def _shown(self, lists: Sequence[list[Any]]) -> RunColumns:
        """Return *lists*, which have the columns of ``_listed``; a run without a loss there says none."""
        losses = lists[_LISTED.index("final_loss")]
        return RunColumns._make([*lists, [loss is not None for loss in losses], {}])

    def _with_said_losses(self, found: RunColumns, streams: Sequence[str]) -> RunColumns:
        """Return *found*, whose runs have *streams*, with those that say a loss that is not finite."""
        if all(found.says_final_loss):
            return found
        said = {run.path for run in self._made(EVERY, "WHERE final_loss IS NULL") if run.says_final_loss}
        says = [known or stream in said for known, stream in zip(found.says_final_loss, streams, strict=True)]
        return found._replace(says_final_loss=says)

    def kinds(self, columns: Sequence[str]) -> list[tuple[str, str]]:
        """Return the columns of the files whose names are those of *columns* but for their case, with their types."""
        if not self.manifest.runs:
            return []
        wanted = ", ".join(f"lower({text(column)})" for column in columns) or "''"
        schema = f"parquet_schema([{', '.join(map(text, self._files('runs')))}])"
        return self._fetched(f"SELECT DISTINCT name, type FROM {schema} WHERE lower(name) IN ({wanted})")

    def most_named(self, part: str) -> int:
        """Return the most columns with names in *part*, such as ``best``, that a file has."""
        if not self.manifest.runs:
            return 0
        schema = f"parquet_schema([{', '.join(map(text, self._files('runs')))}])"
        named = (
            f"SELECT count(*) AS number FROM {schema} WHERE starts_with(name, {text(f'{part}.')}) GROUP BY file_name"
        )
        ((found,),) = self._fetched(f"SELECT coalesce(max(number), 0) FROM ({named})")
        return int(found)

    def lists(self, columns: Sequence[str], rest: str, *, is_short: bool = False) -> list[list[Any]]:
        """Return *columns*, SQL of values of JSON, of the table of runs, each as a list.

        DuckDB makes a text of each: a cell at a time takes three times as long.
        """
        if not self.manifest.runs:
            return [[] for _ in columns]
        named = ", ".join(f"{column} AS c{number}" for number, column in enumerate(columns))
        lists = ", ".join(f"to_json(list(c{number}))" for number in range(len(columns)))
        # One thread keeps the order of the rows.
        query = f"SELECT {lists} FROM (SELECT {named} FROM runs {rest})"
        ((*texts,),) = self._fetched(query, threads=None if is_short else 1)
        return [[] if each is None else msgspec.json.decode(each) or [] for each in texts]

    def _listing(self, columns: str, rest: str) -> Runs:
        """Return runs of which *columns*, SQL of those of COLUMNS, are known."""
        # Imported when used: most lists make no run.
        from toyspec.runs.listing import Runs

        return Runs(self._made(columns, rest), errors=self.manifest.errors, skipped=self.manifest.skipped)

    def _made(self, columns: str, rest: str) -> list[CatalogRun]:
        if not self.manifest.runs:
            return []
        from toyspec.catalog.rows import CatalogRun

        rows = self._fetched(f"SELECT {columns} FROM runs {rest}")
        return [CatalogRun(dict(zip(COLUMNS, row, strict=True))) for row in rows]

    def _fetched(self, query: str, threads: int | None = None) -> list[tuple[Any, ...]]:
        if threads not in self._connections:
            # A list asks several times, and to connect takes as long as to read a column.
            self._connections[threads] = self._connect(threads)
        try:
            found: list[tuple[Any, ...]] = self._connections[threads].cursor().execute(query).fetchall()
        except library().Error as error:
            raise unreadable(self.path, self.manifest, error) from None
        return found

    def _files(self, table: Literal["runs", "values"]) -> list[str]:
        files = self.manifest.runs if table == "runs" else self.manifest.values
        return [os.path.join(self.path, file) for file in files]

    def _connect(self, threads: int | None = None) -> Any:
        """Return a connection that has the tables and reaches nothing else."""
        connection = connect(threads=threads)
        try:
            for table in ("runs", "values"):
                files = self._files(table)
                if files:
                    connection.execute(f"CREATE VIEW {name(table)} AS SELECT * FROM {parquet('', files)}")
            if not self.manifest.runs:
                members = ", ".join(f"{name(column)} {kind}" for column, kind in COLUMNS.items())
                connection.execute(f"CREATE TABLE runs ({members})")
            allowed = ", ".join(text(file) for file in (*self._files("runs"), *self._files("values")))
            connection.execute(f"SET allowed_paths = [{allowed}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
        except library().Error as error:
            connection.close()
            raise unreadable(self.path, self.manifest, error) from None
        return connection


def ordering(order: Order, *, reverse: bool) -> str:
    """Return the order of ``runs`` in SQL."""
    return f"ORDER BY {_ORDERS[order]} {'DESC' if reverse else 'ASC'} NULLS LAST, stream"


def _where(streams: Sequence[str]) -> str:
    return f"WHERE stream IN ({', '.join(map(text, streams)) or 'NULL'})"


def limited(limit: int | None) -> str:
    """Return SQL for the first *limit* rows, for all if that is None."""
    return "" if limit is None else f" LIMIT {int(limit)}"
