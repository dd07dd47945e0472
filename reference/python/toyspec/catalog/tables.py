"""The tables of a catalog in DuckDB: from lines of JSON to Parquet files.

All that goes into a statement is quoted by ``text`` or ``name``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.directories import Directory, new_file
from toyspec.core.errors import CatalogError
from toyspec.core.generated.runs import COLUMNS as RUN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


_NEEDS = "a catalog needs DuckDB; install it with `python -m pip install 'toyspec[catalog]'`"

_TYPES = {
    "text": "VARCHAR", "time": "VARCHAR", "texts": "VARCHAR[]", "boolean": "BOOLEAN", "integer": "BIGINT",
    "number": "DOUBLE",
}  # fmt: skip
COLUMNS = {
    "stream": "VARCHAR", **{each: _TYPES[column["type"]] for each, column in RUN_COLUMNS.items()},
    "annotated": "BOOLEAN", "said": "JSON", "dialect": "JSON", "world_size": "BIGINT", "unended_ranks": "JSON",
    "day": "DATE", "as_of": "BIGINT", "alerts": "BIGINT", "open_alerts": "BIGINT",
    "errors": "BIGINT", "warnings": "BIGINT", "infos": "BIGINT", "loss_not_finite": "BOOLEAN", "earlier_logs": "BIGINT",
    "superseded_steps": "BIGINT",
    "config": "JSON", "model": "JSON", "settings": "JSON", "run_start": "JSON", "run_end": "JSON", "metrics": "JSON",
    "metrics_left_out": "BIGINT", "findings": "JSON", "identity": "VARCHAR",
}  # fmt: skip
"""The columns of the table of runs, with their types in DuckDB.

