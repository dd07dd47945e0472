"""The questions that a program may ask about the runs below one folder, and their server by the Model Context Protocol.

Each answer is JSON in bounded size. The server needs the package mcp.
"""

from __future__ import annotations

import json
import os
from functools import partial
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from toyspec.agents.digest import FACTS, UNTRUSTED, digest
from toyspec.core.errors import ToyspecError, WorkersError
from toyspec.core.escaping import clipped, shortened
from toyspec.core.files import read_resource
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.stream_files import found_at
from toyspec.core.runs.curves import thinned
from toyspec.core.runs.history import history
from toyspec.core.runs.run import Runs, list_runs
from toyspec.core.runs.run_facts import differing
from toyspec.core.runs.summary import summarize_run
from toyspec.core.workers.processes import TimedAnswers
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mcp.server.mcpserver import MCPServer

    from toyspec.core.runs.run_facts import RunFacts

_INSTRUCTIONS = (
    "Reads the training runs below one folder, and changes nothing. Paths are relative to that folder. Begin with "
    "list_runs, then ask for a digest. " + UNTRUSTED
)
_MOST_ROWS = 200
_MOST_POINTS = 2000
_MOST_RUNS = 50
_MOST_CHARS = 300
# Clients give up after a minute.
_MOST_SECONDS = 50.0
_COLUMNS = ("run", "name", "group", "tags", *FACTS)
_SHOWN_CHARS = 200


class RunTools:
    """Answers questions about the runs below the folder *root*, and reads nothing outside of it."""

    def __init__(self, root: str) -> None:
        self._paths = ContainedPaths(root)
        self._choice = DialectChoice()

    def list_runs(self, folder: str = ".", where: str = "", sort: str = "", limit: int = 50) -> str:
        """List runs, best first. `where` filters them: "final_loss < 2 and config.lr > 1e-4", "alerts > 0"."""
        folders, left_out = self._paths.clean_folders(folder)
        found = list_runs(*folders, dialect=self._choice) if folders else Runs(())
        found = found.filter(where) if where else found
        found = found.sort(sort) if sort else found
        rows = [
            {"path": self._paths.name(run.path).removesuffix(f"{os.sep}{EVENTS_FILE}")} | _facts_of(run.facts)
            for run in islice(found, _within(limit, _MOST_ROWS))
        ]
        return _answer({"runs": rows, "more_runs": len(found) - len(rows), "folders_with_links_outside": left_out})

    def digest(self, runs: list[str], tokens: int = 2000, since: str = "") -> str:
        """Say what there is to say about runs in at most `tokens` tokens; `since` is a cursor of an earlier answer."""
        return digest(self._within(runs), tokens=tokens, since=since or None, dialect=self._choice).render()

    def compare(self, runs: list[str], metric: str = "loss") -> str:
        """Compare the settings that differ, the results, and what a metric comes to; `curve` has its values."""
        facts = [summarize_run(path, dialect=self._choice).facts for path in self._within(runs)]
        settings = [each.settings or {} for each in facts]
        found = differing(settings)
        names = [name for name in dict.fromkeys(chain(*settings)) if name in found]
        return _answer(
            {
                "runs": [_facts_of(each) for each in facts],
                "settings_that_differ": {name: [each.get(name) for each in settings] for name in names[:_MOST_ROWS]},
                "more_settings": max(0, len(names) - _MOST_ROWS),
                "metric": metric,
                "values": [to_builtins((each.metrics or {}).get(metric)) for each in facts],
            }
        )

    def curve(self, run: str, metric: str = "loss", points: int = 100) -> str:
        """Return a metric by step in at most `points` exact values; its lowest and highest ones are among them."""
        (path,) = self._within([run])
        table = history(path, [metric], dialect=self._choice)
        cells = zip(table["step"], table[metric], strict=True)
        values = [(step, value) for step, value in cells if isinstance(value, int | float)]
        kept = thinned(values, max(2, _within(points, _MOST_POINTS)))
        return _answer(
            {
                "metric": metric,
                "points": kept,
                "more_points": len(values) - len(kept),
                "not_finite": sum(not isfinite(value) for _, value in values),
            }
        )

    def findings(self, run: str, limit: int = 50) -> str:
        """Check a run against the specification, and list the findings with their lines."""
        from toyspec.core.checker import check
        from toyspec.core.command_line.objects import finding_object

        report = check(*self._within([run]))
        if report.errors:
            message = report.errors[0].message
            raise ValueError(f"{shortened(run, _SHOWN_CHARS)!r} cannot be read: {message}; list_runs names the runs")
        states = {self._paths.name(each.path): each.state for each in report.files}
        found = [
            {"stream": self._paths.name(each.path)} | finding_object(finding)
            for each in report.files
            for finding in each.findings
        ]
        kept = found[: _within(limit, _MOST_ROWS)]
        more = len(found) - len(kept) + sum(sum(each.suppressed.values()) for each in report.files)
        return _answer({"states": states, "findings": kept, "more_findings": more})

    def _within(self, runs: Sequence[str]) -> list[str]:
        if not 0 < len(runs) <= _MOST_RUNS:
            raise ValueError(f"name 1 to {_MOST_RUNS} runs, not {len(runs)}")
        return [self._paths.within(run) for run in runs]


