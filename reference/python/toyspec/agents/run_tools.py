"""The questions that a program may ask about the runs below one folder, and their server by the Model Context Protocol.

Each answer is JSON in bounded size. The server needs the package mcp.
"""

from __future__ import annotations

import json
import os
from functools import partial
from itertools import chain, islice
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from toyspec.agents.digest import FACTS, UNTRUSTED, count_tokens, digest, group_item, reported_alerts
from toyspec.core.errors import StreamMissingError, ToyspecError, WorkersError
from toyspec.core.escaping import clipped, shortened
from toyspec.core.files import read_resource
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.reading.attempts import Placing
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import rank_of
from toyspec.core.reading.stream_files import found_at
from toyspec.core.runs.curves import thinned
from toyspec.core.runs.reported import LEVELS, grouped
from toyspec.core.runs.run import Runs, list_runs
from toyspec.core.runs.run_facts import MOST_ALIKE, differing, unknown_metric
from toyspec.core.runs.samples import samples_of
from toyspec.core.runs.summary import summarize_run
from toyspec.core.workers.processes import TimedAnswers
from toyspec.health.rules import rules_of
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mcp.server.mcpserver import MCPServer

    from toyspec.core.runs.run_facts import RunFacts

_INSTRUCTIONS = (
    "Reads the training runs below one folder, and changes nothing. Paths are relative to that folder. Begin with "
    "list_runs, then ask for a digest. An answer has at most `tokens` tokens; `cursor` asks for what comes after it. "
    + UNTRUSTED
)
_MOST_ROWS = 200
_MOST_POINTS = 2000
_MOST_RUNS = 50
_MOST_CHARS = 300
# Clients give up after a minute.
_MOST_SECONDS = 50.0
_COLUMNS = ("run", "name", "group", "tags", *FACTS)
_RESULTS = ("state", "reason", "error", "last_step", "final_loss")
_SHOWN_CHARS = 200
_MOST_ERROR_CHARS = 1000
_MOST_CURSOR_DIGITS = 10
_MOST_SAMPLE_CHARS = 2000
_LEAST_ROOM = 100
_LEVEL_OF_STATE = {"damaged": "error", "torn": "warning"}
DEFAULT_TOKENS = 4000
"""What an answer has at most, by the rule that digests count by."""


