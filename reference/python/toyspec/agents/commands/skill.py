"""``toyspec skill``: prints the file from which agents learn to log and read runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser
DESCRIPTION = (
    "Print a skill file for agents that write training code: how to log a run, name\n"
    "it, resume it, and read it. Save it where your agent looks for skills."
)
EPILOG = "examples:\n  toyspec skill > .claude/skills/toyspec/SKILL.md"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""


def run(options: Namespace) -> int:  # noqa: ARG001 - it has no options
    """Print the file."""
    from toyspec.agents.run_tools import skill

    sys.stdout.write(skill())
    return 0
