"""``toyspec ls``: the runs below a directory, the best first."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

from toyspec.cli import exit_codes
from toyspec.cli.columns import cut_start, width
from toyspec.cli.figures import duration, figure, when
from toyspec.cli.parsers import Parser, add_color
from toyspec.cli.paths import encodable, fact_of, shown
from toyspec.cli.progress import Progress
from toyspec.cli.tables import Side, joined, lined_up
from toyspec.cli.terminal import Style, Terminal, columns
from toyspec.errors import StreamError, UnknownFormatError
from toyspec.escaping import printable
from toyspec.findings import PathError
from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from toyspec.findings import State
    from toyspec.runs.summary import RunSummary

_STATES: dict[State, Style] = {"complete": "good", "torn": "warning", "damaged": "error"}
# A run that has events is listed by them alone.
_SECOND = f"{os.sep}{METRICS_FILE}"
_TITLES = ("run", "state", "end", "steps", "final loss", "took", "started")
_SIDES: tuple[Side, ...] = ("left", "left", "left", "right", "right", "right", "left")
_LEAST_NAME_COLUMNS = 12
_BY_ENDS = "states are those of the ends of streams: --full looks for damage between them"
# Without a terminal there is no width to keep to.
_PIPED_COLUMNS = 1000


def _by_loss(run: RunSummary) -> tuple[bool, float]:
    return (run.final_loss is None, run.final_loss or 0.0)


_ORDERS: dict[str, Callable[[RunSummary], Any]] = {
    "loss": _by_loss,
    "name": lambda run: run.path,
    "state": lambda run: tuple(_STATES).index(run.extent.state),
    "steps": lambda run: -(run.last_step or 0),
    "took": lambda run: -(run.seconds or 0.0),
    "started": lambda run: run.started_at or "",
}


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec ls [OPTION…] [ROOT…]"
    parser.description = (
        "List the runs below each ROOT, the one with the least final loss first and\n"
        "those without one last. Torn and damaged runs are listed too, by what can be\n"
        "read of them. The final loss is that of run_end, else that of the last step.\n"
        "\n"
        "Only the first and the last lines of a long stream are read. Damage between\n"
        "them shows with --full, and in `toyspec check`; JSON says what was read."
    )
    parser.epilog = "examples:\n  toyspec ls runs/\n  toyspec ls --sort started --json runs/ | jq '.[0]'"
    parser.add_argument("roots", metavar="ROOT", nargs="*", default=["."], help="default: this directory")
    parser.add_argument("--sort", choices=tuple(_ORDERS), default="loss", help="what to sort by; default: loss")
    parser.add_argument("-r", "--reverse", action="store_true", help="sort the other way round")
    parser.add_argument("--full", action="store_true", help="read every byte of every stream")
    parser.add_argument("--json", action="store_true", help="print an array of objects, in the same order")
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the list and return an exit code."""
    # What is listed is kept to the end and is in no cycle: to look for some takes a sixth of the time.
    gc.disable()
    try:
        return _list(options)
    finally:
        gc.enable()


def _list(options: Namespace) -> int:
    runs, faults, skipped = _summaries(options.roots, "whole" if options.full else "ends")
    runs.sort(key=lambda each: each.path)
    runs.sort(key=_ORDERS[options.sort], reverse=options.reverse)
    if options.json:
        _print_json(runs)
    elif runs:
        _print_table(runs, options.roots, Terminal(color=options.color))
    elif not faults:
        sys.stderr.write(f"toyspec ls: no runs below {', '.join(map(shown, options.roots))}{_skipped(skipped)}\n")
    for fault in faults:
        sys.stderr.write(f"toyspec ls: {shown(fault.path)}: {printable(fault.message)}\n")
    return exit_codes.USAGE if faults else exit_codes.OK


