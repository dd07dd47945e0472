"""The values of fields of all runs of a catalog, from its columns; where those are unclear, from the rows of the runs.

A column says neither that a whole number is an integer, nor what a value is that has no column.
"""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.catalog.asked_columns import PLAIN, holds_setting, metrics_of
from toyspec.catalog.tables import MOST_NAMED, decoded, text
from toyspec.catalog.tables import name as quoted
from toyspec.runs.columns import Fields, ending_of, setting_of
from toyspec.runs.expressions import UNKNOWN
from toyspec.runs.rows import MOST_SETTINGS, settings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toyspec.catalog.run_table import RunTable

_COLUMNS = {
    "run": "run", "path": "path", "state": "state", "sealed": "sealed", "reason": "reason", "bytes": "bytes",
    "size": "bytes", "last_step": "last_step", "steps": "last_step", "final_loss": "final_loss", "seconds": "seconds",
    "took": "seconds", "duration": "seconds", "started_at": "started_at", "started": "started_at", "errors": "errors",
    "warnings": "warnings", "findings": "errors + warnings + infos",
}  # fmt: skip
"""The SQL of what every run has, by the names of fields."""

_UNCLEAR = {
    "reason": "reason IS NULL AND run_end IS NOT NULL",
    "final_loss": "coalesce(final_loss = trunc(final_loss), false)",
}
_OTHERS = frozenset(["name", "id", "group", "tag", "tags", "run_id", "progress", "profile"])
_NUMBERS = frozenset(["DOUBLE", "INT64"])
# So few runs are looked at one by one without being slow.
_FEW = 1000
_SHARE = 20
# A shorter text does not have the number of settings from which on they are left out.
_SHORT = 4 * MOST_SETTINGS
_SCALARS = "('UBIGINT', 'BIGINT', 'BOOLEAN', 'VARCHAR')"


class AskedValues(NamedTuple):
    """The values of fields, in one order of the runs."""

    streams: list[str]
    """Paths of the streams."""
    values: dict[str, list[Any]]
    """The values of each field; UNKNOWN where a run has none."""


