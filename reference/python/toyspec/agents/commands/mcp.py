"""``toyspec mcp``: a server of runs for agents, by the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.terminal import tell

if TYPE_CHECKING:
    from argparse import Namespace
USAGE = "toyspec mcp ROOT"
DESCRIPTION = (
    "Serve the runs below ROOT to an agent, by the Model Context Protocol over\n"
    "standard input and output. Tools: list_runs, digest, compare, curve, findings,\n"
    "samples.\n"
    "Nothing is changed, and nothing outside of ROOT is read, through links neither.\n"
    "Each answer is bounded, counts what it leaves out, and marks texts of logs as\n"
    "untrusted data.\n"
    "\n"
    "It needs the extra mcp: python -m pip install 'toyspec[mcp]'."
)
EPILOG = (
    "examples:\n"
    "  toyspec mcp runs/\n"
    "  claude mcp add toyspec -- toyspec mcp /data/runs\n"
    "\n"
    "exit status: 0 when the agent closes the connection, 2 if the command is wrong\n"
    "or the package mcp is not installed"
)


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("root", "ROOT", "a folder with runs", type=local_path)


def run(options: Namespace) -> int:
    """Serve until standard input ends."""
    import os

    if not os.path.isdir(options.root):
        raise UsageError(f"{shown(options.root)} must be a folder with runs")
    from toyspec.agents.run_tools import tool_server

    try:
        server = tool_server(options.root)
    except ImportError as error:
        tell("mcp", str(error))
        return exit_codes.USAGE
    server.run("stdio")
    return exit_codes.OK
