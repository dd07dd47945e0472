"""The roots that ``view`` and ``watch`` show."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.core.command_line.arguments import dialect_choice, settings
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import UsageError
from toyspec.core.errors import CatalogError
from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser
    from toyspec.view.live_runs import LiveRuns


def add_roots(parser: Parser) -> None:
    """Add the roots to *parser*."""
    parser.add_argument(
        "roots",
        metavar="ROOT",
        nargs="*",
        help="a directory with runs, a run, an address or a catalog, NAME= before it; "
        "default: the roots in toyspec.toml, else .",
    )


def catalog_of(options: Namespace) -> LiveRuns:
    """Return the catalog of the roots in *options*, not started; raise UsageError for a path where nothing is."""
    from toyspec.view.live_runs import LiveRuns
    from toyspec.view.roots import CatalogRoot

    configuration = settings()
    roots = options.roots or list(configuration.roots) or ["."]
    try:
        catalog = LiveRuns(*roots, dialect=dialect_choice(options, configuration))
    except CatalogError as error:
        raise UsageError(str(error)) from None
    for root in catalog.roots:
        # The runs of a catalog may be gone.
        if not isinstance(root, CatalogRoot) and not root.is_remote and not os.path.exists(root.path):
            raise UsageError(f"{shown(root.path)}: no such directory; name a directory with runs")
    return catalog


def require_answers(catalog: LiveRuns) -> None:
    """Raise UsageError if no root of the started *catalog* could be read."""
    problems = [root.problem for root in catalog.roots if root.problem is not None]
    if len(problems) == len(catalog.roots):
        raise UsageError(printable("; ".join(problems)))


def names_of(catalog: LiveRuns) -> str:
    """Return the roots of *catalog* for a person."""
    from toyspec.view.roots import CatalogRoot

    lists = {root.catalog: root.written for root in catalog.roots if isinstance(root, CatalogRoot)}
    names = [shown(root.path) for root in catalog.roots if not isinstance(root, CatalogRoot)]
    return ", ".join([*names, *(f"the catalog {shown(path)} of {written}" for path, written in lists.items())])