def _summaries(roots: list[str], extent: Literal["ends", "whole"]) -> tuple[list[RunSummary], list[PathError], int]:
    """Return the runs below *roots*, what could not be read, and the number of files that are not runs."""
    from toyspec.runs.discovery import Stream, find_streams
    from toyspec.runs.ends import BLOCK_BYTES, summarize_ends
    from toyspec.runs.summary import summarize_run

    faults: list[PathError] = []
    streams: dict[str, Stream] = {}
    for root in roots:
        real_root = os.path.realpath(root)
        for found in find_streams(root):
            if isinstance(found, PathError):
                faults.append(found)
            elif isinstance(found, Stream):
                # Below a root only a file may be a link: to ask for the real path of each costs more than to read.
                is_link = os.path.islink(found.path)
                real = os.path.realpath(found.path) if is_link else real_root + found.path[len(root) :]
                streams[real] = found
    for real in [real for real in streams if real.endswith(_SECOND)]:
        if f"{real.removesuffix(_SECOND)}{os.sep}{EVENTS_FILE}" in streams:
            del streams[real]
    summarize, most = (summarize_run, sys.maxsize) if extent == "whole" else (summarize_ends, 2 * BLOCK_BYTES)
    progress = Progress("reading")
    total, done = sum(min(stream.size, most) for stream in streams.values()), 0
    runs, skipped = [], 0
    for stream in streams.values():
        progress.update(done, total)
        try:
            runs.append(summarize(stream.path))
        except UnknownFormatError as error:
            skipped += stream.is_below
            faults += [] if stream.is_below else [PathError(stream.path, fact_of(error))]
        except StreamError as error:
            faults.append(PathError(stream.path, fact_of(error)))
        done += min(stream.size, most)
    progress.erase()
    return runs, faults, skipped


def _skipped(number: int) -> str:
    if not number:
        return ""
    return (
        "; 1 file of another format was skipped" if number == 1 else f"; {number} files of other formats were skipped"
    )


def _print_table(runs: list[RunSummary], roots: list[str], terminal: Terminal) -> None:
    root = os.path.join(roots[0], "") if len(roots) == 1 and os.path.isdir(roots[0]) else None
    rows = [list(_TITLES), *(_row(run, root) for run in runs)]
    room = (columns() if terminal.interactive else _PIPED_COLUMNS) - sum(
        max(width(row[index]) for row in rows) + 2 for index in range(1, len(_TITLES))
    )
    for row in rows:
        row[0] = cut_start(row[0], max(room, _LEAST_NAME_COLUMNS))
    titles, *lines = lined_up(rows, _SIDES)
    terminal.line(terminal.styled(joined(titles), "dim"))
    for cells, run in zip(lines, runs, strict=True):
        cells[1] = terminal.styled(cells[1], _STATES[run.extent.state])
        terminal.line(joined(cells))
    # A pipe gets the table alone; what takes it apart can ask for JSON, which says the same of each run.
    if terminal.interactive and "ends" in map(_read, runs):
        terminal.line(terminal.styled(_BY_ENDS, "dim"))


def _row(run: RunSummary, root: str | None) -> list[str]:
    reason = run.end.get("reason") if run.end else None
    return [
        shown(_relative(run, root)),
        run.extent.state,
        figure(reason) if isinstance(reason, str) else "",
        "" if run.last_step is None else figure(run.last_step),
        figure(run.final_loss) if run.says_final_loss else "",
        "" if run.seconds is None else duration(run.seconds),
        "" if run.started_at is None else when(run.started_at),
    ]


def _read(run: RunSummary) -> Literal["ends", "whole"]:
    """Return what was read of the stream; of the ends alone, the number of records is not known."""
    return "ends" if run.extent.records is None else "whole"


def _relative(run: RunSummary, root: str | None) -> str:
    """Return what tells the run from others below the only *root*: the path of its directory from there."""
    directory = run.directory
    if root is None:
        return directory
    if directory.startswith(root):
        return directory[len(root) :]
    relative = os.path.relpath(directory, root)
    return run.name if relative == "." else relative


def _print_json(runs: list[RunSummary]) -> None:
    from toyspec.cli.formats.inert_json import inert_json

    sys.stdout.write("[" + ",".join(f"\n{inert_json(_object(run))}" for run in runs) + "\n]\n")


def _object(run: RunSummary) -> dict[str, Any]:
    return {
        "path": encodable(run.path),
        "run_id": run.start.get("run_id"),
        "profile": run.profile,
        "state": run.extent.state,
        "read": _read(run),
        "records": run.extent.records,
        "bytes": run.extent.size,
        "reason": run.end.get("reason") if run.end else None,
        "first_step": run.first_step,
        "last_step": run.last_step,
        "final_loss": run.final_loss,
        "seconds": run.seconds,
        "started_at": run.started_at,
    }
