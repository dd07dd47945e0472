"""``toyspec watch``: runs and their curves in the terminal, live."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from toyspec.cli.dialect_options import add_dialect, dialect_choice, settings
from toyspec.cli.parsers import Parser, UsageError, local_path

if TYPE_CHECKING:
    from argparse import Namespace


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec watch [OPTION…] [ROOT]"
    parser.description = (
        "Watch runs in the terminal while they are written: a table of the runs below\n"
        "ROOT, and the curves of those that are selected, over each other. It needs 80\n"
        "columns and 24 lines, and works over SSH. ROOT may be a single run.\n"
        "\n"
        "The keys are those of `toyspec view`: j and k move, space selects, / filters,\n"
        "enter opens a run, m shows another metric, l is log scale, ? lists all keys, q\n"
        "quits. No spike is lost; \N{MULTIPLICATION SIGN} is not finite, ¦ unreadable lines, ┊ resumed.\n"
        "\n"
        "Needs Textual: python -m pip install 'toyspec[tui]'."
    )
    parser.epilog = "examples:\n  toyspec watch runs/\n  ssh -t host toyspec watch runs/llama-001"
    parser.add_argument(
        "root",
        metavar="ROOT",
        nargs="?",
        type=local_path,
        help="a directory with runs, or a run; default: the root in toyspec.toml, else this directory",
    )
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Show the screen until the user quits, and return an exit code."""
    configuration = settings()
    root = options.root or (configuration.roots[0] if len(configuration.roots) == 1 else ".")
    if not os.path.exists(root):
        raise UsageError(f"{root}: no such directory; name a directory with runs")
    if not all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        raise UsageError("watch needs a terminal; `toyspec ls` prints the runs, `toyspec tail` follows them")
    choice = dialect_choice(options, configuration)
    try:
        from toyspec.cli.screen.app import WatchApp
    except ImportError as error:
        raise UsageError("watch needs Textual: python -m pip install 'toyspec[tui]'") from error
    from toyspec.view.catalog import Catalog

    catalog = Catalog(root, dialect=choice)
    try:
        catalog.start()
        app = WatchApp(catalog, root)
        code = app.run()
        return app.return_code or 0 if code is None else code
    finally:
        catalog.close()
