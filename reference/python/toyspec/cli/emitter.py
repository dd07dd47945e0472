"""``toyspec emitter``: prints a writer that is one file without dependencies, to copy into a project."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.resources import read_resource

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.cli.parsers import Parser

_FILES = {
    "cpp": "toyspec_emitter.hpp",
    "java": "ToyspecEmitter.java",
    "javascript": "toyspec_emitter.mjs",
    "lua": "toyspec_emitter.lua",
    "python": "toyspec_emitter.py",
    "r": "toyspec_emitter.R",
}


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.description = (
        "Print a writer of toy/v1 that is one file without dependencies. Copy it into\n"
        "a project: it needs no installation, keeps the promises of a durable writer as\n"
        "far as its language can, and raises nothing into the training. Each file says\n"
        "what its language lacks: JavaScript, Lua and R have no locks, Java has record\n"
        "locks alone, and Lua and R sync by a program of the system."
    )
    parser.epilog = (
        "examples:\n  toyspec emitter python > toyspec_emitter.py\n  toyspec emitter cpp > toyspec_emitter.hpp"
    )
    parser.add_argument("language", metavar="LANGUAGE", choices=tuple(_FILES), help=f"one of {', '.join(_FILES)}")


def run(options: Namespace) -> int:
    """Print the emitter that *options* name."""
    sys.stdout.write(read_resource("reference/emitters", _FILES[options.language]).decode())
    return 0
