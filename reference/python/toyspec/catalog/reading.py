"""Reads a catalog: its runs as a table, and answers to questions in SQL."""

from __future__ import annotations

import contextlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from toyspec.catalog.layout import read_manifest, unreadable
from toyspec.catalog.tables import COLUMNS, connect, library, name, parquet, text
from toyspec.core.format.flattening import pointer_to
from toyspec.core.runs.columns import METRIC_PARTS, ordered
from toyspec.core.runs.run_facts import MetricFacts, RunFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.catalog.layout import Manifest
    from toyspec.core.runs.run import Runs

Order = Literal["loss", "name", "state", "steps", "took", "started"]
"""What runs are sorted by: the lowest loss, the longest and the most steps are first."""

QUERY_SECONDS: Final = 30.0
"""How long a question to a catalog may take, unless its asker says otherwise."""
_BATCH = 5000
_MOST_ROWS = 1_000_000
_NAMED = ("settings", "metrics")
"""The members with names of the run's own, which are decoded where they are asked for."""
_MADE = {
    "tags": "coalesce(tags, [])", "dialect": "dialect::JSON", "said": "coalesce(said, '{}')::JSON",
    "unended_ranks": "coalesce(unended_ranks, '[]')::JSON", "read": "'whole'",
    "findings": "{error: errors, warning: warnings, info: infos}",
}  # fmt: skip
_FACTS = ", ".join(
    f"{name(each)}: {_MADE.get(each, name(each))}" for each in RunFacts.__struct_fields__ if each not in _NAMED
)
_decode = msgspec.json.Decoder(RunFacts).decode
_decode_settings = msgspec.json.Decoder(dict[str, Any]).decode
_decode_metrics = msgspec.json.Decoder(dict[str, MetricFacts]).decode


_ZONED = "TIMESTAMP WITH TIME ZONE"
# A name that fewer runs have is a column of a query that mentions it, and no column of ``select *``.
_LEAST_SHARE = 20
_MOST_COLUMNS = 1000
_MENTIONED = re.compile(r'"((?:config|model|last|best|nan|findings)\.(?:[^"]|"")+)"', re.IGNORECASE)
_WHOLE = {"BIGINT", "UBIGINT"}


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

    def __repr__(self) -> str:
        return f"<Catalog {self.path!r} runs={len(self)}>"

    def __len__(self) -> int:
        return self.manifest.count

    def files(self) -> list[str]:
        """Return the paths of the Parquet files of the table of runs."""
        return self._files("runs")

    def runs(self, *, order: Order = "loss", reverse: bool = False, limit: int | None = None) -> Runs:
        """Return its runs, those without a value last, or the first *limit* of them."""
        # Imported when used: a query makes no objects of runs.
        from toyspec.core.runs.run import Run, Runs

        found = ordered(list(self._rows()), order, reverse=reverse)[:limit]
        return Runs([Run(facts) for facts in found], errors=self.manifest.errors, skipped=self.manifest.skipped)

    def _rows(self) -> Iterator[RunFacts]:
        if not self.manifest.runs:
            return
        query = f"SELECT to_json({{{_FACTS}}})::VARCHAR, {', '.join(_NAMED)} FROM runs ORDER BY stream"
        with self._connected() as connection:
            found = connection.execute(query)
            while rows := found.fetchmany(_BATCH):
                for facts, settings, metrics in rows:
                    yield msgspec.structs.replace(
                        _decode(facts),
                        settings=_decode_settings(settings or "{}"),
                        metrics=_decode_metrics(metrics or "{}"),
                    )

    def _named(self) -> list[Named]:
        if not self.manifest.runs:
            return []
        # The most usual names first.
        query = "SELECT part, name, flatten(list(types)), sum(runs)::BIGINT FROM names GROUP BY ALL ORDER BY ALL"
        with self._connected() as connection:
            return list(map(Named._make, connection.execute(query).fetchall()))

    def query(self, sql: str, *, seconds: float = QUERY_SECONDS) -> Answer:
        """Return the answer to one SELECT of DuckDB over ``runs`` and ``names``, which is given up after *seconds*.

        Besides COLUMNS, ``runs`` has a column for each name that many runs have or that *sql* has in quotes, such as
        ``"config.lr"``, ``"model.size"``, ``"last.loss"``, ``"best.val/acc"``, ``"nan.loss"``, ``"findings.torn-end"``.
        It reaches no file but those of the catalog, changes nothing and loads nothing. The time zone is UTC, and a time
        with a zone is text, ``2026-11-22 10:30:00+00``. Raises ValueError with the reason if it is not such a statement
        or fails.
        """
        # In a thread of its own: DuckDB sees Ctrl-C when it has the answer.
        with self._connected(runs=query_columns(sql, self._named())) as connection, ThreadPoolExecutor(1) as thread:
            answer = thread.submit(_answer, connection, sql)
            try:
                return answer.result(seconds)
            except TimeoutError:
                fact = f"the query was given up after {seconds:g} s; ask for less, or allow more time"
                raise ValueError(fact) from None
            except library().IOException:
                raise
            except library().Error as error:
                raise ValueError(_reason(error)) from None
            finally:
                if not answer.done():
                    connection.interrupt()

    def _files(self, table: Literal["runs", "names"]) -> list[str]:
        files: list[str] = getattr(self.manifest, table)
        return [os.path.join(self.path, file) for file in files]

    @contextlib.contextmanager
    def _connected(self, runs: str = "*") -> Iterator[Any]:
        """Open a connection that has the tables and reaches nothing else; *runs* is the SQL of its columns."""
        connection = connect()
        tables = {table: self._files(table) for table in ("runs", "names")}
        try:
            for table, columns in {"runs": runs, "names": "*"}.items():
                if files := tables[table]:
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
            yield connection
        except library().Error as error:
            raise unreadable(self.path, self.manifest, error) from None
        finally:
            connection.close()


