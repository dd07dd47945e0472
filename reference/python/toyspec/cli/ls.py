"""``toyspec ls``: the runs below a directory, best first."""

from __future__ import annotations

import gc
import os
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any, Literal

from toyspec.cli import exit_codes
from toyspec.cli.columns import cut_apart, width
from toyspec.cli.dialect_options import add_dialect, add_profile, dialect_choice, settings
from toyspec.cli.figures import duration, figure, when
from toyspec.cli.formats.objects import dialect_object
from toyspec.cli.parsers import Parser, add_color
from toyspec.cli.paths import encodable, shown
from toyspec.cli.progress import Progress
from toyspec.cli.tables import Side, joined, lined_up
from toyspec.cli.terminal import Style, Terminal, columns
from toyspec.escaping import printable, shortened
from toyspec.places.addresses import is_address, path_in, public
from toyspec.reading.sealed_files import has_seal
from toyspec.runs.columns import Condition, condition, needs_whole_streams, sorted_by, value_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from toyspec.reading.log_detection import DialectChoice
    from toyspec.runs.listing import Extent, Runs
    from toyspec.runs.summary import RunState, RunSummary

_STATES: dict[RunState, Style] = {"complete": "good", "running": "good", "torn": "warning", "damaged": "error"}
_TITLES = ("run", "state", "end", "steps", "final loss", "took", "started")
_SIDES: tuple[Side, ...] = ("left", "left", "left", "right", "right", "right", "left")
_LEAST_NAME_COLUMNS = 12
_BY_ENDS = "? only the start and end of a large stream were read; --full reads everything"
# The width where the output is not a terminal.
_PIPED_COLUMNS = 1000


def _by_loss(run: RunSummary) -> tuple[bool, float]:
    return (run.final_loss is None, run.final_loss or 0.0)


_ORDERS: dict[str, Callable[[RunSummary], Any]] = {
    "loss": _by_loss,
    "name": lambda run: run.path,
    "state": lambda run: tuple(_STATES).index(run.state),
    "steps": lambda run: -(run.last_step or 0),
    "took": lambda run: -(run.seconds or 0.0),
    "started": lambda run: run.started_at or "",
}


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec ls [OPTION…] [ROOT…]"
    parser.description = (
        "List the runs below each ROOT: the lowest final loss first, runs without one\n"
        "last. Torn and damaged runs are listed with what can be read of them. A torn\n"
        "run that a writer has open is shown as running. A sealed run has a seal, with\n"
        "which `toyspec check` and `toyspec show` compare its files. The final loss is\n"
        "that of run_end, else that of the last step with a loss.\n"
        "\n"
        "A stream of up to 1 MiB is read completely. Of a larger one only the start and\n"
        "the end are read, and its state has a question mark; --full reads everything.\n"
        "Of a stream in an object store, 128 KiB are read.\n"
        "\n"
        "A column is a fact of every run such as last_step, a setting such as config.lr,\n"
        "or a metric: val/acc is its last value, best.val/acc its best. The goal of a\n"
        "metric is the one that the run defines; without one, smaller is better for\n"
        "names with loss, error, ppl or perplexity. Metrics need whole streams."
    )
    parser.epilog = (
        "examples:\n"
        "  toyspec ls runs/\n"
        "  toyspec ls --sort started --json runs/ | jq '.[0]'\n"
        "  toyspec ls --sort best.val/acc --columns config.lr --where 'val/acc>0.7' runs/"
    )
    parser.add_argument(
        "roots",
        metavar="ROOT",
        nargs="*",
        type=public,
        help="directories or addresses; default: the roots in toyspec.toml, else this directory",
    )
    _add_columns(parser)
    parser.add_argument("-r", "--reverse", action="store_true", help="sort the other way round")
    parser.add_argument("--full", action="store_true", help="read every byte of every stream")
    parser.add_argument("--json", action="store_true", help="print an array of objects, in the same order")
    add_profile(parser)
    add_dialect(parser)
    add_color(parser)


def _add_columns(parser: Parser) -> None:
    parser.add_argument(
        "--sort",
        metavar="COLUMN",
        default="loss",
        help=f"{', '.join(_ORDERS)}, or any column: a metric, best first by its goal, or a setting; default: loss",
    )
    parser.add_argument("--columns", metavar="NAME[,NAME…]", type=_names, default=[], help="columns to show as well")
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        type=_condition,
        action="append",
        default=[],
        help="list only runs that meet it: 'val/acc>0.7', 'config.opt=adam'; may be repeated",
    )


def run(options: Namespace) -> int:
    """Print the list and return an exit code."""
    # The runs are kept to the end and are not in cycles; searching for cycles takes a sixth of the time.
    gc.disable()
    try:
        return _list(options)
    finally:
        gc.enable()


