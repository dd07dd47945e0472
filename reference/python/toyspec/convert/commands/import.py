"""``toyspec import``: make toy/v1 runs of what other tools have logged."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from toyspec.convert import import_runs, importable
from toyspec.convert.commands.conversions import add_report, converted
from toyspec.core.command_line.arguments import add_keys, keys_of, settings
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError, did_you_mean, local_path
from toyspec.core.places.addresses import public
from toyspec.core.reading.log_detection import DialectChoice

if TYPE_CHECKING:
    from argparse import Namespace


_DESCRIPTION = """\
Make a toy/v1 run of each run at SOURCE, in a directory of its own below --out.

A SOURCE is a file or a directory in one of these formats, found out unless
FORMAT names it. Of a directory, the runs of every format in it are taken.

{formats}

Nothing is lost silently: the report counts what was carried unchanged, changed
and dropped, with causes and examples. Each run keeps its part as import.json.

A run appears whole or not at all, so an import that was stopped can be run
again: it goes on. A run that was imported before is left unchanged; if its
source has grown since, it is imported again, and its earlier stream stays
beside it as events.jsonl.prev."""

EPILOG = """\
exit status:
  0  every run was imported, now or before
  1  every run was imported, but bytes of a source could not be read
  2  wrong usage, or a source could not be imported; all others were

examples:
  toyspec import logs/ --out runs/
  toyspec import tensorboard logs/exp1 logs/exp2 --out runs/
  toyspec import mlruns/ --out runs/
  toyspec import wandb/ --out runs/ --json | jq .summary"""
USAGE = "toyspec import [OPTION…] [FORMAT] SOURCE…"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.description = _DESCRIPTION.format(formats="  " + "\n  ".join(importable()))
    parser.value("sources", "SOURCE", "files and directories, after a format or not", nargs="*", type=public)
    parser.value("--out", "DIR", "where the runs are made; default: runs", type=local_path, default="runs")
    parser.add_argument(
        "--ended",
        choices=("completed", "interrupted", "aborted", "errored"),
        help="end runs with this reason if their source does not say how they ended; default: they have no run_end",
    )
    add_keys(parser)
    add_report(parser)


def run(options: Namespace) -> int:
    """Import, print the report and return an exit code."""
    words = list(options.sources)
    own = settings().dialects
    known = [*importable(), *(dialect.name for dialect in own)]
    # A directory may have the name of a format; alone, the word is the directory.
    name = words.pop(0) if len(words) > 1 and words[0] in known else None
    if not words:
        raise UsageError("name a source: a file or a directory that another tool has written")
    if len(words) > 1 and not os.path.lexists(words[0]) and os.sep not in words[0]:
        advice = did_you_mean(words[0], known) or f"; formats are {', '.join(known)}"
        raise UsageError(f"{words[0]!r} is neither a format nor a path{advice}")
    if os.path.lexists(options.out) and not os.path.isdir(options.out):
        raise UsageError(f"--out {shown(options.out)} is not a directory; name one, or a path where nothing is")
    choice = DialectChoice(keys=keys_of(options), own=own)
    limits = {"format": name, "ended": options.ended, "max_examples": options.examples}
    imported = partial(import_runs, words, options.out, dialect=choice, **limits)
    stopped = f"the runs in {shown(options.out)} are whole. Run the same command again to go on"
    return converted("import", lambda watch: imported(watch=watch), options, stopped)
