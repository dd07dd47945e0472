"""Runs as tables of Markdown, for a pull request, and of HTML, for a notebook."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from toyspec.core.escaping import shortened
from toyspec.core.generated.runs import TITLES
from toyspec.core.runs.curves import metric_texts
from toyspec.core.runs.rows import titles_of
from toyspec.core.runs.run_facts import flat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


_MOST_METRICS = 20
_MOST_SETTINGS = 20
_HTML_PARTS = 32
_CHARS = 80


def run_html(run: RunSummary) -> str:
    """Return state, settings and metrics of *run*, each metric with its curve; text of the log is text."""
    name = escape(shortened(run.facts.name, _CHARS))
    rows = "".join(f"<tr><th>{title}</th><td>{text}</td></tr>" for title, text in _facts(run))
    shown = list(run.series)[:_MOST_METRICS]
    metrics = "".join(_metric(run, name) for name in shown)
    head = "<tr><th>metric</th><th>last</th><th>best</th><th></th></tr>"
    more = len(run.series) - len(shown)
    rest = f"<tr><td>and {more} more</td></tr>" if more > 0 else ""
    tables = f"<table><tbody>{rows}</tbody></table>"
    tables += f"<table><thead>{head}</thead><tbody>{metrics}{rest}</tbody></table>" if metrics else ""
    return f"<div><strong>{name}</strong> {escape(run.facts.state_text)}{tables}</div>"


def _facts(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield what is known, as escaped title and text."""
    for name in ("path", "group", "notes", "started_at", "last_step", "reason"):
        value = run.facts[name]
        if value is not None:
            yield TITLES[name], _text(value)
    for part in ("model", "config"):
        members = run.start.get(part)
        if isinstance(members, dict) and members:
            named = [f"{_text(name)} {_text(value)}" for name, value in flat(members)]
            more = f", and {len(named) - _MOST_SETTINGS} more" if len(named) > _MOST_SETTINGS else ""
            yield part, ", ".join(named[:_MOST_SETTINGS]) + more


def _metric(run: RunSummary, name: str) -> str:
    last, best, line = metric_texts(run.series[name], run.best(name), _HTML_PARTS)
    return f"<tr><td>{_text(name)}</td><td>{last}</td><td>{best}</td><td><code>{line}</code></td></tr>"


def _text(value: Any) -> str:
    return escape(shortened(f"{value:.6g}" if isinstance(value, float) else str(value), _CHARS))
