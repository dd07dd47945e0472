"""Reads a catalog: its runs as a table, and answers to questions in SQL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.catalog.layout import read_manifest
from toyspec.catalog.rows import COLUMNS, CatalogRun
from toyspec.catalog.tables import connect, name, parquet, text
from toyspec.errors import CatalogError
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
        found: list[CatalogRun] = []
        if self.manifest.runs:
            columns = ", ".join(map(name, COLUMNS))
            way = "DESC" if reverse else "ASC"
            some = "" if limit is None else f" LIMIT {int(limit)}"
            query = f"SELECT {columns} FROM runs ORDER BY {_ORDERS[order]} {way} NULLS LAST, stream{some}"
            connection = self._connect()
            try:
                rows = connection.execute(query).fetchall()
            finally:
                connection.close()
            found = [CatalogRun(dict(zip(COLUMNS, row, strict=True))) for row in rows]
        return Runs(found, errors=self.manifest.errors, skipped=self.manifest.skipped)

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
        except duckdb.Error as error:
            raise ValueError(str(error).partition("\n")[0]) from None
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
            raise CatalogError(self.path, f"cannot be read: {error}; build it again") from None
        return connection
