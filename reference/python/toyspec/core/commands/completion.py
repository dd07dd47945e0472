"""``toyspec completion``: a completion script for a shell."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser

SHELLS = ("bash", "zsh", "fish")

EPILOG = """\
Write the script to a file that the shell reads at its start, for example

  bash  ~/.local/share/bash-completion/completions/toyspec
  zsh   _toyspec, in a directory of $fpath
  fish  ~/.config/fish/completions/toyspec.fish

examples:
  toyspec completion fish > ~/.config/fish/completions/toyspec.fish"""
USAGE = "toyspec completion SHELL"
DESCRIPTION = "Print a script that completes commands, options, rules and paths in a shell."


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("shell", "SHELL", "bash, zsh or fish", choices=SHELLS)


def run(options: Namespace) -> int:
    """Print the script and return an exit code."""
    import shtab

    from toyspec.core.command_line.commands import all_commands, full_parser

    parser, summaries = full_parser(), all_commands()
    commands = next(action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    for name, command in commands.items():
        # The first line of a description is only the beginning of a sentence; the summary is a whole one.
        command.description = summaries[name]
        for action in command._actions:  # noqa: SLF001 - argparse has no public way to its arguments
            _complete(action)
    sys.stdout.write(shtab.complete(parser, shell=options.shell) + "\n")
    return exit_codes.OK


def _complete(action: argparse.Action) -> None:
    """Complete *action* with what its metavar names, such as paths, rules or columns."""
    import shtab

    from toyspec.core.generated.rules import SUMMARY
    from toyspec.core.generated.runs import COLUMNS
    from toyspec.core.runs.columns import ORDERS

    if action.metavar in ("FILE", "PATH", "RUN"):
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif action.metavar in ("DIR", "ROOT"):
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif action.metavar in ("RULE", "RULE[,RULE…]"):
        action.choices = tuple(SUMMARY)
    elif action.metavar in ("COLUMN", "COLUMN[,COLUMN…]"):
        action.choices = tuple(dict.fromkeys([*ORDERS, *COLUMNS]))