def asked_values(catalog: RunTable, names: Sequence[str], rest: str) -> AskedValues | None:
    """Return the values of the fields *names* of the runs of *catalog*, in the order *rest*, SQL.

    None if too many runs have to be looked at one by one: to read what the catalog has of all is faster then.
    """
    asked = [name for name in names if name not in _COLUMNS]
    if not all(PLAIN.fullmatch(name) and name not in _OTHERS and not name.startswith("nan.") for name in asked):
        return None
    usual = [name for name in names if name in _COLUMNS]
    typed = _typed(catalog, [_column_of(name) for name in asked])
    columns = [_COLUMNS[name] for name in usual] + [_UNCLEAR.get(name, "false") for name in usual]
    columns += [sql for name in asked for sql in (typed.get(_column_of(name), "NULL"), *_of_settings(name))]
    streams, *found = catalog.lists(["stream", *columns], rest)
    values = dict(zip(usual, found, strict=False))
    unclear = {at for marks in found[len(usual) : 2 * len(usual)] for at, mark in enumerate(marks) if mark}
    places: dict[str, int] = {}
    for number, name in enumerate(asked):
        start = 2 * len(usual) + 4 * number
        values[name], doubtful = _values(name, *found[start : start + 4])
        if doubtful:
            places = places or dict(zip(streams, count(), strict=False))
            (named,) = catalog.lists(["stream"], f"WHERE {_is_doubtful(name, typed.get(_column_of(name)))}")
            unclear |= doubtful.intersection(map(places.__getitem__, named))
    if len(unclear) > max(_FEW, len(streams) // _SHARE):
        return None
    places = places or dict(zip(streams, count(), strict=False))
    for run in catalog.runs_at([streams[at] for at in sorted(unclear)]):
        field = Fields(run, run.findings).question.field
        for name in names:
            values[name][places[run.path]] = field(name)
    return AskedValues(streams, values)


def is_larger_better(catalog: RunTable, column: str, streams: Collection[str] | None) -> bool:
    """Return whether the largest value of *column* is the best for one of *streams*, of all runs if that is None."""
    *_, metric = metrics_of(column)
    last, best = f"last.{metric}", f"best.{metric}"
    typed = _typed(catalog, [last, best])
    conditions = ["contains(metrics, '\"max\"')", f"json_extract_string(metrics, {_path(metric, 'goal')}) = 'max'"]
    if len(typed) == 2:
        # A best value that is smaller than another one is so by its goal.
        conditions.insert(0, f"NOT coalesce({typed[best]} < {typed[last]}, false)")
    elif last in typed and not any(catalog.kinds([best])) and catalog.most_named("best") < MOST_NAMED:
        # A run with a goal and a value has a best value.
        conditions.insert(0, f"{typed[last]} IS NULL")
    (found,) = catalog.lists(["stream"], f"WHERE {' AND '.join(conditions)}{'' if streams is not None else ' LIMIT 1'}")
    return bool(found) if streams is None else not set(streams).isdisjoint(found)


def _typed(catalog: RunTable, columns: Sequence[str]) -> dict[str, str]:
    """Return the SQL of those of *columns* that have numbers, and no other column with almost the same name."""
    kinds = catalog.kinds(columns)
    found = {}
    for column in columns:
        alike = {name: kind for name, kind in kinds if name.lower() == column.lower()}
        same = {kind for name, kind in kinds if name == column}
        if set(alike) == {column} and same <= _NUMBERS:
            found[column] = quoted(column)
    return found


def _column_of(name: str) -> str:
    """Return the column that has the values of the field *name* if it is a metric."""
    part, _, metric = name.partition(".")
    return name if part in ("last", "best") and metric else f"last.{name}"


def _path(*keys: str) -> str:
    return text("$." + ".".join(f'"{key}"' for key in keys))


def _is_doubtful(name: str, column: str | None) -> str:
    """Return the SQL of whether a run may have a metric *name* with a value that *column* does not say."""
    keys = {name, _column_of(name).partition(".")[2]}
    named = " OR ".join(f"contains(metrics, {text(f'{chr(34)}{key}{chr(34)}:')})" for key in sorted(keys))
    return f"({named})" if column is None else f"({column} IS NULL OR {column} = trunc({column})) AND ({named})"


def _of_settings(name: str) -> tuple[str, ...]:
    """Return the SQL of the setting *name* where it is a plain value, and else of the objects that may have it."""
    short = name.removeprefix("config.")
    kind, value = f"json_type(config, {_path(short)})", f"json_extract(config, {_path(short)})"
    fraction = f"TRY_CAST({value} AS DOUBLE) <> trunc(TRY_CAST({value} AS DOUBLE))"
    is_plain = f"strlen(config) < {_SHORT} AND ({kind} IN {_SCALARS} OR ({kind} = 'DOUBLE' AND {fraction}))"
    # Within a name with a dot may be one object, or several.
    is_plain = "false" if "." in short else f"coalesce({is_plain}, false)"
    parts = (
        f"CASE WHEN NOT {is_plain} AND {holds_setting(part, [name])} THEN {part} END" for part in ("config", "model")
    )
    return f"CASE WHEN {is_plain} THEN {value} END", *parts


def _values(
    name: str, column: list[Any], plain: list[Any], configs: list[str | None], models: list[str | None]
) -> tuple[list[Any], set[int]]:
    """Return the values of a field, and the places of those that may be others."""
    values: list[Any] = []
    doubtful: set[int] = set()
    for at, (value, setting, config, model) in enumerate(zip(column, plain, configs, models, strict=True)):
        settings: dict[str, Any] = {}
        found = UNKNOWN if setting is None else setting
        if config is not None or model is not None:
            start = {"config": decoded(config), "model": decoded(model)}
            settings = dict(islice(settings_of(start).items(), MOST_SETTINGS))
            found = setting_of(settings, name)
        if found is UNKNOWN:
            if value is None or (type(value) is float and value.is_integer()):
                doubtful.add(at)
            found = value if value is not None else ending_of(settings, name) if settings else UNKNOWN
        values.append(found)
    return values, doubtful
