"""Text of logs in Markdown, for a pull request, and runs as tables of HTML, for a notebook."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from toyspec.core.escaping import shortened
from toyspec.core.generated.runs import TITLES
from toyspec.core.runs.curves import metric_texts
from toyspec.core.runs.run_facts import flat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.runs.summary import RunSummary


_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>@:&])")
_NAME_CHARS = 60


def escaped(text: str) -> str:
    """Return log text as text of Markdown: on one line, inert, and cut."""
    return _SPECIAL.sub(r"\\\1", shortened(text, _NAME_CHARS))


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