def _answer(connection: Any, sql: str) -> Answer:
    """Return the answer of *connection* to *sql*; raise ValueError unless it is one SELECT."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != library().StatementType.SELECT:
        raise ValueError("a query is one SELECT; the catalog cannot be changed")
    found = connection.execute(statements[0])
    names, types = zip(*((column[0], str(column[1])) for column in found.description), strict=True)
    if any(_ZONED in kind for kind in types):
        found = connection.execute(_without_zones(sql, types))
    rows = found.fetchmany(_MOST_ROWS + 1)
    if len(rows) > _MOST_ROWS:
        raise ValueError(f"the answer has more than {_MOST_ROWS:,} rows; add a LIMIT, or ask for counts")
    return Answer(list(names), rows)


def _without_zones(sql: str, types: Sequence[str]) -> str:
    """Return *sql*, one SELECT with columns of *types*, with each time that has a zone as text.

    DuckDB makes such a time a value of Python by a package for time zones, which need not be installed.
    """
    text = sql.encode()
    end = next((at for at, _ in library().tokenize(sql) if text[at : at + 1] == b";"), len(text))
    columns = (
        f"CAST(#{place} AS {kind.replace(_ZONED, 'VARCHAR')})" if _ZONED in kind else f"#{place}"
        for place, kind in enumerate(types, 1)
    )
    return f"SELECT {', '.join(columns)} FROM (\n{text[:end].decode()}\n)"


def _reason(error: Exception) -> str:
    """Return why a query failed, and what to do about it."""
    fact, _, more = str(error).partition("\n")
    if "Table with name" in fact:
        return f"{fact} The tables are runs and names."
    if "Permission Error" in fact:
        return f"{fact}; a query reaches only the tables of the catalog"
    if "Binder Error" not in fact:
        return fact
    near = " ".join(more.split("\n", 1)[0].split()) if more.lstrip().startswith("Candidate bindings") else ""
    listed = '`toyspec query "describe runs"` lists the columns; names with a dot or a slash are quoted: "config.lr"'
    return f"{fact} {f'{near}. ' if near else ''}{listed}"


class Named(NamedTuple):
    """A name of a setting, a metric or a rule, of all runs of a catalog."""

    part: str
    """The column of JSON that has it."""
    name: str
    types: list[str]
    """The types that DuckDB has for its values."""
    runs: int
    """Number of runs that have it."""


class _Column(NamedTuple):
    title: str
    sql: str
    runs: int
    is_usual: bool = True
    """Whether it is a column without being mentioned, if many runs have it."""


def query_columns(sql: str, names: Sequence[Named]) -> str:
    """Return the SQL of the columns of the table of runs for the query *sql*."""
    # DuckDB does not tell names by their case; what is mentioned comes first.
    exact = {each.replace('""', '"') for each in _MENTIONED.findall(sql)}
    mentioned = set(map(str.lower, exact))
    least = max((each.runs for each in names), default=0) / _LEAST_SHARE
    usual: list[_Column] = []
    asked: list[_Column] = []
    for column in (column for each in names for column in _columns(each)):
        if column.title.lower() in mentioned:
            asked.append(column)
        elif column.is_usual and column.runs >= least:
            usual.append(column)
    usual = sorted(usual, key=lambda column: -column.runs)[:_MOST_COLUMNS]
    chosen: dict[str, _Column] = {}
    for column in (*sorted(asked, key=lambda column: column.title not in exact), *usual):
        chosen.setdefault(column.title.lower(), column)
    made = sorted(chosen.values())
    return ", ".join([*map(name, COLUMNS), *(f"{column.sql} AS {name(column.title)}" for column in made)])


def _columns(named: Named) -> Iterator[_Column]:
    """Yield the columns of a name."""
    if named.part == "settings":
        kind = _type_of(named.types)
        value = f"json_extract(settings, {text(pointer_to([named.name]))})"
        is_model = named.name.startswith("model.")
        yield _Column(f"config.{named.name}", _typed(value, kind), named.runs, not is_model)
        if is_model:
            yield _Column(named.name, _typed(value, kind), named.runs)
        return
    if named.part == "findings":
        value = f"json_extract(findings, {text(pointer_to([named.name]))})"
        yield _Column(f"findings.{named.name}", _typed(value, "BIGINT"), named.runs)
        return
    for part in METRIC_PARTS:
        value = f"json_extract(metrics, {text(pointer_to([named.name, part]))})"
        yield _Column(f"{part}.{named.name}", _typed(value, "DOUBLE"), named.runs, part != "nan")


def _typed(value: str, kind: str) -> str:
    """Return the SQL of a value of JSON as *kind*; text unchanged."""
    return f"json_extract_string({value}, '$')" if kind == "VARCHAR" else f"TRY_CAST({value}::VARCHAR AS {kind})"


def _type_of(types: Sequence[str]) -> str:
    """Return the type of a column for values of the *types* of JSON."""
    found = set(types) - {"NULL"}
    if found <= {*_WHOLE, "DOUBLE"}:
        # A whole number may be larger than 64 bits hold.
        return "HUGEINT" if found <= _WHOLE else "DOUBLE"
    return "BOOLEAN" if found == {"BOOLEAN"} else "VARCHAR"