def _facts_of(run: RunFacts) -> dict[str, Any]:
    """Return what is known of *run*; a name where it has one besides that of its directory."""
    facts = {name: value for name in _COLUMNS if (value := run[name]) not in (None, [], ())}
    if facts["name"] == facts["run"]:
        del facts["name"]
    return facts


def _answer(value: dict[str, Any]) -> str:
    return json.dumps({"untrusted": UNTRUSTED} | _plain(value), separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return *value* as JSON has it: texts and names as the log has them, cut, and what is not finite as text."""
    if isinstance(value, dict):
        return {clipped(str(key), _MOST_CHARS): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    return clipped(str(value), _MOST_CHARS)


def _within(number: int, most: int) -> int:
    return max(1, min(number, most))


class ContainedPaths:
    """The paths below the folder *root*. Links are looked at whenever a path is asked for."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def within(self, path: str) -> str:
        """Return the real path of *path*, which is relative to the root.

        Raises ValueError if it is outside, or if a link in its folder or below leads outside.
        """
        found = self._real(path)
        if any(self._ways_out(found if os.path.isdir(found) else os.path.dirname(found))):
            shown = shortened(path, _SHOWN_CHARS)
            raise ValueError(f"{shown!r} has a link that leads out of the folder that may be read; remove the link")
        return found if os.path.isdir(found) or not os.path.exists(found) else found_at(found)

    def clean_folders(self, path: str) -> tuple[list[str], int]:
        """Return the folders at or below *path* without links that lead outside, and the number of others."""
        folder = self._real(path)
        dirty = set(self._ways_out(folder))
        if not dirty:
            return [self.within(path)], 0
        clean: list[str] = []
        for each, folders, _ in os.walk(folder):
            if not any(other == each or other.startswith(each + os.sep) for other in dirty):
                clean.append(each)
                folders.clear()
        return sorted(clean), len(dirty)

    def name(self, path: str) -> str:
        """Return *path* relative to the root."""
        return os.path.relpath(os.path.realpath(path), self.root)

    def _real(self, path: str) -> str:
        """Return the real path of *path*; raise ValueError, for a NUL byte too, which no path has."""
        found = "" if "\0" in path else os.path.realpath(os.path.join(self.root, path))
        if not self._has(found):
            shown = shortened(path, _SHOWN_CHARS)
            raise ValueError(f"{shown!r} is outside of the folder that may be read; name a path below it")
        return found

    def _ways_out(self, folder: str) -> Iterator[str]:
        """Yield each folder at or below *folder* with a link that leads outside; links are not followed."""
        for each, *names in os.walk(folder):
            paths = [os.path.join(each, name) for name in chain(*names)]
            if any(os.path.islink(path) and not self._has(os.path.realpath(path)) for path in paths):
                yield each

    def _has(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root.rstrip(os.sep) + os.sep)


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
    asked = TimedAnswers(partial(_answers, root), _MOST_SECONDS)
    server: MCPServer[Any] = MCPServer("toyspec", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for tool in (tools.list_runs, tools.digest, tools.compare, tools.curve, tools.findings):
        server.add_tool(_answering(tool, asked), annotations=reads, structured_output=False)
    server.resource("toyspec://skill", mime_type="text/markdown")(skill)
    return server


def skill() -> str:
    """Return how to log training runs with toyspec, and how to read them."""
    return read_resource("reference/skill", "SKILL.md").decode()


def _answers(root: str, questions: Sequence[tuple[str, dict[str, Any]]]) -> list[tuple[bool, str]]:
    """Return for each of *questions*, a tool and its arguments, whether it was refused, and the answer or why."""
    tools = RunTools(root)
    found = []
    for name, arguments in questions:
        try:
            found.append((False, getattr(tools, name)(**arguments)))
        except (ToyspecError, ValueError, OSError, ImportError) as error:
            found.append((True, str(error)))
    return found


def _answering(tool: Callable[..., str], asked: TimedAnswers) -> Callable[..., str]:
    """Return *tool*, asked in another process; what it raises about a run or a question is an answer of what to do."""
    from functools import wraps

    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def answer(**arguments: Any) -> str:
        try:
            is_refused, text = asked.ask((tool.__name__, arguments))
        except (TimeoutError, WorkersError) as error:
            is_refused, text = True, f"{error}; ask for fewer runs, or for less of one"
        if is_refused:
            raise ToolError(f"{text} ({UNTRUSTED})")
        return str(text)

    return answer
