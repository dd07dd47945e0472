"""``toyspec emitter``: prints a writer that is one file without dependencies, to copy into a project."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.core.files import read_resource

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser

_FILES = {
    "cpp": "toyspec_emitter.hpp",
    "csharp": "ToyspecEmitter.cs",
    "java": "ToyspecEmitter.java",
    "javascript": "toyspec_emitter.mjs",
    "lua": "toyspec_emitter.lua",
    "python": "toyspec_emitter.py",
}
DESCRIPTION = (
    "Print a writer of toy/v1 that is one file without dependencies. Copy it into\n"
    "a project: it needs no installation, is a durable writer, and raises nothing\n"
    "into the training. Each file says what its language lacks: JavaScript has no\n"
    "file locks, Java has record locks alone, and Lua needs LuaJIT."
)
EPILOG = "examples:\n  toyspec emitter python > toyspec_emitter.py\n  toyspec emitter cpp > toyspec_emitter.hpp"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("language", "LANGUAGE", f"one of {', '.join(_FILES)}", choices=tuple(_FILES))


def run(options: Namespace) -> int:
    """Print the emitter that *options* name."""
    sys.stdout.write(read_resource("reference/emitters", _FILES[options.language]).decode())
    return 0
