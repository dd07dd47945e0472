"""``toyspec site``: a static folder with the viewer and runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, dialect_choice
from toyspec.core.command_line.figures import counted, shown, size
from toyspec.core.command_line.parsers import Parser, number_from
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import tell
from toyspec.core.errors import StreamError

if TYPE_CHECKING:
    from argparse import Namespace


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec site [OPTION…] RUN… -o DIR"
    parser.description = (
        "Write a folder that any web server, GitHub Pages or a static Space serves: the\n"
        "viewer with the runs in it (index.html), the log of each run to download\n"
        "(runs/), and a list of the logs with their digests (site.json). Nothing is\n"
        "loaded from elsewhere, and index.html can be opened from disk. A site that is\n"
        "at DIR already is replaced; a folder with other files is left alone.\n"
        "\n"
        "All settings, texts and results of the runs become public with the site."
    )
    parser.epilog = (
        "examples:\n"
        "  toyspec site runs/ -o public\n"
        "  toyspec site --no-logs runs/best -o docs/run\n"
        "  python -m http.server -d public"
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="run directories, streams, directories of runs, addresses"
    )
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to write")
    parser.add_argument("--no-logs", action="store_true", help="write the viewer without the logs to download")
    parser.add_argument(
        "--buckets", metavar="N", type=number_from(2), default=1000, help="buckets of each curve; default: 1000"
    )
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Write the site and return an exit code."""
    from toyspec.view.site import write_site

    progress = Progress("reading")
    try:
        try:
            written = write_site(
                options.runs,
                options.output,
                buckets=options.buckets,
                dialect=dialect_choice(options),
                has_logs=not options.no_logs,
                on_progress=progress.update,
            )
        finally:
            progress.erase()
    except (StreamError, FileNotFoundError, FileExistsError) as error:
        tell("site", str(error))
        return exit_codes.USAGE
    sys.stderr.write(f"wrote {shown(options.output)}: {counted(written.runs, 'run')}, {size(written.bytes)}\n")
    return exit_codes.OK
