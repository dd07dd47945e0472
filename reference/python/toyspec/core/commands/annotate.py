"""``toyspec annotate``: give runs a name, a group, tags, notes or a star afterwards, or hide them from lists."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.commands.stream_changes import change_each
from toyspec.core.escaping import shortened
from toyspec.core.reading.run_files import run_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from toyspec.core.reading.annotations import Annotations
    from toyspec.core.runs.discovery import Found, Stream

Outcome = Literal["annotated", "unchanged", "refused", "failed"]

DESCRIPTION = """\
Give runs another name or group, tags, notes or a star, or hide them. The log
does not change, and a seal stays intact: each annotation is a line of
annotations.jsonl beside the log. `toyspec ls`, `show`, `view`, `watch`,
`query`, filters and the API show the annotated facts; the last annotation of
a fact counts.

RUN is a run directory, a log, or a directory with runs below it, which are
all annotated. Without an option, print what annotations say."""

EPILOG = """\
exit status:
  0  every run was annotated
  1  a run was not annotated: another process has its annotations open
  2  wrong usage, or a path that could not be read or written

examples:
  toyspec annotate runs/llama-003 --name 'warmup 2000' --tag good --untag draft
  toyspec annotate runs/sweep --group 'lr sweep'     all runs below runs/sweep
  toyspec annotate runs/llama-003 --notes 'diverged: bad shard 17' --star
  toyspec annotate runs/llama-001 --hide             no longer in lists
  toyspec annotate runs/llama-003 --name ''          its own name again
  toyspec annotate runs/llama-003                    what annotations say"""

_ARGUMENTS = ("name", "group", "notes", "starred", "hidden", "add_tags", "remove_tags")
_OUTCOMES: dict[Outcome, str] = {
    "annotated": "annotated",
    "unchanged": "unchanged",
    "refused": "not annotated",
    "failed": "not read or written",
}
USAGE = "toyspec annotate RUN… [OPTION…]"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("runs", "RUN", "what to annotate", nargs="*", type=local_path)
    parser.add_argument("--name", help="another name; empty to remove an earlier annotation")
    parser.add_argument("--group", help="another group; empty to remove an earlier annotation")
    parser.value("--tag", "TAG", "add a tag; may be repeated", dest="add_tags", action="append")
    parser.value("--untag", "TAG", "remove a tag; may be repeated", dest="remove_tags", action="append")
    parser.value("--notes", "TEXT", "other notes; empty to remove an earlier annotation")
    stars = parser.add_mutually_exclusive_group()
    stars.add_argument("--star", dest="starred", action="store_true", default=None, help="mark the run")
    stars.add_argument("--unstar", dest="starred", action="store_false", help="remove the mark")
    hiding = parser.add_mutually_exclusive_group()
    hiding.add_argument("--hide", dest="hidden", action="store_true", default=None, help="leave the run out of lists")
    hiding.add_argument("--unhide", dest="hidden", action="store_false", help="list the run again")


def run(options: Namespace) -> int:
    """Annotate the named runs and return an exit code."""
    if not options.runs:
        raise UsageError("no run given; name a run directory, a log, or a directory of runs")
    said = {name: value for name in _ARGUMENTS if (value := getattr(options, name)) is not None}
    return change_each(
        "annotate",
        _runs(options.runs),
        partial(_annotated, said=said),
        noun="run",
        titles=_OUTCOMES,
        least=2 if said else sys.maxsize,
    )


def _runs(paths: list[str]) -> Iterator[Found]:
    """Yield the runs at and below *paths*, each once; ranks of a run are that run."""
    # Imported here: the help needs none of it.
    from toyspec.core.reading.log_detection import DialectChoice, usual_names
    from toyspec.core.runs.discovery import NotALog, Stream, find_streams
    from toyspec.core.runs.run import one_of_each_run

    names = usual_names(DialectChoice())
    found = [each for path in paths for each in find_streams(path, hints=names)]
    streams = {os.path.realpath(each.path): each for each in found if isinstance(each, Stream)}
    # Text beside the runs that is not a log is none of them.
    yield from (each for each in found if not isinstance(each, Stream | NotALog))
    yield from one_of_each_run(streams)


def _annotated(stream: Stream, *, said: dict[str, Any]) -> Outcome:
    """Annotate a run, and print what its annotations say."""
    from toyspec.core.reading.annotations import read_annotations
    from toyspec.core.writing.annotating import annotate, user_name

    now = annotate(stream.path, **said, by=user_name()) if said else read_annotations(stream.path)
    run = shown(run_of(stream.path) or ".")
    Terminal(color="never").line(f"{run}: {_facts(now) if now.count else 'no annotations'}")
    return "annotated" if said else "unchanged"


def _facts(said: Annotations) -> str:
    texts = [f"{name} '{shortened(text)}'" for name in ("name", "group") if (text := getattr(said, name))]
    tags = [*(f"+{tag}" for tag in said.added), *(f"-{tag}" for tag in said.removed)]
    texts += [f"tags {' '.join(map(shortened, tags))}"] if tags else []
    texts += [f"notes '{shortened(said.notes)}'"] if said.notes else []
    texts += [name for name in ("starred", "hidden") if getattr(said, name)]
    texts += [f"{said.unreadable} lines cannot be read and are ignored"] if said.unreadable else []
    return ", ".join(texts) or "as the run says"
