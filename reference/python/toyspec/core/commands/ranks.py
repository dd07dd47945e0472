"""``toyspec ranks``: the processes of one run, which stopped first, and which is slowest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import cell, duration, metric_figure, shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, add_color, local_path
from toyspec.core.command_line.tables import Side, joined, lined_up, some_of
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.errors import StreamError
from toyspec.core.escaping import printable, shortened
from toyspec.core.runs.ranks import ranks_of, ranks_row

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from toyspec.core.runs.ranks import RankProgress, Ranks

_NAME_CHARS = 40
_ERROR_CHARS = 60
_MOST_LISTED = 12


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec ranks [OPTION…] RUN"
    parser.description = (
        'Show the processes of one run that each write a log, as start_run(ranks="all")\n'
        "makes them do: a row for each, which stopped first, which is slowest and by how\n"
        "much, and the last value of each metric as mean, smallest and largest.\n"
        "\n"
        "Ranks that wait for each other take equally long from step to step. Log\n"
        "compute_us, the time before the wait, to see which one the others wait for."
    )
    parser.epilog = "examples:\n  toyspec ranks runs/llama-003\n  toyspec ranks --json runs/llama-003 | jq .slowest"
    parser.add_argument("run", metavar="RUN", type=local_path, help="a run directory, or a stream in one")
    parser.add_argument("--json", action="store_true", help="print an object with everything that is shown")
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the ranks and return an exit code."""
    try:
        ranks = ranks_of(options.run)
    except StreamError as error:
        tell("ranks", f"{shown(options.run)}: {error.fact}")
        return exit_codes.USAGE
    if options.json:
        sys.stdout.write(inert_json(ranks_row(ranks)) + "\n")
        return exit_codes.OK
    terminal = Terminal(color=options.color)
    terminal.line(f"{terminal.styled(shown(ranks.directory), 'strong')}  {number_of_ranks(ranks)}")
    latest = ranks.latest
    table = [["rank", "state", "end", "steps", "behind", "step time", "compute", "silent", "error"]]
    table += [_row(each, is_latest=each in latest) for each in ranks.ranks]
    kept = [column for column in zip(*table, strict=True) if any(column[1:])]
    sides: list[Side] = ["left" if column[0] in ("state", "end", "error") else "right" for column in kept]
    head, *rows = lined_up(list(zip(*kept, strict=True)), sides)
    terminal.line(terminal.styled(joined(head), "dim"))
    for row in rows:
        terminal.line(joined(row))
    for line in rank_facts(ranks):
        terminal.line(line)
    for name, spread in list(ranks.metrics.items())[:_MOST_LISTED]:
        terminal.line(
            f"{shortened(name, _NAME_CHARS)}  mean {metric_figure(name, spread.mean)}, "
            f"smallest {metric_figure(name, spread.smallest)} on rank {spread.smallest_rank}, "
            f"largest {metric_figure(name, spread.largest)} on rank {spread.largest_rank}"
        )
    if len(ranks.metrics) > _MOST_LISTED:
        terminal.line(f"and {len(ranks.metrics) - _MOST_LISTED} more metrics; --json has all")
    return exit_codes.OK


def number_of_ranks(ranks: Ranks) -> str:
    """Return that so many ranks have a log, of how many that there are."""
    size, number = ranks.world_size, len(ranks.ranks)
    earlier = number - len(ranks.latest)
    more = f", and {earlier} of an earlier attempt," if earlier else ""
    if number == 1 and size is None:
        return "1 rank has a log"
    return f"{number - earlier}{'' if size is None else f' of {size}'} ranks{more} have a log"


def rank_facts(ranks: Ranks) -> Iterator[str]:
    """Yield what is to be said about the ranks of a run together, each as a line."""
    if ranks.missing:
        yield f"no log of rank {some_of([str(rank) for rank in ranks.missing], _MOST_LISTED)}"
    for error in ranks.errors:
        yield f"{shown(error.path)}: {printable(error.message)}"
    if ranks.first_to_stop is not None:
        yield f"stopped first: rank {ranks.first_to_stop.rank}: {ranks.first_to_stop.why}"
    elif len(ranks.latest) > 1 and any(each.reason != "completed" for each in ranks.latest):
        yield f"stopped first: not known: {_why_not_known(ranks.latest)}"
    if ranks.slowest is not None:
        slow = ranks.slowest
        yield f"slowest: rank {slow.rank}, {slow.factor:.2f} times the median of the others, by {slow.by}"


def _why_not_known(rows: list[RankProgress]) -> str:
    steps = {each.last_step for each in rows}
    more = "log the regions of a step, as run.region does, to see more"
    if len(steps) == 1:
        return f"all came to step {steps.pop()}; {more}"
    if any(each.state == "running" for each in rows):
        return "those behind are still being written"
    least = min((each.last_step for each in rows if each.last_step is not None), default=None)
    least = None if None in steps else least
    behind = some_of([str(each.rank) for each in rows if each.last_step == least], _MOST_LISTED)
    where = "before their first step" if least is None else f"at step {least}"
    return f"ranks {behind} stopped {where} within a second; {more}"


def _row(row: RankProgress, *, is_latest: bool) -> list[str]:
    return [
        str(row.rank),
        row.state if is_latest else f"{row.state}, earlier attempt",
        "" if row.reason is None else shortened(row.reason, _NAME_CHARS),
        cell(row.last_step, str),
        str(row.behind) if row.behind else "",
        cell(row.step_seconds, _short),
        cell(row.compute_seconds, _short),
        # Without a later record of another rank nothing was missed.
        duration(row.silent_seconds) if row.silent_seconds and row.silent_seconds > 1 else "",
        "" if row.error is None else shortened(row.error, _ERROR_CHARS),
    ]


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else duration(seconds)
