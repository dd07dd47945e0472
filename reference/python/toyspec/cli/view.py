"""``toyspec view``: see runs in the browser."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from toyspec.cli import exit_codes
from toyspec.cli.dialect_options import add_dialect, dialect_choice, settings
from toyspec.cli.parsers import Parser, UsageError, local_path, number_from
from toyspec.cli.paths import shown
from toyspec.cli.terminal import Terminal
from toyspec.escaping import printable

if TYPE_CHECKING:
    from argparse import Namespace

_DEFAULT_PORT = 6080
_LAST_PORT = 65535


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec view [OPTION…] [ROOT]"
    parser.description = (
        "Show the runs below ROOT in the browser: the table of runs, their curves, one\n"
        "run, and comparisons. Live runs are followed. Ends with Ctrl-C.\n"
        "\n"
        "Only this machine can open the page, unless --host names an address that others\n"
        "reach; the printed address then has a token, without which nothing is shown.\n"
        "Curves are kept in a cache, so that a second start is faster: TOYSPEC_CACHE\n"
        "names its directory, by default toyspec in the user's own cache."
    )
    parser.epilog = (
        "examples:\n"
        "  toyspec view runs/\n"
        "  toyspec view --port 0 --open runs/\n"
        "  ssh -L 6080:localhost:6080 host toyspec view runs/"
    )
    parser.add_argument(
        "root",
        metavar="ROOT",
        nargs="?",
        type=local_path,
        help="default: the root in toyspec.toml, else this directory",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=number_from(0),
        help=f"port to listen on; 0: any that is free; default: {_DEFAULT_PORT}, or a free one if it is taken",
    )
    parser.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="address to listen on; default: 127.0.0.1"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Serve until Ctrl-C and return an exit code."""
    from toyspec.view.catalog import Catalog
    from toyspec.view.server import serve

    configuration = settings()
    root = options.root or (configuration.roots[0] if len(configuration.roots) == 1 else ".")
    if not os.path.exists(root):
        raise UsageError(f"{root}: no such directory; name a directory with runs")
    if options.port is not None and options.port > _LAST_PORT:
        raise UsageError(f"port {options.port} is not a port; use 0 to {_LAST_PORT}")
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, _interrupt)
    catalog = Catalog(root, dialect=dialect_choice(options, configuration))
    try:
        catalog.start()
        server = _listening(catalog, options)
        serve(server, lambda: _announce(root, server, options))
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    finally:
        catalog.close()
    return exit_codes.OK


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _listening(catalog: Any, options: Namespace) -> Any:
    """Return the server; without a port that was asked for, a free one does as well."""
    from toyspec.view.server import ViewServer

    port = _DEFAULT_PORT if options.port is None else options.port
    try:
        return ViewServer(catalog, host=options.host, port=port)
    except OSError as error:
        if options.port is None:
            return ViewServer(catalog, host=options.host, port=0)
        raise UsageError(f"cannot listen on {options.host} port {port}: {error.strerror or error}") from error


def _announce(root: str, server: Any, options: Namespace) -> None:
    terminal = Terminal()
    terminal.line(f"{shown(root)} is shown at {terminal.styled(printable(server.url), 'strong')}")
    if terminal.interactive:
        terminal.line(terminal.styled("Ctrl-C ends it", "dim"))
    sys.stdout.flush()
    if options.open:
        import webbrowser

        webbrowser.open(server.url)
