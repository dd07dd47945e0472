"""``toyspec show``: one run on one screen."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal

from toyspec.cli import exit_codes
from toyspec.cli.columns import padded, width, wrapped
from toyspec.cli.figures import duration, figure
from toyspec.cli.members import flat
from toyspec.cli.parsers import Parser, add_color
from toyspec.cli.paths import shown
from toyspec.cli.progress import Progress, size
from toyspec.cli.terminal import Style, Terminal, columns
from toyspec.errors import StreamError, StreamMissingError
from toyspec.escaping import shortened
from toyspec.runs.curves import sparkline
from toyspec.runs.summary import RunSummary, summarize_run

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping

    from toyspec.findings import State
    from toyspec.read_reports import ReadReport
    from toyspec.runs.curves import Curve

Better = Literal["least", "greatest", "unknown"]

_STATES: dict[State, Style] = {"complete": "good", "torn": "warning", "damaged": "error"}
_MAX_COLUMNS = 120
_NAME_CHARS = 40
# The longest title of all that are not names of measures.
_TITLE_COLUMNS = len("experiment")
_MAX_LISTED = 12


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec show [OPTION…] RUN"
    parser.description = (
        "Show one run: its state, where and with which settings it ran, its steps and\n"
        "loss, evaluations, how it ended, and what a check finds. A torn or damaged run\n"
        "is shown by what can be read of it."
    )
    parser.epilog = "examples:\n  toyspec show runs/llama-001"
    parser.add_argument("run", metavar="RUN", help="a run directory or a stream")
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the run and return an exit code."""
    try:
        summary = summarize_run(options.run, watch=Progress("reading").watch)
    except StreamError as error:
        sys.stderr.write(f"toyspec show: {error}\n")
        if isinstance(error, StreamMissingError) and os.path.isdir(options.run):
            sys.stderr.write(f"`toyspec ls {shown(options.run)}` lists the runs below it\n")
        return exit_codes.USAGE
    terminal = Terminal(color=options.color)
    limit = min(columns(), _MAX_COLUMNS)
    report = summary.report
    state = terminal.styled(report.state, _STATES[report.state])
    terminal.line(f"{terminal.styled(shown(summary.name), 'strong')}  {state}  {report.profile}  {shown(summary.path)}")
    for line in _lines(list(_facts(summary, terminal)), terminal, limit):
        terminal.line(line)
    return exit_codes.OK


def _lines(facts: list[tuple[str, str]], terminal: Terminal, limit: int) -> Iterator[str]:
    """Yield the lines of *facts*: titles in one column, texts wrapped in the other."""
    hang = max(width(title) for title, _ in facts) + 2
    for title, text in facts:
        head = padded(title, hang)
        for line in wrapped(text, limit - hang - 2):
            yield f"  {terminal.styled(head, 'dim')}{line}".rstrip()
            head = " " * hang


def _facts(run: RunSummary, terminal: Terminal) -> Iterator[tuple[str, str]]:
    """Yield what is known as title and text, what happened first coming first."""
    yield from _beginning(run)
    if run.last_step is not None:
        count = run.loss.count if run.loss is not None else 0
        yield "steps", f"{run.first_step} to {run.last_step}" + (f", {count} with a loss" if count else "")
    yield from _curves(run, terminal)
    for name, event in list(run.evals.items())[:_MAX_LISTED]:
        yield "eval", f"{shortened(name, _NAME_CHARS)}  {_listed(event, leave_out=('kind', 't', 'phase', 'name'))}"
    if run.end is not None:
        yield "end", _listed(run.end, leave_out=("kind", "t", "phase", "step"))
    kinds = sorted(run.kinds.items(), key=lambda item: -item[1])
    named = ", ".join(f"{number} {shortened(kind, _NAME_CHARS)}" for kind, number in kinds[:_MAX_LISTED])
    yield "records", f"{run.report.records} in {size(run.report.size)}" + (f": {named}" if named else "")
    yield from _faults(run)


