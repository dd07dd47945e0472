"""One run as a table of HTML, for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from toyspec.escaping import shortened
from toyspec.generated.runs import TITLES
from toyspec.runs.curves import sparkline
from toyspec.runs.run_facts import flat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.runs.curves import Curve
    from toyspec.runs.summary import RunSummary

_MOST_METRICS = 20
_MOST_SETTINGS = 20
_PARTS = 32
_CHARS = 80


def run_html(run: RunSummary) -> str:
    """Return state, settings and metrics of *run*, each metric with its curve; text of the log is text."""
    name = escape(shortened(run.facts.name, _CHARS))
    rows = "".join(f"<tr><th>{title}</th><td>{text}</td></tr>" for title, text in _facts(run))
    shown = list(run.series.items())[:_MOST_METRICS]
    metrics = "".join(_metric(run, name, curve) for name, curve in shown)
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
        members = run.settled_start.get(part)
        if isinstance(members, dict) and members:
            named = [f"{_text(name)} {_text(value)}" for name, value in flat(members)]
            more = f", and {len(named) - _MOST_SETTINGS} more" if len(named) > _MOST_SETTINGS else ""
            yield part, ", ".join(named[:_MOST_SETTINGS]) + more


def _metric(run: RunSummary, name: str, curve: Curve) -> str:
    last = curve.last[1] if curve.last is not None else None
    best = run.best(name)
    is_flat = curve.lowest is not None and curve.highest is not None and curve.lowest[1] == curve.highest[1]
    line = "" if is_flat and not curve.not_finite else sparkline(curve.means(_PARTS), "unicode")
    at = "" if best is None else f"{best[1]:.6g} at {best[0]}"
    return (
        f"<tr><td>{_text(name)}</td><td>{'not finite' if last is None else f'{last:.6g}'}</td>"
        f"<td>{at}</td><td><code>{line}</code></td></tr>"
    )


def _text(value: Any) -> str:
    return escape(shortened(f"{value:.6g}" if isinstance(value, float) else str(value), _CHARS))
