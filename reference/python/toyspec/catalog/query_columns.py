"""The columns that a query sees: those of the table of runs, and one for each name that counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from toyspec.catalog.filter_sql import pointer
from toyspec.catalog.tables import COLUMNS, name, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# A name that fewer runs have is a column of a query that mentions it, and no column of ``select *``.
_LEAST_SHARE = 20
_MOST_COLUMNS = 1000
_MENTIONED = re.compile(r'"((?:config|model|last|best|nan|findings)\.(?:[^"]|"")+)"', re.IGNORECASE)
_WHOLE = {"BIGINT", "UBIGINT"}


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
        value = f"json_extract(settings, {text(pointer(named.name))})"
        is_model = named.name.startswith("model.")
        yield _Column(f"config.{named.name}", _typed(value, kind), named.runs, not is_model)
        if is_model:
            yield _Column(named.name, _typed(value, kind), named.runs)
        return
    if named.part == "findings":
        value = f"json_extract(findings, {text(pointer(named.name))})"
        yield _Column(f"findings.{named.name}", _typed(value, "BIGINT"), named.runs)
        return
    for part in ("last", "best", "nan"):
        value = f"json_extract(metrics, {text(pointer(named.name, part))})"
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