``settings`` has the settings by their flat names. A name of a setting or a metric is in JSON only, and has no column of
its own: a run may have a hundred thousand, and each another.
"""

NAMED = ("settings", "metrics", "findings")
"""The columns whose members have names that not every run has. The table of names has a row for each of these."""

LARGEST_LINE = 1 << 25
"""Number of bytes of the longest line of a source."""
# DuckDB holds 2,048 rows at a time, whatever it may keep on the disk, and a row may have a hundred thousand names.
_MEMORY = ("125MB", "500MB", "2GB", "80%")
"""How much memory a build may take: the next one where the work does not fit."""
ROWS = "rows.jsonl"
"""Name of the source of the table of runs."""
_OLD = "old.jsonl"
_MOST_RUNS = 20_000
"""Number of runs from which on a file takes no more."""


def library() -> Any:
    """Return the module of DuckDB; raise CatalogError without it."""
    try:
        # Its own module takes three times as long to import: it has what makes relations of Python's functions.
        import _duckdb
    except ImportError:
        try:
            import duckdb
        except ImportError:
            raise CatalogError("duckdb", _NEEDS) from None
        return duckdb
    return _duckdb


def connect(*, temporary: str | None = None, threads: int | None = None) -> Any:
    """Return a connection to DuckDB, which keeps what does not fit in memory in *temporary*; raise CatalogError."""
    connection = library().connect()
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET enable_progress_bar = false")
    if threads is not None:
        connection.execute(f"SET threads = {int(threads)}")
    if temporary is not None:
        connection.execute(f"SET memory_limit = '{_MEMORY[0]}'")
        connection.execute(f"SET temp_directory = {text(temporary)}")
    return connection


def text(value: str) -> str:
    """Return *value* as a literal of SQL; what is not text in UTF-8 is escaped, as in the rows."""
    return "'" + value.encode("utf-8", "backslashreplace").decode().replace("'", "''") + "'"


def name(value: str) -> str:
    """Return *value* as a name of SQL."""
    return '"' + value.replace('"', '""') + '"'


def parquet(catalog: str, files: Sequence[str]) -> str:
    """Return the SQL that reads the *files* of a table, whose columns may differ."""
    paths = ", ".join(text(os.path.join(catalog, file)) for file in files)
    return f"read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"


class Tables:
    """The tables of one build, whose sources are files in the directory *work*."""

    def __init__(self, catalog: str, work: str, old_rows: Collection[str]) -> None:
        """*old_rows* are the paths of streams whose rows do not count any more."""
        self._catalog = catalog
        self._work = work
        with new_file(self._path(_OLD)) as file:
            file.writelines(msgspec.json.encode({"stream": stream}) + b"\n" for stream in old_rows)
        self.connection = connect(temporary=self._path("spilled"), threads=1)

    def _path(self, file: str) -> str:
        return os.path.join(self._work, file)

    def _execute(self, statement: str) -> Any:
        """Execute *statement*, with more memory where rows are so large that it does not fit."""
        for more in _MEMORY[1:]:
            try:
                return self.connection.execute(statement)
            except library().OutOfMemoryException:
                self.connection.execute(f"SET memory_limit = '{more}'")
        return self.connection.execute(statement)

    def write(self, old: Sequence[str], generation: int) -> list[str]:
        """Write the table of runs and return its files: full ones of *old* without a change, and new ones."""
        self._execute(f"CREATE TABLE old AS FROM {self._lines(_OLD, {'stream': 'VARCHAR'})}")
        self._execute(f"CREATE TABLE read AS SELECT * FROM {self._lines(ROWS, COLUMNS)}")
        # The table is on the disk too where it does not fit in memory.
        with Directory(self._work) as directory:
            directory.delete(ROWS)
        shown = [f"{name(column)}::VARCHAR AS {name(column)}" if kind == "JSON" else name(column)
                 for column, kind in COLUMNS.items()]  # fmt: skip
        self._execute(f"CREATE VIEW fresh AS SELECT {', '.join(shown)} FROM read")
        kept = [file for file in old if self._is_full(file)]
        rows = "SELECT * FROM fresh"
        if others := [file for file in old if file not in kept]:
            rows += f" UNION ALL BY NAME SELECT * FROM {parquet(self._catalog, others)} ANTI JOIN old USING (stream)"
        streams = [stream for (stream,) in self._execute(f"SELECT stream FROM ({rows}) ORDER BY stream").fetchall()]
        files = []
        for start in range(0, len(streams), _MOST_RUNS):
            some = streams[start : start + _MOST_RUNS]
            file = f"runs/{generation:06}-{start // _MOST_RUNS:04}.parquet"
            where = f"stream BETWEEN {text(some[0])} AND {text(some[-1])}"
            self._copy(f"FROM ({rows}) WHERE {where} ORDER BY stream", file)
            self._copy(_names_in(os.path.join(self._catalog, file)), names_of(file))
            files.append(file)
        return sorted([*kept, *files])

    def _is_full(self, file: str) -> bool:
        """Return whether *file* has no room for more rows, and none that does not count."""
        table = parquet(self._catalog, [file])
        counts = f"SELECT count(*), count(old.stream) FROM {table} AS runs LEFT JOIN old ON runs.stream = old.stream"
        rows, old = self._execute(counts).fetchone()
        return bool(rows >= _MOST_RUNS and not old)

    def _copy(self, query: str, file: str) -> None:
        """Write the rows of *query* into *file*."""
        path = os.path.join(self._catalog, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._execute(f"COPY ({query}) TO {text(path)} (FORMAT parquet, COMPRESSION zstd)")

    def _lines(self, file: str, members: dict[str, str]) -> str:
        """Return the SQL that reads the lines of *file*, with *members* and their types."""
        columns = ", ".join(f"{name(member)}: {text(kind)}" for member, kind in members.items())
        form = f"format = 'newline_delimited', maximum_object_size = {LARGEST_LINE}"
        return f"read_json({text(self._path(file))}, columns = {{{columns}}}, {form})"


def names_of(file: str) -> str:
    """Return the file with the names that the runs in *file*, one of the table of runs, have."""
    return f"names/{os.path.basename(file)}"


def _names_in(file: str) -> str:
    """Return the SQL of the names in a file of the table of runs: column, name, types of JSON, and number of runs."""
    members = " UNION ALL ".join(
        f"SELECT {text(column)} AS part, unnest(map_entries({column}::JSON::MAP(VARCHAR, JSON))) AS member "
        f"FROM read_parquet({text(file)})"
        for column in NAMED
    )
    return (
        "SELECT part, member.key AS name, list_sort(list_distinct(list(json_type(member.value)))) AS types, "
        f"count(*) AS runs FROM ({members}) GROUP BY ALL ORDER BY ALL"
    )