class RunTools:
    """Answers questions about the runs below the folder *root*, and reads nothing outside of it."""

    def __init__(self, root: str) -> None:
        self._paths = ContainedPaths(root)
        self._choice = DialectChoice()

    def list_runs(  # noqa: PLR0913, PLR0917 - what an agent may ask
        self,
        folder: str = ".",
        where: str = "",
        sort: str = "",
        limit: int = 50,
        tokens: int = DEFAULT_TOKENS,
        cursor: str = "",
    ) -> str:
        """List runs, best first. `where` filters them: "final_loss < 2 and config.lr > 1e-4", "alerts > 0"."""
        folders, left_out = self._paths.clean_folders(folder)
        found = list_runs(*folders, dialect=self._choice) if folders else Runs(())
        found = found.filter(where) if where else found
        found = found.sort(sort) if sort else found
        rows = [partial(self._row, run.facts, run.path) for run in found]
        page = _Page({"folders_with_links_outside": left_out}, tokens, cursor)
        return page.of({"runs": rows}, most=_within(limit, _MOST_ROWS))

    def digest(self, runs: list[str], tokens: int = 2000, since: str = "") -> str:
        """Say what there is to say about runs in at most `tokens` tokens; `since` is a cursor of an earlier answer."""
        root = self._paths.root
        return digest(self._within(runs), tokens=tokens, since=since or None, dialect=self._choice, root=root).render()

    def compare(self, runs: list[str], metric: str = "loss", tokens: int = DEFAULT_TOKENS, cursor: str = "") -> str:
        """Compare the settings that differ, the results, and what a metric comes to; `curve` has its values."""
        paths = self._within(runs)
        facts = [summarize_run(path, dialect=self._choice).facts for path in paths]
        if not any(metric in (each.metrics or {}) for each in facts):
            raise unknown_metric(metric, chain(*(each.metrics or {} for each in facts)), len(facts))
        settings = [each.settings or {} for each in facts]
        found = differing(settings)
        rows = [
            {"path": self._paths.run(path)} | {name: each[name] for name in _RESULTS} | self._metric(each, metric)
            for path, each in zip(paths, facts, strict=True)
        ]
        columns = [name for name in dict.fromkeys(chain(*rows)) if any(row.get(name) is not None for row in rows)]
        parts: dict[str, list[Any]] = {
            "runs": [[row.get(name) for name in columns] for row in rows],
            "settings_that_differ": [
                {"name": name, "values": [each.get(name) for each in settings]}
                for name in dict.fromkeys(chain(*settings))
                if name in found
            ],
        }
        return _Page({"columns": columns}, tokens, cursor).of(parts)

    def curve(  # noqa: PLR0913, PLR0917 - what an agent may ask
        self,
        run: str,
        metric: str = "loss",
        points: int = 100,
        from_step: float | None = None,
        to_step: float | None = None,
        tokens: int = DEFAULT_TOKENS,
        cursor: str = "",
    ) -> str:
        """Return a metric in at most `points` exact values, its lowest and highest among them: step, value, line."""
        (path,) = self._within([run])
        first, last = -inf if from_step is None else from_step, inf if to_step is None else to_step
        values = [point for point in self._values(path, metric) if first <= point[0] <= last]
        kept = thinned(values, max(2, _within(points, _MOST_POINTS)))
        not_finite = sum(not _is_finite(value) for _, value, _ in values)
        head = {"metric": metric, "points_left_out": len(values) - len(kept), "not_finite": not_finite}
        return _Page(head, tokens, cursor).of({"points": list(map(list, kept))})

    def findings(self, run: str, limit: int = 50, tokens: int = DEFAULT_TOKENS, cursor: str = "") -> str:
        """List what health rules report about a run, grouped, and what a check finds, with lines; errors first."""
        from toyspec.core.checker import check
        from toyspec.core.command_line.objects import finding_object

        (path,) = self._within([run])
        report = check(path)
        if report.errors:
            message = report.errors[0].message
            raise ValueError(f"{shortened(run, _SHOWN_CHARS)!r} cannot be read: {message}; list_runs names the runs")
        states = [{"stream": self._paths.name(each.path), "state": each.state} for each in report.files]
        found = [
            {"stream": self._paths.name(each.path)} | finding_object(finding)
            for each in report.files
            for finding in each.findings
        ]
        alerts = [
            {"stream": self._paths.name(each.path)} | alert
            for each in report.files
            if not rank_of(os.path.basename(each.path))
            for alert in self._alerts(each.path)
        ]
        head = {"findings_not_listed": sum(sum(each.suppressed.values()) for each in report.files)}
        page = _Page(head, tokens, cursor)
        parts = {"states": states, "alerts": alerts, "findings": found}
        return page.of(parts, most=_within(limit, _MOST_ROWS), order=_by_level)

    def samples(  # noqa: PLR0913, PLR0917 - what an agent may ask
        self,
        run: str,
        step: int | None = None,
        sort: str = "",
        most: int = 4,
        tokens: int = DEFAULT_TOKENS,
        cursor: str = "",
    ) -> str:
        """Return what the model wrote: of each group the lowest and highest by `sort`, as "reward", at most `most`."""
        (path,) = self._within([run])
        found = samples_of(path, step=step, sort=sort or None, most=max(1, most), dialect=self._choice)
        return _Page({}, tokens, cursor).of({"samples": found}, chars=_MOST_SAMPLE_CHARS)

    def _alerts(self, path: str) -> Iterator[dict[str, Any]]:
        for group in grouped(reported_alerts(path, rules_of("default"), self._choice)):
            item = to_builtins(group_item(0, group))
            yield {"rule": item["name"], "line": item.get("line"), "text": item.get("text")} | item["facts"]

    def _values(self, path: str, metric: str) -> Iterator[tuple[float, float, int]]:
        """Yield step, value and line of each value of *metric*; raise ExpressionError for one that the run has not."""
        attempts = summarize_run(path, dialect=self._choice).attempts
        placing, others, is_known = Placing(attempts), dict[str, None](), False
        with read(path, mode="salvage", dialect=self._choice) as reading:
            for record in reading:
                if attempts.are_values_abandoned(record):
                    continue
                step, values = placing.take(record), attempts.named_values(record)
                if metric in values:
                    is_known, value = True, values[metric]
                    yield step, nan if value is None else value, record.line
                elif not is_known:
                    others |= dict.fromkeys(islice(values, MOST_ALIKE))
        if not is_known:
            raise unknown_metric(metric, others)

    def _metric(self, facts: RunFacts, metric: str) -> dict[str, Any]:
        found = (facts.metrics or {}).get(metric)
        return {f"{metric} {name}": value for name, value in to_builtins(found).items()} if found else {}

    def _row(self, facts: RunFacts, path: str) -> dict[str, Any]:
        """Return what is known of a run; a name where it has one besides that of its directory."""
        row = {name: value for name in _COLUMNS if (value := facts[name]) not in (None, [], ())}
        if row["name"] == row["run"]:
            del row["name"]
        return {"path": self._paths.run(path)} | row

    def _within(self, runs: Sequence[str]) -> list[str]:
        if not 0 < len(runs) <= _MOST_RUNS:
            raise ValueError(f"name 1 to {_MOST_RUNS} runs, not {len(runs)}")
        return [self._paths.within(run) for run in runs]


