"""A table of runs for a pull request: Markdown, with each loss curve as a line of text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toyspec.core.escaping import shortened
from toyspec.core.generated.runs import TITLES
from toyspec.core.runs.curves import metric_texts
from toyspec.core.runs.rows import titles_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.runs.summary import RunSummary

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>@:&])")
_PARTS = 24
_NAME_CHARS = 60


def markdown_table(runs: Sequence[RunSummary], metrics: Sequence[str] = ()) -> str:
    """Return a table with a row for each of *runs*: state, end, steps, last and best value and curve of each metric.

    *metrics* are by default the loss of each run. Text of a log is escaped, so that it is text in Markdown too. A list
    below the table names the runs whose logs lack something by their own notes.
    """
    names = list(metrics) or ["loss"]
    head = [TITLES[name] for name in ("run", "state", "reason", "last_step")]
    for name in names:
        title = escaped(name)
        head += [title, f"best {title}", ""]
    lines = [table_line(head), table_line(["---", "---", "---", "---:", *(["---:", "---:", "---"] * len(names))])]
    called = [escaped(each) for each in titles_of([run.facts for run in runs])]
    for run, title_of_run in zip(runs, called, strict=True):
        cells = [
            title_of_run,
            escaped(", ".join([run.facts.state_text, *run.facts.warnings])),
            _end(run),
            "" if run.last_step is None else str(run.last_step),
        ]
        for name in names:
            cells += _cells(run, name, is_default=not metrics)
        lines.append(table_line(cells))
    missing = [f"- {each}: {text}" for run, each in zip(runs, called, strict=True) if (text := _missing(run))]
    return "\n".join([*lines, *(["", *missing] if missing else [])]) + "\n"


def _missing(run: RunSummary) -> str:
    """Return how much was not logged; empty where nothing is missing."""
    counts = {what: run.missing[key].total() for key, what in (("left_out", "value"), ("dropped", "record"))}
    named = [f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items() if count]
    return f"{' and '.join(named)} not logged" if named else ""


def _end(run: RunSummary) -> str:
    """Return how a run ended, with what went wrong: whether its log is whole is another question."""
    known = [run.facts.reason, run.facts.error]
    return ": ".join(escaped(each) for each in known if each is not None)


def _cells(run: RunSummary, name: str, *, is_default: bool) -> list[str]:
    found = run.loss_name if is_default else name
    if found is None or found not in run.series:
        return ["", "", ""]
    last, best, line = metric_texts(run.series[found], run.best(found), _PARTS)
    return [last, best, f"`{line}`" if line else ""]


def escaped(text: str) -> str:
    """Return log text as text of Markdown: on one line, inert, and cut."""
    return _SPECIAL.sub(r"\\\1", shortened(text, _NAME_CHARS))


def table_line(cells: Sequence[str]) -> str:
    """Return a row of a table whose *cells* are Markdown already."""
    return f"| {' | '.join(cells)} |"
