"""``toyspec run``: run a program whose trackers are toyspec."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.programs import Forwarding, start_command
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.core.system_calls import cause_of, say
from toyspec.integrations import standing_in

if TYPE_CHECKING:
    from argparse import Namespace

DESCRIPTION = """\
Run COMMAND, in which wandb, mlflow and tensorboard are toyspec: what the
program logs to them becomes runs below DIR, and nothing leaves the machine. The
program does not change, nor does its environment; the real packages need not be
there."""

EPILOG = """\
What toyspec does not log, such as artifacts, is taken and counted in the log.
Python that the program starts itself, as torchrun does, has the stand-ins too.
toyspec must be installed for the Python that runs.

exit status: that of COMMAND; 128 and the number of the signal that ended it;
2 for wrong usage; 127 for a command that cannot be started

examples:
  toyspec run -- python train.py --report_to wandb
  toyspec run --as wandb --root runs/sweep -- torchrun train.py
  WANDB_MODE=disabled toyspec run -- pytest"""
USAGE = "toyspec run [OPTION…] -- COMMAND…"


def configure(parser: Parser) -> None:
    """Add description, arguments and examples to *parser*."""
    parser.value("words", "COMMAND", "the program and its arguments", nargs="*", default=[])
    parser.value(
        "--as",
        "NAME",
        f"a tracker whose place toyspec has: {', '.join(standing_in.TRACKERS)} (repeatable; default: all)",
        dest="trackers",
        action="append",
        choices=list(standing_in.TRACKERS),
    )
    parser.value("--root", "DIR", "directory of all runs; default: runs", type=local_path, default="runs")


def run(options: Namespace) -> int:
    """Run the command, name the runs that it has written, and return its exit status."""
    command = list(options.words)
    if not command:
        raise UsageError("no command: write it after --, as in `toyspec run -- python train.py`")
    start = os.path.join(os.path.dirname(os.path.abspath(standing_in.__file__)), "start")
    path = os.pathsep.join(filter(None, [start, os.environ.get("PYTHONPATH", "")]))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        standing_in.AS: ",".join(options.trackers or standing_in.TRACKERS),
        standing_in.ROOT: os.path.abspath(options.root),
    }
    before = _versions(options.root)
    try:
        process = start_command(command, environment)
    except OSError as error:
        say(f"run: {command[0]}: {cause_of(error)}")
        return exit_codes.NOT_STARTED
    with Forwarding() as forwarding:
        forwarding.process = process
        status = process.wait()
    written = [path for path, version in _versions(options.root).items() if before.get(path) != version]
    for path in written or [f"no run was written below {options.root}; a program may have named another directory"]:
        say(f"run: {path}")
    return status if status >= 0 else 128 - status


def _versions(root: str) -> dict[str, str]:
    """Return the versions of the streams below *root*, by path."""
    if not os.path.isdir(root):
        return {}
    return {found.path: found.version for found in find_streams(root) if isinstance(found, Stream)}