class _Page:
    """As much of an answer as fits into a number of tokens, and the cursor that asks for the rest."""

    def __init__(self, head: dict[str, Any], tokens: int, cursor: str) -> None:
        """Begin after what *cursor* names; raise ValueError if no answer gave it, or for too few tokens."""
        if cursor and not (cursor.isdecimal() and len(cursor) < _MOST_CURSOR_DIGITS):
            raise ValueError(
                f"{shortened(cursor, _SHOWN_CHARS)!r} is not a cursor; give one of an earlier answer, unchanged"
            )
        self._start = int(cursor or 0)
        self._tokens = tokens
        self._head = {"untrusted": UNTRUSTED} | _plain(head)

    def of(
        self,
        parts: dict[str, list[Any]],
        most: int | None = None,
        chars: int = _MOST_CHARS,
        order: Callable[[Any], int] = lambda _: 0,
    ) -> str:
        """Return the answer with the items of *parts* that fit, and at most *most*; one that is too long is cut.

        Those with the least *order* come first.
        """
        items = [(name, item) for name, each in parts.items() for item in each]
        items.sort(key=lambda item: order(item[1]))
        lists: dict[str, list[Any]] = {name: [] for name in parts}
        # No number that is printed at the end has more digits.
        bare = self._head | lists | {"more": len(items), "cursor": str(len(items))}
        room = self._tokens - count_tokens(_json(bare))
        if room < _LEAST_ROOM:
            raise ValueError(f"tokens is {self._tokens}; it must be at least {self._tokens - room + _LEAST_ROOM}")
        end = self._start
        for name, item in items[self._start : None if most is None else self._start + most]:
            value = item() if callable(item) else item
            fitted = _cut(value, room, chars) if end == self._start else _plain(value, chars)
            room -= count_tokens(_json(fitted)) + 1
            if room < 0:
                break
            lists[name].append(fitted)
            end += 1
        more = max(0, len(items) - end)
        return _json(self._head | lists | ({"more": more, "cursor": str(end)} if more else {"more": 0}))


def _by_level(item: Mapping[str, Any]) -> int:
    """Return the place of an alert, a finding or a state among them: errors first, and whole streams last."""
    level = item.get("severity") or item.get("level") or _LEVEL_OF_STATE.get(item.get("state", ""), "")
    return -LEVELS.index(level) if level in LEVELS else 1


def _cut(value: Any, room: int, most: int) -> Any:
    """Return *value* with texts and lists so short that it has fewer than *room* tokens."""
    for chars in (most, 60, 12):
        found = _plain(value, chars)
        if count_tokens(_json(found)) < room:
            return found
    members = found.items() if isinstance(found, dict) else enumerate(found)
    kept: dict[Any, Any] = {}
    for key, member in members:
        if count_tokens(_json([kept, key, member])) < room - _LEAST_ROOM // 2:
            kept[key] = member
    left_out = len(found) - len(kept)
    return (
        kept | {"members_left_out": left_out} if isinstance(found, dict) else [*kept.values(), f"{left_out} left out"]
    )


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _is_finite(value: float) -> bool:
    return isinstance(value, int) or isfinite(value)


def _plain(value: Any, chars: int = _MOST_CHARS) -> Any:
    """Return *value* as JSON has it: texts and names as the log has them, cut, and what is not finite as text."""
    if isinstance(value, dict):
        return {clipped(str(key), chars): _plain(member, chars) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member, chars) for member in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    return clipped(str(value), chars)


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
        if not os.path.isdir(folder):
            shown = shortened(path, _SHOWN_CHARS)
            raise ValueError(f"{shown!r} is not a folder; without one, `list_runs` lists all runs")
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

    def run(self, path: str) -> str:
        """Return the *path* of a run, or of its stream, relative to the root."""
        return self.name(path).removesuffix(f"{os.sep}{EVENTS_FILE}")

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
    for tool in (tools.list_runs, tools.digest, tools.compare, tools.curve, tools.findings, tools.samples):
        server.add_tool(_answering(tool, asked), annotations=reads, structured_output=False)
    server.resource("toyspec://skill", mime_type="text/markdown")(skill)
    return server


def skill() -> str:
    """Return how to log training runs with toyspec, and how to read them."""
    return read_resource("reference/skill", "SKILL.md").decode()


def _answers(root: str, questions: Sequence[tuple[str, dict[str, Any]]]) -> list[tuple[bool, str]]:
    """Return for each of *questions*, a tool and its arguments, whether it was refused, and the answer or why."""
    tools, paths, root = RunTools(root), ContainedPaths(root), os.path.realpath(root)
    found = []
    for name, arguments in questions:
        try:
            found.append((False, getattr(tools, name)(**arguments)))
        except StreamMissingError as error:
            path = clipped(paths.run(error.path), _MOST_ERROR_CHARS)
            found.append((True, f"{path}: no run is there; `list_runs` names the runs below a folder"))
        except (ToyspecError, ValueError, OSError, ImportError) as error:
            found.append((True, clipped(str(error).replace(root.rstrip(os.sep) + os.sep, ""), _MOST_ERROR_CHARS)))
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
