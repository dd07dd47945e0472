"""Which workers a command spreads its work over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core import rooms
from toyspec.core.command_line.parsers import UsageError, number_from

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser
    from toyspec.core.workers.running import Workers


def add_workers(parser: Parser, *, default: int = 1) -> None:
    """Add ``--workers`` and ``--ray``; *default* 0 is one worker per core."""
    shown = "one per core" if default == 0 else str(default)
    parser.add_argument(
        "-j",
        "--workers",
        metavar="N",
        type=number_from(0),
        help=f"runs that are worked on in parallel; 0: one per core; default: {shown}",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="spread the work over a Ray cluster: host:port, auto for the one that runs here, or local to start one",
    )
    parser.set_defaults(least_workers=default)


def chosen_workers(options: Namespace) -> int | Workers:
    """Return what *options* ask for; raise UsageError."""
    if options.ray is not None:
        if options.workers is not None:
            raise UsageError("--workers and --ray exclude each other; a cluster has as many workers as cores")
        return rooms.ray_cluster.Ray(options.ray)
    number: int = options.least_workers if options.workers is None else options.workers
    if number:
        return number
    from toyspec.core.workers.processes import cores

    return cores()
