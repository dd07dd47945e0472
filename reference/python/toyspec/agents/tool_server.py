"""Serves the questions about runs by the Model Context Protocol; needs the package mcp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.agents.run_tools import UNTRUSTED, RunTools
from toyspec.core.errors import ToyspecError
from toyspec.core.files import read_resource
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.mcpserver import MCPServer

_INSTRUCTIONS = (
    "Reads the training runs below one folder, and changes nothing. Paths are relative to that folder. Begin with "
    "list_runs, then ask for a digest. " + UNTRUSTED
)


def tool_server(root: str) -> MCPServer[Any]:
    """Return a server of the runs below the folder *root*; raise ImportError without the package mcp."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise ImportError(
            "toyspec mcp needs the package mcp, version 2: python -m pip install 'toyspec[mcp]'"
        ) from error

    tools = RunTools(root)
    server: MCPServer[Any] = MCPServer("toyspec", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for tool in (tools.list_runs, tools.digest, tools.compare, tools.curve, tools.findings, tools.query):
        server.add_tool(_answering(tool), annotations=reads, structured_output=False)
    server.resource("toyspec://skill", mime_type="text/markdown")(skill)
    about = {"name": "runs", "description": "List the runs, best first.", "mime_type": "application/json"}
    server.resource("toyspec://runs", **about)(lambda: tools.list_runs("."))
    return server


def skill() -> str:
    """Return how to log training runs with toyspec, and how to read them."""
    return read_resource("reference/skill", "SKILL.md").decode()


def _answering(tool: Callable[..., str]) -> Callable[..., str]:
    """Return *tool*; what it raises about a run or a question is an answer, which says what to do."""
    from functools import wraps

    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def answer(*arguments: Any, **options: Any) -> str:
        try:
            return tool(*arguments, **options)
        except (ToyspecError, ValueError, OSError, ImportError) as error:
            raise ToolError(f"{error} ({UNTRUSTED})") from None

    return answer
