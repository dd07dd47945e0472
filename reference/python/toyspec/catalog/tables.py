"""The tables of a catalog in DuckDB: from lines of JSON to Parquet files, a day each.

All that goes into a statement is quoted by ``text`` or ``name``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.catalog.rows import COLUMNS, NAMED
from toyspec.catalog.values import VALUES
from toyspec.errors import CatalogError
from toyspec.runs.discovery import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_NEEDS = "a catalog needs DuckDB; install it with `python -m pip install 'toyspec[catalog]'`"
_INDEX = {"stream": "VARCHAR", "identity": "VARCHAR", "kind": "VARCHAR", "is_live": "BOOLEAN", "day": "DATE"}
_LISTED = {"stream": "VARCHAR", "identity": "VARCHAR", "size": "BIGINT", "root": "VARCHAR", "is_hinted": "BOOLEAN"}
LARGEST_LINE = 1 << 24
"""Number of bytes of the longest line of a source."""
_MOST_NAMED = 1000
"""Number of names of each kind that have a column; the others are in the JSON only."""

# Types of JSON values that a column of numbers holds.
_WHOLE = {"BIGINT", "UBIGINT"}
_NO_DAY = "unknown"
_TODO = "todo.jsonl"


def connect(path: str = ":memory:", *, temporary: str | None = None) -> Any:
    """Return a connection to DuckDB, which keeps what does not fit in memory in *temporary*; raise CatalogError."""
    try:
        import duckdb
    except ImportError:
        raise CatalogError("duckdb", _NEEDS) from None
    connection = duckdb.connect(path)
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET enable_progress_bar = false")
    if temporary is not None:
        connection.execute("SET memory_limit = '1GB'")
        connection.execute(f"SET temp_directory = {text(temporary)}")
    return connection


def text(value: str) -> str:
    """Return *value* as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """Return *value* as a name of SQL."""
    return '"' + value.replace('"', '""') + '"'


def parquet(catalog: str, files: Sequence[str]) -> str:
    """Return the SQL that reads the *files* of a table, whose columns may differ."""
    paths = ", ".join(text(os.path.join(catalog, file)) for file in files)
    return f"read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"


