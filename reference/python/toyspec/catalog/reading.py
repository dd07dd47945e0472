"""Reads a catalog: its runs as a table, and answers to questions in SQL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.catalog.layout import read_manifest, unreadable
from toyspec.catalog.listed_runs import ListedRun
from toyspec.catalog.rows import COLUMNS, CatalogRun
from toyspec.catalog.tables import connect, name, parquet, text
from toyspec.runs.listing import Runs

if TYPE_CHECKING:
    from toyspec.catalog.layout import Manifest

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


_LISTED = "stream, path, run, state, sealed, reason, last_step, final_loss, seconds, started_at, final_loss IS NOT NULL"
"""The columns of ListedRun."""


class Answer(NamedTuple):
    """The rows that answer a question."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class Catalog:
    """The catalog in a directory, as it is when it is opened. DuckDB and Polars read its ``files`` too."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the catalog at *path*; raise CatalogError for what is not a catalog of this version."""
        self.path = os.fspath(path)
        self.manifest: Manifest = read_manifest(self.path)

    def __len__(self) -> int:
        return self.manifest.count

    def files(self, table: Literal["runs", "values"] = "runs") -> list[str]:
        """Return the paths of the Parquet files of *table*."""
        files = self.manifest.runs if table == "runs" else self.manifest.values
        return [os.path.join(self.path, file) for file in files]

    def runs(self, *, order: Order = "loss", reverse: bool = False, limit: int | None = None) -> Runs:
        """Return its runs, those without a value last, or the first *limit* of them."""
        rows = self._select(", ".join(map(name, COLUMNS)), f"{_ordering(order, reverse)}{_limit(limit)}")
        found = list(map(_run_of, rows))
        return Runs(found, errors=self.manifest.errors, skipped=self.manifest.skipped)

    def listed(self, *, order: Order = "loss", reverse: bool = False, limit: int | None = None) -> list[ListedRun]:
        """Return what a list shows of its runs, in the order of ``runs``: the JSON of most is not decoded."""
        rows = self._select(_LISTED, f"{_ordering(order, reverse)}{_limit(limit)}")
        found = list(map(ListedRun._make, rows))
        if all(run.says_final_loss for run in found):
            return found
        others = self._select(", ".join(map(name, COLUMNS)), "WHERE final_loss IS NULL")
        said = {run.path for run in map(_run_of, others) if run.says_final_loss}
        return [run._replace(says_final_loss=True) if run.path in said else run for run in found]

    def _select(self, columns: str, rest: str) -> list[tuple[Any, ...]]:
        """Return the rows of the table of runs."""
        if not self.manifest.runs:
            return []
        connection = self._connect()
        import duckdb

        try:
            found: list[tuple[Any, ...]] = connection.execute(f"SELECT {columns} FROM runs {rest}").fetchall()
        except duckdb.Error as error:
            raise unreadable(self.path, self.manifest, error) from None
        finally:
            connection.close()
        return found

    def query(self, sql: str) -> Answer:
        """Return the answer to one SELECT of DuckDB over ``runs``, and ``values`` if the catalog has it.

        It reaches no file but those of the catalog, changes nothing and loads nothing. Raises ValueError with the
        reason if it is not such a statement or fails.
        """
        connection = self._connect()
        import duckdb

        try:
            statements = connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise ValueError("a query is one SELECT; the catalog cannot be changed")
            found = connection.execute(statements[0])
            return Answer([column[0] for column in found.description], found.fetchall())
        except duckdb.IOException as error:
            raise unreadable(self.path, self.manifest, error) from None
        except duckdb.Error as error:
            raise ValueError(_reason(error, self.manifest)) from None
        finally:
            connection.close()

    def _connect(self) -> Any:
        """Return a connection that has the tables and reaches nothing else."""
        connection = connect()
        import duckdb

        try:
            for table in ("runs", "values"):
                files = self.files(table)
                if files:
                    connection.execute(f"CREATE VIEW {name(table)} AS SELECT * FROM {parquet('', files)}")
            if not self.manifest.runs:
                members = ", ".join(f"{name(column)} {kind}" for column, kind in COLUMNS.items())
                connection.execute(f"CREATE TABLE runs ({members})")
            allowed = ", ".join(text(file) for file in (*self.files("runs"), *self.files("values")))
            connection.execute(f"SET allowed_paths = [{allowed}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
        except duckdb.Error as error:
            connection.close()
            raise unreadable(self.path, self.manifest, error) from None
        return connection


def _run_of(row: tuple[Any, ...]) -> CatalogRun:
    return CatalogRun(dict(zip(COLUMNS, row, strict=True)))


def _reason(error: Exception, manifest: Manifest) -> str:
    """Return why a query failed, and what to do about it."""
    fact, _, more = str(error).partition("\n")
    if "Table with name values does not exist" in fact and not manifest.has_values:
        return "this catalog has no table values; build it again with --values"
    if "Table with name" in fact:
        return f"{fact} The tables are runs{' and values' if manifest.has_values else ''}."
    if "Permission Error" in fact:
        return f"{fact}; a query reaches only the tables of the catalog"
    if "Binder Error" not in fact:
        return fact
    near = " ".join(more.split("\n", 1)[0].split()) if more.lstrip().startswith("Candidate bindings") else ""
    listed = '`toyspec query "describe runs"` lists the columns; names with a dot or a slash are quoted: "config.lr"'
    return f"{fact} {f'{near}. ' if near else ''}{listed}"


def _ordering(order: Order, reverse: bool) -> str:
    return f"ORDER BY {_ORDERS[order]} {'DESC' if reverse else 'ASC'} NULLS LAST, stream"


def _limit(limit: int | None) -> str:
    return "" if limit is None else f" LIMIT {int(limit)}"
