"""Filters and fields as SQL over the rows of a catalog: the second evaluator of the trees of ``runs.expressions``.

Each field is a column of JSON, of SQL null where a run does not have it. A name of a setting or metric is a pointer
into the JSON of a row, so that a name that one run has costs no more than one that all have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toyspec.catalog.tables import name as quoted
from toyspec.catalog.tables import text
from toyspec.format.pointers import pointer_to
from toyspec.generated.runs import ALIASES, COLUMNS
from toyspec.runs.columns import ALERT_FIELDS, METRIC_PARTS
from toyspec.runs.expressions import ORDERS, Comparison, Every, Expression, Not, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.runs.expressions import Node

_NAME = "coalesce(nullif(\"name\", ''), run)"
_OWN_PROFILE = "CASE WHEN dialect IS NULL THEN profile END"
# The order of ``columns.text_of``.
_WORDS = f"""lower(concat_ws(chr(10), {_NAME}, path, coalesce("group", ''), coalesce(notes, ''), state,
coalesce({_OWN_PROFILE}, ''),
coalesce(json_extract_string(dialect, '$.name'), ''), array_to_string(tags, chr(10))))"""
_REASON = "coalesce(to_json(reason), json_extract(run_end, '/reason'), 'null'::JSON)"
_JSON = {"reason": _REASON, "final_loss": "coalesce(said_loss::JSON, 'null'::JSON)"}
_LISTS = frozenset(["tag", "tags"])
_OF_CATALOGS = {"errors": "errors", "warnings": "warnings", "findings": "errors + warnings + infos"} | {
    name: name for name in ALERT_FIELDS
}


def _with_aliases(columns: dict[str, str]) -> dict[str, str]:
    return columns | {alias: columns[known] for alias, known in ALIASES.items() if known in columns}


_COLUMNS = _OF_CATALOGS | _with_aliases(
    {column: quoted(column) for column in COLUMNS.keys() - _JSON.keys() - _LISTS} | {"name": _NAME}
)
"""The SQL of what every run has, by the names of fields."""
_NUMBERS = frozenset(
    [*ALERT_FIELDS, "errors", "warnings"]
    + [field for field in _COLUMNS if COLUMNS.get(ALIASES.get(field, field), {}).get("type") in ("integer", "number")]
)


class FieldNames(NamedTuple):
    """The names that a field may mean, in the order in which they are tried."""

    setting: tuple[str, ...]
    metrics: tuple[tuple[str, str], ...]
    """Each with what is asked of it: last, best or nan."""


def is_own(field: str) -> bool:
    """Return whether every run has *field*."""
    return field in _COLUMNS or field in _JSON or field in _LISTS


def meanings(field: str) -> FieldNames:
    """Return what *field*, which not every run has, may mean: see ``columns.field_of``."""
    settings = tuple(dict.fromkeys((field.removeprefix("config."), field)))
    part, _, rest = field.partition(".")
    metrics = ((rest, part), (field, "last")) if part in METRIC_PARTS and rest else ((field, "last"),)
    return FieldNames(settings, metrics)


def field_json(field: str, *, has_endings: bool) -> str:
    """Return the SQL of the value of *field* as JSON; *has_endings* says that a setting's name may end in it."""
    if field in _LISTS:
        return "to_json(tags)"
    if field in _JSON:
        return _JSON[field]
    if field in _COLUMNS:
        return f"coalesce(to_json({_COLUMNS[field]}), 'null'::JSON)"
    names = meanings(field)
    found = [f"json_extract(settings, {text(pointer_to([name]))})" for name in names.setting]
    metrics = "NULL"
    for name, part in reversed(names.metrics):
        there = f"json_exists(metrics, {text(pointer_to([name]))})"
        metrics = f"CASE WHEN {there} THEN {_metric(name, part)} ELSE {metrics} END"
    found.append(metrics)
    if has_endings:
        key = f"[key FOR key IN json_keys(settings) IF ends_with(key, {text(f'.{field}')})][1]"
        found.append(f"json_extract(settings, '/' || replace(replace({key}, '~', '~0'), '/', '~1'))")
    return f"coalesce({', '.join(found)})"


