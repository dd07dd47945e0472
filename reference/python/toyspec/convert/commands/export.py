"""``toyspec export``: write toy/v1 runs in the formats of other tools."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toyspec.convert import export_runs, exportable
from toyspec.convert.commands.conversions import add_report, converted
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError, did_you_mean, local_path
from toyspec.core.places.addresses import public

if TYPE_CHECKING:
    from argparse import Namespace

_DESCRIPTION = """\
Write each RUN in another format into the directory --out. A RUN is a toy/v1
run, or a directory with some below. FORMAT is one of:

{formats}

Nothing is lost silently: the report counts what was carried unchanged, changed
and dropped, with causes and examples. W&B and MLflow show both attempts at the
steps of a resumption, TensorBoard the later one. Files that are in the
directory already stay; an export that would replace one writes nothing."""

EPILOG = """\
exit status:
  0  every run was exported
  1  every run was exported, but lines of a stream could not be read
  2  wrong usage, or a run could not be exported

examples:
  toyspec export tensorboard runs/ --out tb/
  toyspec export wandb runs/a runs/b --out wandb/"""
USAGE = "toyspec export [OPTION…] FORMAT RUN… --out DIR"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.description = _DESCRIPTION.format(formats="  " + "\n  ".join(exportable()))
    parser.value("format", "FORMAT", "what to write")
    parser.value("runs", "RUN", "what to export", nargs="+", type=public)
    parser.value("--out", "DIR", "where it is written", type=local_path, required=True)
    add_report(parser)


def run(options: Namespace) -> int:
    """Export, print the report and return an exit code."""
    known = exportable()
    if options.format not in known:
        near = did_you_mean(options.format, known)
        raise UsageError(f"{options.format!r} is not a format to export to{near}; there are {', '.join(known)}")
    export = partial(export_runs, options.format, options.runs, options.out, max_examples=options.examples)
    # What is exported appears at its end, all at once.
    stopped = f"nothing was added to {shown(options.out)}"
    return converted("export", lambda watch: export(watch=watch), options, stopped)
