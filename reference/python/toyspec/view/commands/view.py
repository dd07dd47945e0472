"""``toyspec view``: see runs in the browser."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, dialect_choice, settings
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError, number_from
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.escaping import printable
from toyspec.core.system_calls import cause_of
from toyspec.health.options import all_rules

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.view.live_runs import LiveRuns

_DEFAULT_PORT = 6080
_LAST_PORT = 65535
USAGE = "toyspec view [OPTION…] [ROOT…]"
DESCRIPTION = (
    "Show the runs below each ROOT in the browser: the table of runs, their curves,\n"
    "one run, and comparisons. Live runs are followed. Ends with Ctrl-C.\n"
    "\n"
    "A ROOT is a directory, a run, or an address such as s3://bucket/runs. Of\n"
    "several, each is shown under its name, which NAME=ROOT chooses. A store is asked\n"
    "every two seconds for the runs that change and every ten for new ones; of an\n"
    "object above 256 KiB only both ends are read, until its curves are looked at.\n"
    "\n"
    "Only this machine can open the page, unless --host names an address that others\n"
    "reach; the printed address then has a token, without which nothing is shown.\n"
    "The page only reads: `toyspec annotate` names, tags, stars and hides runs, and\n"
    "the page shows it at once.\n"
    "Curves are kept in a cache, so that a second start is faster: TOYSPEC_CACHE\n"
    "names its directory, by default toyspec in the user's own cache."
)
EPILOG = (
    "examples:\n"
    "  toyspec view runs/\n"
    "  toyspec view --port 0 --open runs/\n"
    "  toyspec view here=runs/ team=s3://bucket/runs\n"
    "  ssh -L 6080:localhost:6080 host toyspec view runs/"
)


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    add_roots(parser)
    parser.value(
        "--port",
        "N",
        f"port to listen on; 0: any that is free; default: {_DEFAULT_PORT}, or a free one if it is taken",
        type=number_from(0),
    )
    parser.value("--host", "ADDRESS", "address to listen on; default: 127.0.0.1", default="127.0.0.1")
    parser.flag("--open", "open the page in the browser")
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Serve until Ctrl-C and return an exit code."""
    from toyspec.view.server import serve

    if options.port is not None and options.port > _LAST_PORT:
        raise UsageError(f"port {options.port} is not a port; use 0 to {_LAST_PORT}")
    # A wrong rule is reported here, and not in the browser.
    all_rules(None, settings())
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    catalog = catalog_of(options)
    try:
        catalog.start()
        require_answers(catalog)
        server = _listening(catalog, options)
        serve(server, lambda: _announce(catalog, server, options))
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    finally:
        catalog.close()
    return exit_codes.OK


def _listening(catalog: Any, options: Namespace) -> Any:
    """Return the server; without a port that was asked for, a free one does as well."""
    from toyspec.view.server import ViewServer

    port = _DEFAULT_PORT if options.port is None else options.port
    try:
        return ViewServer(catalog, host=options.host, port=port)
    except OSError as error:
        if options.port is None:
            return ViewServer(catalog, host=options.host, port=0)
        raise UsageError(f"cannot listen on {options.host} port {port}: {cause_of(error)}") from error


def _announce(catalog: LiveRuns, server: Any, options: Namespace) -> None:
    terminal = Terminal()
    for root in catalog.roots:
        if root.problem is not None:
            tell("view", root.problem)
    is_are = "are" if len(catalog.roots) > 1 else "is"
    terminal.line(f"{names_of(catalog)} {is_are} shown at {terminal.styled(printable(server.url), 'strong')}")
    if terminal.interactive:
        terminal.line(terminal.styled("Ctrl-C ends it", "dim"))
    sys.stdout.flush()
    if options.open:
        import webbrowser

        webbrowser.open(server.url)


def add_roots(parser: Parser) -> None:
    """Add the roots to *parser*."""
    parser.value(
        "roots",
        "ROOT",
        "a directory with runs, a run or an address, NAME= before it; default: the roots in toyspec.toml, else .",
        nargs="*",
    )


def catalog_of(options: Namespace) -> LiveRuns:
    """Return the catalog of the roots in *options*, not started; raise UsageError for a path where nothing is."""
    from toyspec.view.live_runs import LiveRuns

    configuration = settings()
    roots = options.roots or list(configuration.roots) or ["."]
    catalog = LiveRuns(*roots, dialect=dialect_choice(options, configuration))
    for root in catalog.roots:
        if not root.is_remote and not os.path.exists(root.path):
            raise UsageError(f"{shown(root.path)}: no such directory; name a directory with runs")
    return catalog


def require_answers(catalog: LiveRuns) -> None:
    """Raise UsageError if no root of the started *catalog* could be read."""
    if all(root.is_lost for root in catalog.roots):
        raise UsageError(printable("; ".join(root.problem or "" for root in catalog.roots)))


def names_of(catalog: LiveRuns) -> str:
    """Return the roots of *catalog* for a person."""
    return ", ".join(shown(root.path) for root in catalog.roots)
