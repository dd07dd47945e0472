"""The tables of a catalog in DuckDB: from lines of JSON to Parquet files of whole days.

All that goes into a statement is quoted by ``text`` or ``name``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.core.errors import CatalogError
from toyspec.core.generated.runs import COLUMNS as RUN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


_NEEDS = "a catalog needs DuckDB; install it with `python -m pip install 'toyspec[catalog]'`"

_TYPES = {
    "text": "VARCHAR", "time": "VARCHAR", "texts": "VARCHAR[]", "boolean": "BOOLEAN", "integer": "BIGINT",
    "number": "DOUBLE",
}  # fmt: skip
COLUMNS = {
    "stream": "VARCHAR", **{each: _TYPES[column["type"]] for each, column in RUN_COLUMNS.items()},
    "annotated": "BOOLEAN", "said": "JSON", "dialect": "JSON", "world_size": "BIGINT", "unended_ranks": "JSON",
    "day": "DATE", "as_of": "BIGINT", "alerts": "BIGINT", "open_alerts": "BIGINT",
    "errors": "BIGINT", "warnings": "BIGINT", "infos": "BIGINT", "loss_not_finite": "BOOLEAN",
    "config": "JSON", "model": "JSON", "settings": "JSON", "run_start": "JSON", "run_end": "JSON", "metrics": "JSON",
    "metrics_left_out": "BIGINT", "findings": "JSON", "identity": "VARCHAR",
}  # fmt: skip
"""The columns of the table of runs, with their types in DuckDB.

