"""``toyspec query``: ask a catalog in SQL."""

from __future__ import annotations

import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import figure
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, UsageError, add_color, local_path, seconds
from toyspec.core.command_line.run_tables import print_table
from toyspec.core.command_line.tables import Side, csv_row
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.catalog.reading import Answer

_DEFAULT = "catalog"

DESCRIPTION = """\
Print the answer to SQL, one SELECT of DuckDB, over a catalog of runs. Its table
runs has a row for each run. The table names has each name of a setting or
metric, and how many runs have it.

A setting or metric is a column of runs, in quotes: "config.lr", "best.val/acc",
"nan.loss". Those of few runs are columns too, but not in describe runs.

The query reaches no file but those of the catalog, and changes nothing."""

EPILOG = """\
examples:
  toyspec query 'describe runs'
  toyspec query 'select run, "config.lr", final_loss from runs
                 where state = $$complete$$ order by final_loss limit 10'
  toyspec query --csv 'select day, count(*) from runs group by day' > days.csv"""
USAGE = "toyspec query [OPTION…] SQL"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    from toyspec.catalog.reading import QUERY_SECONDS

    parser.value("sql", "SQL", "the query; - reads it from standard input")
    parser.value("--catalog", "DIR", f"the catalog; default: {_DEFAULT}", type=local_path, default=_DEFAULT)
    parser.value(
        "--timeout",
        "SECONDS",
        f"give it up after this long; default: {QUERY_SECONDS:g}",
        type=seconds,
        default=QUERY_SECONDS,
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print an array of objects")
    forms.add_argument("--csv", action="store_true", help="print CSV; an apostrophe precedes what would be a formula")
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the answer and return an exit code."""
    from toyspec.catalog.reading import Catalog

    sql = sys.stdin.read() if options.sql == "-" else options.sql
    try:
        answer = Catalog(options.catalog).query(sql, seconds=options.timeout)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if options.json:
        rows = (dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows)
        sys.stdout.write("[" + ",".join(f"\n{inert_json(row)}" for row in rows) + "\n]\n")
    elif options.csv:
        for row in (answer.columns, *answer.rows):
            sys.stdout.write(csv_row([_cell(value) for value in row]) + "\n")
    else:
        _print_table(answer, Terminal(color=options.color))
    return exit_codes.OK


def _print_table(answer: Answer, terminal: Terminal) -> None:
    rows = [[printable(column) for column in answer.columns]]
    rows += [[_shown(value) for value in row] for row in answer.rows]
    columns = list(zip(*answer.rows, strict=True)) or [()] * len(answer.columns)
    sides: list[Side] = ["right" if all(map(_is_number, column)) and column else "left" for column in columns]
    print_table(rows, sides, terminal)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return figure(value) if isinstance(value, int | float | str) else printable(str(_cell(value)))


def _cell(value: Any) -> str | float | bool | None:
    found = _plain(value)
    return inert_json(found) if isinstance(found, list | dict) else found


def _plain(value: Any) -> Any:
    """Return *value* as JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | datetime | time | timedelta):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