def _metric(name: str, part: str) -> str:
    """Return the SQL of what is asked of a metric; null where it has no finite value."""
    last = f"nullif(json_extract(metrics, {text(pointer_to([name, part]))}), 'null'::JSON)"
    return f"coalesce(json_extract(metrics, {text(pointer_to([name, 'finite']))}), {last})" if part == "last" else last


def number_of(json: str) -> str:
    """Return the SQL of the number that the SQL *json* is; null for what is not one."""
    return f"TRY_CAST({json}::VARCHAR AS DOUBLE)"


def string_of(json: str) -> str:
    """Return the SQL of the text that the SQL *json* is; null for what is not one."""
    return f"CASE WHEN json_type({json}) = 'VARCHAR' THEN json_extract_string({json}, '$') END"


def condition(filters: Sequence[Expression], columns: dict[str, str]) -> str:
    """Return the SQL of whether a run meets all *filters*; *columns* has the SQL of the JSON of each field."""
    return " AND ".join(_condition(each.tree, columns) for each in filters) or "true"


def _condition(node: Node, columns: dict[str, str]) -> str:
    if isinstance(node, Comparison):
        return _compared(node, columns[node.field])
    if isinstance(node, Words):
        return f"contains({_WORDS}, {text(node.text)})"
    if isinstance(node, Not):
        return f"(NOT {_condition(node.part, columns)})"
    parts = [_condition(part, columns) for part in node.parts]
    if isinstance(node, Every):
        return f"({' AND '.join(parts) or 'true'})"
    return f"({' OR '.join(parts)})"


def _compared(node: Comparison, column: str) -> str:
    if node.field in _LISTS:
        met = f"len([tag FOR tag IN tags IF {_holds(node, 'to_json(tag)')}])"
        return f"({met} = len(tags))" if node.sign.startswith("!") else f"({met} > 0)"
    if node.sign in ORDERS and node.number is not None and node.field in _NUMBERS:
        return f"coalesce({_COLUMNS[node.field]} {node.sign} {_literal(node.number)}, false)"
    return _holds(node, column)


def _holds(node: Comparison, json: str) -> str:
    """Return the SQL of whether the SQL *json* compares as *node* says; it is true or false."""
    if node.sign in ORDERS:
        if node.number is not None:
            return f"coalesce({number_of(json)} {node.sign} {_literal(node.number)}, false)"
        return f"coalesce(lower({string_of(json)}) {node.sign} {text(node.text)}, false)"
    if node.sign in ("~", "!~", "=~"):
        shown = f"CASE WHEN {number_of(json)} IS NULL THEN {_lowered(json)} ELSE {_number_text(json)} END"
        # The engine of DuckDB takes linear time too; it reads what ``runs.patterns`` has accepted.
        is_met = (
            f"regexp_matches({shown}, {text(node.text)}, 'is')"
            if node.sign == "=~"
            else f"contains({shown}, {text(node.text)})"
        )
        found = f"coalesce({is_met}, false)"
    else:
        number = "false" if node.number is None else f"{number_of(json)} = {_literal(node.number)}"
        unknown = "true" if node.text == "null" else "false"
        found = (
            f"CASE WHEN {json} IS NULL OR {json}::VARCHAR = 'null' THEN {unknown} "
            f"WHEN {number_of(json)} IS NOT NULL THEN {number} ELSE {_lowered(json)} = {text(node.text)} END"
        )
    return f"(NOT {found})" if node.sign.startswith("!") else f"({found})"


def _lowered(json: str) -> str:
    return f"lower(coalesce({string_of(json)}, {json}::VARCHAR))"


def _number_text(json: str) -> str:
    """Return the SQL of a number as a browser writes it; JSON of DuckDB differs in what is whole and in e+21."""
    whole = f"regexp_replace({json}::VARCHAR, '\\.0$', '')"
    return f"CASE WHEN {number_of(json)} = 0 THEN '0' ELSE regexp_replace({whole}, 'e(\\d)', 'e+\\1') END"


def _literal(number: float) -> str:
    return f"CAST({text(repr(number))} AS DOUBLE)"