class Tables:
    """The tables of one build, whose sources are files in the directory *work*."""

    def __init__(self, catalog: str, work: str) -> None:
        self._catalog = catalog
        self._work = work
        self.open()

    def open(self) -> None:
        """Open the connection."""
        self.connection = connect(self.path("tables.duckdb"), temporary=self.path("spilled"))

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def path(self, file: str) -> str:
        """Return the path of a source."""
        return os.path.join(self._work, file)

    def load_listing(self, index: str | None, unread: Sequence[str]) -> None:
        """Make the tables ``listed``, ``todo``, what has changed since *index*, and ``kept``, what has not.

        What was below the paths *unread*, which could not be listed, is kept.
        """
        run = self.connection.execute
        run(f"CREATE TABLE listed AS SELECT * FROM {self._lines('listing.jsonl', _LISTED)}")
        known = None if index is None else f"read_parquet({text(os.path.join(self._catalog, index))})"
        run(f"CREATE TABLE known AS SELECT * FROM {known}" if known else f"CREATE TABLE known ({_columns(_INDEX)})")
        same = "known.identity = listed.identity AND known.identity <> '' AND kind <> 'error' AND NOT is_live"
        run(f"CREATE TABLE kept AS SELECT known.* FROM known JOIN listed USING (stream) WHERE {same}")
        for path in unread:
            below = f"(stream = {text(path)} OR starts_with(stream, {text(path.rstrip('/' + os.sep) + '/')}))"
            run(f"INSERT INTO kept SELECT * FROM known WHERE {below} AND stream NOT IN (SELECT stream FROM listed)")
        run("CREATE TABLE todo AS SELECT * FROM listed ANTI JOIN kept USING (stream)")

    def count(self, table: str, where: str = "true") -> int:
        """Return the number of rows of *table* that meet *where*."""
        found: int = self.connection.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0]
        return found

    def write_todo(self) -> int:
        """Write what has to be read, the largest first, into a file, and return the number of its bytes.

        The tables are closed until ``open``: what DuckDB has in this process survives no fork.
        """
        todo = "SELECT stream, size, root, is_hinted, identity FROM todo ORDER BY size DESC, stream"
        self.connection.execute(f"COPY ({todo}) TO {text(self.path(_TODO))} (FORMAT json)")
        size: int = self.connection.execute("SELECT coalesce(sum(size), 0)::BIGINT FROM todo").fetchone()[0]
        self.close()
        return size

    def todo(self) -> Iterator[Stream]:
        """Yield what ``write_todo`` wrote."""
        with open(self.path(_TODO), "rb") as file:
            for line in file:
                found = msgspec.json.decode(line)
                yield Stream(found.pop("stream"), found.pop("size"), **found)

    def write(self, old: Sequence[str], generation: int) -> list[str]:
        """Write the table of runs and return its files: those of *old* whose days have no change, and new ones."""
        members = {**COLUMNS, "named": "JSON", **_INDEX}
        self.connection.execute(
            f"CREATE TABLE read AS SELECT * FROM {self._lines('rows.jsonl', members)} ORDER BY day, stream"
        )
        shown = [f"{name(column)}::VARCHAR AS {name(column)}" if kind == "JSON" else name(column)
                 for column, kind in COLUMNS.items()]  # fmt: skip
        shown += [select for part in NAMED for select in self._named(part)]
        self.connection.execute(f"CREATE VIEW fresh AS SELECT {', '.join(shown)} FROM read WHERE kind = 'run'")
        return self._write_days("runs", old, generation, "stream")

    def write_values(self, old: Sequence[str], generation: int) -> list[str]:
        """Write the table of values and return its files."""
        lists = ("step", "time", "value")
        plain = ", ".join(column for column in VALUES if column not in lists)
        apart = ", ".join(f"unnest({column}) AS {name(column)}" for column in lists)
        self.connection.execute(
            f"CREATE OR REPLACE VIEW fresh AS SELECT {plain}, {apart} FROM {self._lines('values.jsonl', VALUES)}"
        )
        return self._write_days("values", old, generation, "stream, metric, step, time, value")

    def write_index(self, generation: int) -> str:
        """Write the index and return its file."""
        file = f"index/{generation:06}.parquet"
        columns = ", ".join(_INDEX)
        every = f"SELECT {columns} FROM kept UNION ALL SELECT {columns} FROM read"
        self._copy(f"FROM ({every}) ORDER BY stream", file)
        return file

    def _write_days(self, table: str, old: Sequence[str], generation: int, order: str) -> list[str]:
        """Write the days of ``fresh``, and those of the files *old* that have rows which are not kept."""
        by_day = {_day_of(file): file for file in old}
        rows = "SELECT DISTINCT coalesce(day::VARCHAR, '{}') AS day FROM {}"
        days = {day for (day,) in self.connection.execute(rows.format(_NO_DAY, "fresh")).fetchall()}
        gone = "known ANTI JOIN kept USING (stream) WHERE kind = 'run'"
        days |= {day for (day,) in self.connection.execute(rows.format(_NO_DAY, gone)).fetchall()}
        found = {day: file for day, file in by_day.items() if day not in days}
        for day in sorted(days):
            where = "day IS NULL" if day == _NO_DAY else f"day = {text(day)}"
            query = f"SELECT * FROM fresh WHERE {where}"
            if day in by_day:
                earlier = f"{parquet(self._catalog, [by_day[day]])} SEMI JOIN kept USING (stream)"
                query += f" UNION ALL BY NAME SELECT * FROM {earlier}"
            file = f"{table}/{day}.{generation:06}.parquet"
            if self._copy(f"FROM ({query}) ORDER BY {order}", file):
                found[day] = file
        return [found[day] for day in sorted(found)]

    def _copy(self, query: str, file: str) -> int:
        """Write the rows of *query* into *file* and return their number; without any there is no file."""
        path = os.path.join(self._catalog, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        to = f"COPY ({query}) TO {text(path)} (FORMAT parquet, COMPRESSION zstd)"
        count: int = self.connection.execute(to).fetchone()[0]
        if not count and not file.startswith("index/"):
            os.unlink(path)
        return count

    def _lines(self, file: str, members: dict[str, str]) -> str:
        """Return the SQL that reads the lines of *file*, with *members* and their types."""
        columns = ", ".join(f"{name(member)}: {text(kind)}" for member, kind in members.items())
        form = f"format = 'newline_delimited', maximum_object_size = {LARGEST_LINE}"
        return f"read_json({text(self.path(file))}, columns = {{{columns}}}, {form})"

    def _named(self, part: str) -> Iterator[str]:
        """Yield the SQL of the column of each name that runs have in *part*, such as ``config.lr``."""
        types = self._types(part)
        if not types:
            return
        form = ", ".join(f"{json_text(each.name)}: {json_text(each.type)}" for each in types)
        source = f"json_transform(named->'$.{part}', {text('{' + form + '}')})"
        for each in types:
            yield f"struct_extract({source}, {text(each.name)}) AS {name(f'{part}.{each.name}')}"

    def _types(self, part: str) -> list[_Named]:
        """Return the names in *part* with their types, by name; of those that differ in case alone, the first."""
        keys = (
            f"SELECT unnest(json_keys(named->'$.{part}')) AS key, named->'$.{part}' AS members FROM read "
            "WHERE kind = 'run'"
        )
        typed = "json_type(members, '$.\"' || key || '\"')"
        plain = "NOT regexp_matches(key, '[\"\\\\[:cntrl:]]') AND key <> ''"
        rows = self.connection.execute(
            f"SELECT key, list_sort(list_distinct(list({typed}))), count(*) FROM ({keys}) WHERE {plain} "
            f"GROUP BY key ORDER BY count(*) DESC, key LIMIT {_MOST_NAMED}"
        ).fetchall()
        found: dict[str, _Named] = {}
        for key, kinds, _ in sorted(rows):
            found.setdefault(key.lower(), _Named(key, _type_of(kinds)))
        return sorted(found.values())


class _Named(NamedTuple):
    name: str
    type: str


def _type_of(kinds: Iterable[str]) -> str:
    """Return the type of a column for values of the types *kinds* of JSON."""
    found = set(kinds) - {"NULL"}
    if found <= _WHOLE:
        return "BIGINT"
    if found <= {*_WHOLE, "DOUBLE"}:
        return "DOUBLE"
    return "BOOLEAN" if found == {"BOOLEAN"} else "VARCHAR"


def _day_of(file: str) -> str:
    """Return the day of the file of a table."""
    return os.path.basename(file).partition(".")[0]


def _columns(members: dict[str, str]) -> str:
    return ", ".join(f"{name(member)} {kind}" for member, kind in members.items())


def json_text(value: str) -> str:
    """Return *value* as a string of JSON."""
    import json

    return json.dumps(value, ensure_ascii=False)
