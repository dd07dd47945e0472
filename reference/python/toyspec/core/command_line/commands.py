"""Every command by name, and the module that has it, which is imported only when the command is called.

Other packages bring commands as entry points of the group ``toyspec.commands``: see ``Command``.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from toyspec.core.command_line.parsers import Parser
from toyspec.core.entry_points import brought, entry_points_of, package_of
from toyspec.core.files import ResourceMissingError

if TYPE_CHECKING:
    from argparse import Namespace

GROUP = "toyspec.commands"
"""The group of entry points whose names are commands, and whose values are modules or objects such as ``Command``."""

# In the order of use: check, view, fix, write, learn.
COMMANDS: dict[str, str] = {
    "check": "check streams and list every finding",
    "show": "show one run: its state, settings, curve and results",
    "ls": "list the runs below a directory, best first",
    "catalog": "build and update one table of all runs, for very many of them",
    "query": "ask a catalog in SQL",
    "digest": "say about runs what fits into a number of tokens, for programs",
    "mcp": "serve runs to an agent, by the Model Context Protocol",
    "samples": "print what a model wrote: the worst and the best of each group",
    "compare": "compare settings and results of runs",
    "bisect": "find the first step at which two runs differ, and why",
    "expect": "write what runs are expected to log, and check it in CI",
    "plot": "draw curves of runs as SVG, PNG or PDF",
    "view": "show runs in the browser, live",
    "watch": "show runs in the terminal, live",
    "report": "write runs as one HTML page, or as a Markdown table",
    "doctor": "say what lies in a folder, format by format",
    "dialect": "propose how to read a log that toyspec does not know",
    "guard": "watch over runs by health rules, and send alerts",
    "tail": "follow runs while they are written",
    "train": "train a small model and write its run",
    "run": "run a program whose trackers are toyspec",
    "capture": "turn what a program prints into a run",
    "import": "make runs of what other tools have logged",
    "export": "write runs in the formats of other tools",
    "mirror": "send runs on to other trackers while they are written",
    "sync": "keep a bucket in step with a folder of runs",
    "repair": "move the fragment of a torn stream to a side file",
    "seal": "write the digests of all files of a run, to find later changes",
    "evidence": "write what an auditor asks about a run",
    "annotate": "name, tag, star or hide runs afterwards; their logs do not change",
    "emitter": "print a writer in one file, to copy into a project",
    "skill": "print a file from which agents learn to log and read runs",
    "conform": "test an implementation in any language for conformance",
    "explain": "explain a rule, or list all rules",
    "schema": "print the JSON Schema of a kind, or a table of the specification",
    "completion": "print a completion script for a shell",
}

# The rooms of the commands that the core does not have.
_ROOMS: dict[str, str] = {
    name: room
    for room, names in (
        ("agents", "digest evidence mcp skill"),
        ("catalog", "catalog query"),
        ("convert", "doctor export import mirror"),
        ("expect", "bisect expect"),
        ("health", "guard"),
        ("integrations", "capture run"),
        ("logs", "dialect"),
        ("stores", "sync"),
        ("trainer", "train"),
        ("view", "plot report view watch"),
    )
    for name in names.split()
}

# The schema of what each command prints with --json; of guard, and of sync --watch, that of each line.
ANSWERS: dict[str, str] = {
    "check": "schemas/report/v1/report.json",
    "show": "schemas/answers/v1/show.json",
    "ls": "schemas/answers/v1/ls.json",
    "catalog": "schemas/answers/v1/catalog.json",
    "query": "schemas/answers/v1/query.json",
    "digest": "schemas/answers/v1/digest.json",
    "bisect": "schemas/answers/v1/bisect.json",
    "samples": "schemas/answers/v1/samples.json",
    "expect": "schemas/answers/v1/expect.json",
    "doctor": "schemas/answers/v1/doctor.json",
    "guard": "schemas/report/v1/alert.json",
    "import": "schemas/conversion/v1/conversion.json",
    "export": "schemas/conversion/v1/conversion.json",
    "sync": "schemas/answers/v1/sync.json",
    "evidence": "schemas/answers/v1/evidence.json",
    "conform": "conformance/schema/report.json",
}


class Command(Protocol):
    """The functions that the module of a command defines, also that of another package.

    It may define ``USAGE``, ``DESCRIPTION`` and ``EPILOG`` too, the texts of its help.
    """

    def configure(self, parser: Parser) -> None:
        """Add arguments to *parser*, and the texts of its help that are not constants of the module."""

    def run(self, options: Namespace) -> int:
        """Do what *options* ask for and return an exit code."""


def all_commands() -> dict[str, str]:
    """Return what every command does, by its name: ours, then those of other packages with the package that has it."""
    return COMMANDS | {
        name: f"of the package {package_of(each)}"
        for name, each in sorted(entry_points_of(GROUP).items())
        if name not in COMMANDS
    }


def load(name: str) -> Command:
    """Return the module of the command *name*; raise ImportError if another package brings it and it does not load."""
    if name not in COMMANDS:
        return cast("Command", brought(entry_points_of(GROUP)[name]))
    return cast("Command", import_module(f"toyspec.{room_of(name)}.commands.{name}"))


def room_of(name: str) -> str:
    """Return the room that has our command *name*."""
    return _ROOMS.get(name, "core")


def command_parser(name: str) -> Parser:
    """Return the parser of one command."""
    parser = Parser(prog=f"toyspec {name}")
    _configure(name, parser)
    return parser


def _configure(name: str, parser: Parser) -> None:
    command = load(name)
    for text in ("USAGE", "DESCRIPTION", "EPILOG"):
        setattr(parser, text.lower(), getattr(command, text, None))
    command.configure(parser)


def full_parser() -> Parser:
    """Return the parser of the whole command line; it imports every command."""
    parser = top_parser()
    actions = parser.add_subparsers(dest="command", metavar="COMMAND", prog="toyspec", parser_class=Parser)
    for name, summary in all_commands().items():
        command = actions.add_parser(name, help=summary)
        with suppress(ResourceMissingError):  # the corpus is not installed: `conform` is known by its name alone
            _configure(name, command)
    return parser


def top_parser() -> Parser:
    """Return the parser of the options before a command."""
    listed = "\n".join(f"  {name:<11} {summary}" for name, summary in all_commands().items())
    parser = Parser(
        prog="toyspec",
        usage="toyspec COMMAND …",
        description="Training logs in JSON Lines: check, read, follow and write them.",
        epilog=f"commands:\n{listed}\n\n"
        "examples:\n"
        "  toyspec check runs/            check every run below runs/\n"
        "  toyspec ls runs/               list the runs, best first\n"
        "  toyspec explain invalid-json   explain a finding\n\n"
        "`toyspec COMMAND --help` describes a command.",
    )
    parser.flag("--version", "print the version and exit")
    parser.flag("-v --verbose", "with --version: also the engine in use, and why it is")
    return parser