def _list(options: Namespace) -> int:
    columns = [*options.columns, *(each.column for each in options.where)]
    columns += [] if options.sort in _ORDERS else [options.sort]
    configuration = settings()
    choice = dialect_choice(options, configuration, search=True)
    options.roots = options.roots or list(configuration.roots) or ["."]
    found = _listed(options.roots, "whole" if options.full or needs_whole_streams(columns) else "ends", choice)
    runs = sorted(found, key=lambda each: each.path)
    runs = [each for each in runs if all(condition.holds(each) for condition in options.where)]
    if options.sort in _ORDERS:
        runs.sort(key=_ORDERS[options.sort], reverse=options.reverse)
    else:
        runs = sorted_by(runs, options.sort)[:: -1 if options.reverse else 1]
    shown_columns = list(dict.fromkeys([*options.columns, *([] if options.sort in _ORDERS else [options.sort])]))
    if options.json:
        _print_json(runs, shown_columns)
    elif runs:
        _print_table(runs, options.roots, Terminal(color=options.color), shown_columns)
    elif len(found):
        sys.stderr.write(f"toyspec ls: none of {len(found)} runs meets the conditions\n")
    elif not found.errors:
        sys.stderr.write(f"toyspec ls: no runs below {', '.join(map(shown, options.roots))}{_skipped(found.skipped)}\n")
    for error in found.errors:
        sys.stderr.write(f"toyspec ls: {shown(error.path)}: {printable(error.message)}\n")
    return exit_codes.USAGE if found.errors else exit_codes.OK


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _condition(text: str) -> Condition:
    try:
        return condition(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _listed(roots: list[str], extent: Extent, dialect: DialectChoice) -> Runs:
    from toyspec.runs.listing import list_runs

    progress = Progress("reading")
    try:
        watch = progress.update if progress.active else None
        return list_runs(*roots, read=extent, on_progress=watch, dialect=dialect)
    finally:
        progress.erase()


def _skipped(number: int) -> str:
    if not number:
        return ""
    return (
        "; 1 file of another format was skipped" if number == 1 else f"; {number} files of other formats were skipped"
    )


def _print_table(runs: list[RunSummary], roots: list[str], terminal: Terminal, more: list[str]) -> None:
    is_directory = len(roots) == 1 and (is_address(roots[0]) or os.path.isdir(roots[0]))
    root = path_in(roots[0], "") if is_directory else None
    rows = [[*_TITLES, *(shortened(name) for name in more)]]
    rows += [[*_row(run, root), *(_cell(value_of(run, name)) for name in more)] for run in runs]
    room = (columns() if terminal.interactive else _PIPED_COLUMNS) - sum(
        max(width(row[index]) for row in rows) + 2 for index in range(1, len(rows[0]))
    )
    names = cut_apart([row[0] for row in rows], max(room, _LEAST_NAME_COLUMNS))
    rows = [[name, *row[1:]] for name, row in zip(names, rows, strict=True)]
    right: list[Side] = ["right"] * len(more)
    titles, *lines = lined_up(rows, [*_SIDES, *right])
    terminal.line(terminal.styled(joined(titles), "dim"))
    for cells, run in zip(lines, runs, strict=True):
        cells[1] = terminal.styled(cells[1], _STATES[run.state])
        terminal.line(joined(cells))
    # A pipe gets the table alone; a program can ask for JSON, which has the same mark for each run.
    if terminal.interactive and not all(run.extent.is_checked for run in runs):
        terminal.line(terminal.styled(_BY_ENDS, "dim"))


def _cell(value: Any) -> str:
    return "" if value is None else figure(value)


def _row(run: RunSummary, root: str | None) -> list[str]:
    reason = run.end.get("reason") if run.end else None
    return [
        shown(_relative(run, root)),
        (run.state if run.extent.is_checked else f"{run.state}?") + (", sealed" if has_seal(run.directory) else ""),
        figure(reason) if isinstance(reason, str) else "",
        "" if run.last_step is None else figure(run.last_step),
        figure(run.final_loss) if run.says_final_loss else "",
        "" if run.seconds is None else duration(run.seconds),
        "" if run.started_at is None else when(run.started_at),
    ]


def _read(run: RunSummary) -> Literal["ends", "whole"]:
    """Return how much of the stream was read; with the ends alone, the number of records is unknown."""
    return "ends" if run.extent.records is None else "whole"


def _relative(run: RunSummary, root: str | None) -> str:
    """Return the path of the run's directory from *root* if there is only one root, else its own path."""
    directory = run.directory
    if root is None:
        return directory
    if directory.startswith(root):
        return directory[len(root) :]
    relative = os.path.relpath(directory, root)
    return run.name if relative == "." else relative


def _print_json(runs: list[RunSummary], columns: list[str]) -> None:
    from toyspec.cli.formats.inert_json import inert_json

    sys.stdout.write("[" + ",".join(f"\n{inert_json(_object(run, columns))}" for run in runs) + "\n]\n")


def _object(run: RunSummary, columns: list[str]) -> dict[str, Any]:
    more = {"columns": {name: value_of(run, name) for name in columns}} if columns else {}
    return more | {
        "path": encodable(run.path),
        "run_id": run.start.get("run_id"),
        "profile": run.profile,
        **({} if run.dialect is None else {"dialect": dialect_object(run.dialect)}),
        "state": run.state,
        "sealed": has_seal(run.directory),
        "read": _read(run),
        "records": run.extent.records,
        "bytes": run.extent.size,
        "reason": run.end.get("reason") if run.end else None,
        "first_step": run.first_step,
        "last_step": run.last_step,
        "final_loss": run.final_loss,
        "seconds": run.seconds,
        "started_at": run.started_at,
        "model": run.start.get("model"),
        "config": run.start.get("config"),
    }