def _beginning(run: RunSummary) -> Iterator[tuple[str, str]]:
    start = run.start
    took = "" if run.seconds is None else duration(run.seconds)
    if run.started_at is not None:
        yield "started", figure(run.started_at) + (f", took {took}" if took else "")
    elif took:
        yield "took", took
    for key in ("experiment", "compare_to"):
        if key in start:
            yield key, figure(start[key])
    if isinstance(start.get("tags"), list):
        yield "tags", ", ".join(map(figure, start["tags"][:_MAX_LISTED]))
    for key in ("host", "backend", "git", "model", "config"):
        if isinstance(start.get(key), dict) and start[key]:
            yield key, _listed(start[key])


def _curves(run: RunSummary, terminal: Terminal) -> Iterator[tuple[str, str]]:
    names = [shortened(name, _NAME_CHARS) for name in run.series]
    room = columns() - 4 - max(_TITLE_COLUMNS, *map(width, names), 0)
    for name, curve in list(run.series.items())[:_MAX_LISTED]:
        line = sparkline(curve.means(room), "unicode" if terminal.unicode else "ascii")
        yield shortened(name, _NAME_CHARS), ", ".join(_extremes(curve, _better(run, name)))
        if curve.count > 1 and line:
            yield "", line
    if len(run.series) > _MAX_LISTED:
        yield "", f"and {len(run.series) - _MAX_LISTED} more"


def _better(run: RunSummary, name: str) -> Better:
    """Return which values of the series *name* are better, as far as the profile says."""
    if run.report.profile == "kaun/v1":
        return "least" if run.minimized[name] else "greatest"
    return "least" if name == "loss" else "unknown"


def _extremes(curve: Curve, better: Better) -> Iterator[str]:
    if curve.first is not None and curve.last is not None:
        yield f"first {figure(curve.first[1])}"
        yield f"last {figure(curve.last[1])}"
    if better == "unknown" and curve.least and curve.greatest:
        yield f"all from {figure(curve.least[1])} to {figure(curve.greatest[1])}"
    best = curve.greatest if better == "greatest" else curve.least
    if better != "unknown" and best:
        yield f"{better} {figure(best[1])} at step {best[0]}"
    if curve.not_finite:
        yield f"{curve.not_finite} not finite"


def _faults(run: RunSummary) -> Iterator[tuple[str, str]]:
    from toyspec.checker import CheckOptions, iter_reports
    from toyspec.findings import FileReport

    progress = Progress("checking")
    on_progress = progress.update if progress.active else None
    report = next(iter(iter_reports([run.path], options=CheckOptions(), on_progress=on_progress)))
    progress.erase()
    if not isinstance(report, FileReport):
        yield "findings", report.message
        return
    counts: dict[str, int] = dict(report.suppressed)
    for finding in report.findings:
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
    named = ", ".join(f"{number} {rule}" for rule, number in counts.items())
    yield "findings", f"{named}; see `toyspec check {shown(run.directory)}`" if named else "none"
    if run.report.fragment is not None:
        yield "fragment", f"{run.report.fragment.length} bytes after the last committed record: {_kept(run.report)}"


def _kept(report: ReadReport) -> str:
    if report.uncommitted:
        return "a whole record, but for its LF"
    return "NUL" if report.fragment and report.fragment.all_nul else "half a record"


def _listed(members: Mapping[str, Any], leave_out: tuple[str, ...] = ()) -> str:
    named = [
        f"{shortened(name.removeprefix('extra.'), _NAME_CHARS)} {figure(value)}"
        for name, value in flat(members)
        if name not in leave_out
    ]
    more = f", and {len(named) - 2 * _MAX_LISTED} more" if len(named) > 2 * _MAX_LISTED else ""
    return ", ".join(named[: 2 * _MAX_LISTED]) + more