``settings`` has the settings by their flat names. A name of a setting or a metric is in JSON only, and has no column of
its own: a run may have a hundred thousand, and each another.
"""

NAMED = ("settings", "metrics", "findings")
"""The columns whose members have names that not every run has. The table of names has a row for each of these."""

VALUES = {
    "stream": "VARCHAR", "path": "VARCHAR", "run": "VARCHAR", "day": "DATE", "metric": "VARCHAR",
    "step": "BIGINT[]", "time": "DOUBLE[]", "value": "DOUBLE[]",
}  # fmt: skip
"""The members of a line of the values of a run, with their types in DuckDB; the lists are of one length."""

LARGEST_LINE = 1 << 25
"""Number of bytes of the longest line of a source."""
# DuckDB holds 2,048 rows at a time, whatever it may keep on the disk, and a row may have a hundred thousand names.
_MEMORY = ("125MB", "500MB", "2GB", "80%")
"""How much memory a build may take: the next one where the work does not fit."""
_NO_DAY = "unknown"
_DAYS = f"SELECT DISTINCT coalesce(day::VARCHAR, '{_NO_DAY}') FROM {{}}"
ROWS = "rows.jsonl"
"""Name of the source of the table of runs."""
LISTS = "values.jsonl"
"""Name of the source of the table of values."""
_OLD = "old.jsonl"
# A day has one file, and days with few rows share one.
_MOST_RUNS = 20_000
_MOST_VALUES = 4_000_000


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
        self._has_old = bool(old_rows)
        with open(self._path(_OLD), "wb") as file:
            file.writelines(msgspec.json.encode({"stream": stream}) + b"\n" for stream in old_rows)
        self.connection = connect(temporary=self._path("spilled"), threads=1)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

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
        """Write the table of runs and return its files: those of *old* whose days have no change, and new ones."""
        self._execute(f"CREATE TABLE old AS FROM {self._lines(_OLD, {'stream': 'VARCHAR'})}")
        self._execute(f"CREATE TABLE read AS SELECT * FROM {self._lines(ROWS, COLUMNS)}")
        # The table is on the disk too where it does not fit in memory.
        os.unlink(self._path(ROWS))
        shown = [f"{name(column)}::VARCHAR AS {name(column)}" if kind == "JSON" else name(column)
                 for column, kind in COLUMNS.items()]  # fmt: skip
        self._execute(f"CREATE VIEW fresh AS SELECT {', '.join(shown)} FROM read")
        return self._write_spans("runs", old, generation, _Form("stream", _MOST_RUNS))

    def write_values(self, old: Sequence[str], generation: int) -> list[str]:
        """Write the table of values and return its files."""
        lists = ("step", "time", "value")
        plain = ", ".join(column for column in VALUES if column not in lists)
        apart = ", ".join(f"unnest({column}) AS {name(column)}" for column in lists)
        # Each file that is written asks for its days: the lines are read once.
        self._execute(f"CREATE TABLE lists AS SELECT * FROM {self._lines(LISTS, VALUES)} ORDER BY day")
        os.unlink(self._path(LISTS))
        self._execute(f"CREATE OR REPLACE VIEW fresh AS SELECT {plain}, {apart} FROM lists")
        form = _Form("stream, metric, step, time, value", _MOST_VALUES)
        return self._write_spans("values", old, generation, form)

    def _write_spans(self, table: str, old: Sequence[str], generation: int, form: _Form) -> list[str]:
        """Write the rows of ``fresh``, and the files *old* with a day of them or with a row that does not count.

        A file has the days from the one in its name up to that of the next file.
        """
        sources = ["fresh"]
        if old and self._has_old:
            sources.append(f"{parquet(self._catalog, old)} SEMI JOIN old USING (stream)")
        days = (self._execute(_DAYS.format(source)).fetchall() for source in sources)
        changed = {day for rows in days for (day,) in rows}
        found: list[str] = []
        for span in _spans([_day_of(file) for file in old]):
            file = next((file for file in old if _day_of(file) == span.name), None)
            if any(map(span.holds, changed)):
                found += self._write_span(table, file, generation, span, form)
            elif file is not None:
                found.append(file)
        return sorted(found)

    def _write_span(self, table: str, old: str | None, generation: int, span: _Span, form: _Form) -> list[str]:
        """Write the rows of *span*, those that are kept of the file *old* too, into files of whole days."""
        rows = f"SELECT * FROM fresh WHERE {span.condition}"
        if old is not None:
            rows += f" UNION ALL BY NAME SELECT * FROM {parquet(self._catalog, [old])} ANTI JOIN old USING (stream)"
        counts = self._execute(f"SELECT day::VARCHAR, count(*) FROM ({rows}) GROUP BY day ORDER BY day")
        files = []
        for first, last in _groups(counts.fetchall(), form.rows):
            where = "true" if first is None else f"day BETWEEN {text(first)} AND {text(last)}"
            file = f"{table}/{first or _NO_DAY}.{generation:06}.parquet"
            self._copy(f"FROM ({rows}) WHERE {where} ORDER BY {form.order}", file)
            if table == "runs":
                self._copy(_names_in(os.path.join(self._catalog, file)), names_of(file))
            files.append(file)
        return files

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


class _Form(NamedTuple):
    """How a table is written."""

    order: str
    rows: int
    """Number of rows from which on a file takes no further day."""


class _Span(NamedTuple):
    """Successive days."""

    name: str
    """The day in the name of its file; ``unknown`` for runs without a day."""
    first: str
    """Empty where there is none before."""
    end: str
    """The day after the last; empty where there is none."""

    def holds(self, day: str) -> bool:
        """Return whether *day* is one of them."""
        if _NO_DAY in (day, self.name):
            return day == self.name
        return self.first <= day and (not self.end or day < self.end)

    @property
    def condition(self) -> str:
        """The condition in SQL."""
        if self.name == _NO_DAY:
            return "day IS NULL"
        end = f" AND day < {text(self.end)}" if self.end else ""
        return (f"day >= {text(self.first)}" if self.first else "day IS NOT NULL") + end


def _spans(names: Sequence[str]) -> list[_Span]:
    """Return the spans of files with these days in their *names*; together they have every day."""
    days = sorted(name for name in names if name != _NO_DAY) or ["0"]
    spans = [_Span(day, day, end) for day, end in zip(days, [*days[1:], ""], strict=True)]
    return [spans[0]._replace(first=""), *spans[1:], _Span(_NO_DAY, "", "")]


def _groups(counts: Sequence[tuple[str | None, int]], most: int) -> Iterator[tuple[str | None, str]]:
    """Yield the first and the last of successive days that have about *most* rows; None for rows without a day."""
    days: list[str] = []
    rows = 0
    for day, count in counts:
        if day is None:
            yield None, ""
            continue
        days.append(day)
        rows += count
        if rows >= most:
            yield days[0], days[-1]
            days, rows = [], 0
    if days:
        yield days[0], days[-1]


def _day_of(file: str) -> str:
    """Return the day of the file of a table."""
    return os.path.basename(file).partition(".")[0]
