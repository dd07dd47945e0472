"""``toyspec push``: send runs to a repository or bucket of Hugging Face."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import counted, size
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import tell
from toyspec.core.errors import PlaceError
from toyspec.core.escaping import printable
from toyspec.stores.commands.reports import SyncShower, add_settings, chosen_settings

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.stores.hub.pushing import PushReport
    from toyspec.stores.run_sync import RunResult

_DESCRIPTION = """\
Send what the runs below RUNS have and REPOSITORY lacks, and end. REPOSITORY is
one of Hugging Face: hf://NAME/MODEL, hf://datasets/NAME/DATASET,
hf://spaces/NAME/SPACE or hf://buckets/NAME/BUCKET, each with /PATH after it for
a folder, and @BRANCH after the name. The run RUNS/a becomes REPOSITORY/a; if
RUNS is one run, its files are in REPOSITORY itself.

Each run gets an event file of TensorBoard beside its log, so that the page of
metrics there shows it. It has the numbers in single precision; the log has all.

A repository gets whole committed lines only, also of live runs. Nothing is
deleted, and a log is only replaced by one that continues it, or after it has
another name. The files of a run are in one commit, which fails where another
program has changed the repository meanwhile; then all is compared again. A
bucket has no such condition: let one program write a run there. After any
interruption, call it again: what is there is not sent twice.

The log of a run is sent: the streams of all ranks, their side files, media,
annotations, run.json, flow.json and the seal. --all sends all other files too."""

_EPILOG = """\
The token is that of `hf auth login`, or HF_TOKEN. This needs the extra hub:
python -m pip install 'toyspec[hub]'.

exit status:
  0  REPOSITORY has everything
  1  something is left: another or a longer run is there, or sending failed
  2  wrong usage, no token, no such repository, or no run below RUNS

examples:
  toyspec push runs/ hf://me/my-model/runs
  toyspec push --create runs/ hf://datasets/me/my-runs
  toyspec push --dry-run --all runs/best hf://buckets/me/bucket/best"""


def configure(parser: Parser) -> None:
    """Add description, arguments and examples to *parser*."""
    parser.usage = "toyspec push [OPTION…] RUNS REPOSITORY"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("runs", metavar="RUNS", type=local_path, help="a directory of runs, or one run")
    parser.add_argument("repository", metavar="REPOSITORY", help="where they are sent")
    parser.add_argument("--create", action="store_true", help="create REPOSITORY if it is not there, private")
    parser.add_argument(
        "--public", action="store_true", help="with --create: let everybody see settings, texts and results"
    )
    parser.add_argument("--no-event-files", action="store_true", help="send no event files of TensorBoard")
    parser.add_argument("--message", metavar="TEXT", default="", help="message of the commits")
    add_settings(parser, "REPOSITORY")


def run(options: Namespace) -> int:
    """Send the runs and return an exit code."""
    from toyspec.stores.hub.locations import location_of

    if not os.path.isdir(options.runs):
        raise UsageError(f"{options.runs}: not a directory; name a directory of runs, or that of one run")
    if options.public and not options.create:
        raise UsageError("--public is about --create; a repository that is there does not change")
    try:
        location_of(options.repository)
        report = _pushed(options)
    except PlaceError as error:
        return failed("push", error)
    if not report.runs:
        raise UsageError(f"{options.runs}: no run in the directory or below")
    shower = SyncShower("push", options)
    shower.take(report)
    shower.finish()
    for each in report.not_exported:
        tell("push", f"{each.path}: no event file: {each.message}")
    if report.commits and not options.json:
        sent = f"{counted(report.commits, 'commit')}, {counted(report.event_files, 'event file')}"
        sys.stdout.write(f"{sent}: {printable(report.page)}\n")
    return exit_codes.FINDINGS if report.not_exported else shower.status


def _pushed(options: Namespace) -> PushReport:
    """Return what became of the runs; raise PlaceError."""
    needed()
    from toyspec.stores.hub.locations import location_of
    from toyspec.stores.hub.pushing import PushSettings, push

    progress = Progress("pushing")
    sent = 0

    def on_result(result: RunResult, done: int, total: int) -> None:
        nonlocal sent
        sent += result.sent
        progress.show(f"{done} of {total} runs compared, {size(sent)} to send")

    settings = PushSettings(
        sync=chosen_settings(options),
        has_event_files=not options.no_event_files,
        creates=options.create,
        is_public=options.public,
        message=options.message,
    )
    try:
        return push(
            options.runs,
            location_of(options.repository),
            settings,
            on_result=on_result,
            on_files=lambda done, total: progress.show(f"{done} of {total} files sent"),
        )
    finally:
        progress.erase()


def needed() -> None:
    """Raise UsageError where the package of the hub is not installed."""
    try:
        import huggingface_hub  # noqa: F401 - asked for, not used
    except ImportError:
        fact = "this needs huggingface_hub; install it with `python -m pip install 'toyspec[hub]'`"
        raise UsageError(fact) from None


def failed(command: str, error: PlaceError) -> int:
    """Print *error* and return its exit code: a refusal is wrong usage, and anything else can be tried again."""
    from errno import EACCES

    tell(command, str(error))
    return exit_codes.USAGE if error.errno == EACCES else exit_codes.FINDINGS
