"""``toyspec pull``: fetch runs from a repository or bucket of Hugging Face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.progress import Progress
from toyspec.core.errors import PlaceError
from toyspec.stores.commands.push import failed, needed
from toyspec.stores.commands.reports import SyncShower, add_settings, chosen_settings

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.stores.results import SyncReport

_DESCRIPTION = """\
Fetch what the runs in REPOSITORY have and DIR lacks, and end. REPOSITORY is one
of Hugging Face: hf://NAME/MODEL, hf://datasets/NAME/DATASET,
hf://spaces/NAME/SPACE or hf://buckets/NAME/BUCKET, each with /PATH after it for
a folder, and @REVISION after the name for a branch, a tag or a commit. The run
REPOSITORY/a becomes DIR/a; a run in REPOSITORY itself becomes DIR.

A log in DIR is only replaced by one that continues it, never while a program
writes it. What DIR has beyond the repository stays, and is reported. After any
interruption, call it again: what has arrived is kept in a hidden folder beside
DIR until then.

The log of a run is fetched: the streams of all ranks, their side files, media,
annotations, run.json, flow.json and the seal. --all fetches the other files
too.

Other commands read a repository in place: toyspec ls hf://NAME/MODEL/runs."""

_EPILOG = """\
Public repositories need no token; for others it is that of `hf auth login`, or
HF_TOKEN. This needs the extra hub: python -m pip install 'toyspec[hub]'.

exit status:
  0  DIR has everything
  1  something is left: another or a longer run is in DIR, or fetching failed
  2  wrong usage, no such repository, or no run in it

examples:
  toyspec pull hf://me/my-model/runs runs/
  toyspec pull --all hf://datasets/me/my-runs@v1 runs/"""


def configure(parser: Parser) -> None:
    """Add description, arguments and examples to *parser*."""
    parser.usage = "toyspec pull [OPTION…] REPOSITORY DIR"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("repository", metavar="REPOSITORY", help="where the runs are")
    parser.add_argument("directory", metavar="DIR", type=local_path, help="where they are written")
    add_settings(parser, "fetch", "DIR")


def run(options: Namespace) -> int:
    """Fetch the runs and return an exit code."""
    try:
        report = _pulled(options)
    except PlaceError as error:
        return failed("pull", error)
    if not report.runs:
        raise UsageError(f"{options.repository}: no run in the repository or in this folder of it")
    shower = SyncShower("pull", options, verb="fetch")
    shower.take(report)
    shower.finish()
    return shower.status


def _pulled(options: Namespace) -> SyncReport:
    """Return what became of the runs; raise PlaceError."""
    from toyspec.stores.hub.locations import location_of

    location = location_of(options.repository)
    needed()
    from toyspec.stores.hub.pulling import pull

    progress = Progress("pulling")
    try:
        return pull(
            location,
            options.directory,
            chosen_settings(options),
            on_files=lambda done, total: progress.show(f"{done} of {total} files"),
        )
    finally:
        progress.erase()
