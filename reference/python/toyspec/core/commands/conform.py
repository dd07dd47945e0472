"""``toyspec conform``: the runner of the corpus, a distribution of its own; see conformance/PROTOCOL.md."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from toyspec.core.files import resource_path

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser
USAGE = "toyspec conform [ACTION] --adapter CMD [options]"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    command = _runner()
    parser.description = command.DESCRIPTION
    parser.epilog = command.EPILOG
    command.configure(parser)


def run(options: Namespace) -> int:
    """Run an implementation against the corpus and return an exit code."""
    code: int = _runner().execute(options)
    return code


def _runner() -> Any:
    """Return the module with the command; it is a package of its own, since the runner imports nothing of this one."""
    beside = os.path.dirname(resource_path("conformance"))
    if beside not in sys.path:
        sys.path.append(beside)
    return import_module("conformance.command")
