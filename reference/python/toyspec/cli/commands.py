"""Every command by name; a command's module is imported only when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from toyspec.cli.parsers import Parser

if TYPE_CHECKING:
    from argparse import Namespace

# In the order of use: judge, look, mend, write, learn.
COMMANDS: dict[str, str] = {
    "check": "judge streams and name every fault",
    "show": "show one run: its state, settings, curve and results",
    "ls": "list the runs below a directory, the best first",
    "compare": "compare settings and curves of runs side by side",
    "tail": "follow a run while it is written",
    "train": "train a small model and write its run",
    "repair": "set the fragment of a torn stream aside",
    "emit": "write an event from a shell script",
    "conform": "prove an implementation in any language right or wrong",
    "explain": "explain a rule, or list all rules",
    "schema": "print the JSON Schema of a kind",
    "completion": "print a completion script for a shell",
}


class Command(Protocol):
    """What the module of a command offers."""

    def configure(self, parser: Parser) -> None:
        """Add description, arguments and an example to *parser*."""

    def run(self, options: Namespace) -> int:
        """Do what *options* ask for and return an exit code."""


def load(name: str) -> Command:
    """Return the module of the command *name*, which must be one of COMMANDS."""
    return cast("Command", import_module(f"toyspec.cli.{name}"))


def command_parser(name: str) -> Parser:
    """Return the parser of one command."""
    parser = Parser(prog=f"toyspec {name}")
    load(name).configure(parser)
    return parser


def full_parser() -> Parser:
    """Return the parser of the whole command line; it imports every command."""
    parser = top_parser()
    actions = parser.add_subparsers(dest="command", metavar="COMMAND", prog="toyspec", parser_class=Parser)
    for name, summary in COMMANDS.items():
        load(name).configure(actions.add_parser(name, help=summary))
    return parser


def top_parser() -> Parser:
    """Return the parser of what stands before a command."""
    listed = "\n".join(f"  {name:<12}{summary}" for name, summary in COMMANDS.items())
    parser = Parser(
        prog="toyspec",
        usage="toyspec COMMAND …",
        description="Training logs in JSON Lines: check, read, follow and write them.",
        epilog=f"commands:\n{listed}\n\n"
        "examples:\n"
        "  toyspec check runs/            judge every run below runs/\n"
        "  toyspec ls runs/               the best run first\n"
        "  toyspec explain invalid-json   what a finding means\n\n"
        "`toyspec COMMAND --help` says more about a command.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    return parser
