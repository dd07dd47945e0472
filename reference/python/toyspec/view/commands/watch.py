"""``toyspec watch``: runs and their curves in the terminal, live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line.arguments import add_dialect
from toyspec.core.command_line.parsers import Parser, UsageError
from toyspec.view.commands.view import add_roots, catalog_of, names_of, require_answers

if TYPE_CHECKING:
    from argparse import Namespace
USAGE = "toyspec watch [OPTION…] [ROOT…]"
DESCRIPTION = (
    "Watch runs in the terminal while they are written: a table of the runs below\n"
    "each ROOT, and the curves of those that are selected, over each other. It needs\n"
    "80 columns and 24 lines, and works over SSH. A ROOT is a directory, a run, or an\n"
    "address; of several, each is shown under its name, which NAME=ROOT chooses.\n"
    "\n"
    "The last line has the keys: j and k move, space selects, / filters, m shows the\n"
    "next metric, l is log scale, q quits. No spike is lost; \N{MULTIPLICATION SIGN} is not finite, ¦\n"
    "unreadable lines, ┊ resumed. To compare settings and results, use\n"
    "`toyspec compare`.\n"
    "\n"
    "Needs Textual: python -m pip install 'toyspec[tui]'."
)
EPILOG = "examples:\n  toyspec watch runs/\n  ssh -t host toyspec watch runs/llama-001"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    add_roots(parser)
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Show the screen until the user quits, and return an exit code."""
    catalog = catalog_of(options)
    if not all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        raise UsageError("watch needs a terminal; `toyspec ls` prints the runs, `toyspec tail` follows them")
    try:
        from toyspec.view.screen import WatchApp
    except ImportError as error:
        raise UsageError("watch needs Textual: python -m pip install 'toyspec[tui]'") from error
    try:
        catalog.start()
        require_answers(catalog)
        app = WatchApp(catalog, names_of(catalog))
        code = app.run()
        return app.return_code or 0 if code is None else code
    finally:
        catalog.close()
