"""``toyspec completion``: a completion script for a shell."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from toyspec.cli import exit_codes

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.cli.parsers import Parser

SHELLS = ("bash", "zsh", "fish", "tcsh")

_INSTALL = """\
Write the script to a file that the shell reads at its start, for example

  bash  ~/.local/share/bash-completion/completions/toyspec
  zsh   _toyspec, in a directory of $fpath
  fish  ~/.config/fish/completions/toyspec.fish
  tcsh  ~/.tcshrc, at its end

examples:
  toyspec completion fish > ~/.config/fish/completions/toyspec.fish"""

# Arguments that take the name of a rule.
_RULE_ARGUMENTS = frozenset(["rule", "select", "ignore"])


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec completion SHELL"
    parser.description = "Print a script that completes commands, options, rules and paths in a shell."
    parser.epilog = _INSTALL
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh, fish or tcsh")


def run(options: Namespace) -> int:
    """Print the script and return an exit code."""
    import shtab

    from toyspec.cli.commands import full_parser

    parser = full_parser()
    _offer_rules(parser)
    sys.stdout.write(shtab.complete(parser, shell=options.shell) + "\n")
    return exit_codes.OK


def _offer_rules(parser: argparse.ArgumentParser) -> None:
    from toyspec.generated.rules import SUMMARY

    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to its arguments
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                _offer_rules(command)
        elif action.dest in _RULE_ARGUMENTS:
            action.choices = tuple(SUMMARY)
