"""Charts of the metrics of one run, below each other or over each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from toyspec.core.command_line.parsers import UsageError, did_you_mean
from toyspec.core.command_line.tables import some_of, wrapped
from toyspec.core.command_line.terminal import columns
from toyspec.core.escaping import shortened
from toyspec.view.charts import NO_PLACE, NOT_FINITE, Chart, chart
from toyspec.view.drawn_curves import drawn_curve, read_curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.command_line.terminal import Terminal
    from toyspec.view.charts import Scale
    from toyspec.view.drawn_curves import DrawnCurve
    from toyspec.view.scans import LiveCurves

__all__ = ["chart_lines", "print_charts", "read_curves", "require_metrics"]

_MAX_COLUMNS = 160
_ROWS = 12
_NAME_CHARS = 60
_MOST_LISTED = 30


def require_metrics(metrics: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError for one of *metrics* that is not among *known*, those of the run."""
    for name in metrics:
        if name not in known:
            listed = some_of([shortened(each, _NAME_CHARS) for each in sorted(known)], _MOST_LISTED)
            near = did_you_mean(name, known)
            raise UsageError(f"the run has no metric {shortened(name, _NAME_CHARS)!r}{near}; it has: {listed}")


def print_charts(
    curves: LiveCurves,
    metrics: Sequence[str],
    terminal: Terminal,
    *,
    scale: Scale = "linear",
    layout: Literal["apart", "overlay"] = "apart",
) -> None:
    """Print a chart of each of *metrics*, or one with all of them."""
    found = [(name, drawn_curve(curves, name)) for name in metrics]
    for part in [found] if layout == "overlay" else [[each] for each in found]:
        _print(part, terminal, scale)
    marks = _marks([curve for _, curve in found])
    for line in wrapped(", ".join(marks), columns(), "  "):
        if marks:
            terminal.line(terminal.styled(line, "dim"))


def _print(part: Sequence[tuple[str, DrawnCurve]], terminal: Terminal, scale: Scale) -> None:
    titles = [terminal.curve(shortened(name, _NAME_CHARS), index) for index, (name, _) in enumerate(part)]
    terminal.line()
    terminal.line("  ".join(titles))
    size = (min(columns(), _MAX_COLUMNS), _ROWS)
    signs: Literal["unicode", "ascii"] = "unicode" if terminal.unicode else "ascii"
    made = chart([curve for _, curve in part], size, scale=scale, signs=signs)
    if made is None:
        terminal.line(terminal.styled(f"  {NO_PLACE[scale]}", "dim"))
        return
    for line in chart_lines(made, terminal):
        terminal.line(line)


def chart_lines(made: Chart, terminal: Terminal) -> list[str]:
    """Return the lines of a chart, coloured where the terminal is."""
    lines = []
    for label, row in zip(made.labels, made.rows, strict=True):
        # Cells of one colour that follow each other need one escape sequence.
        parts: list[tuple[int | None, str]] = []
        for cell in row:
            owner = None if cell.mark in ("gap", "resume", "abandoned") or cell.text == " " else cell.curve
            if parts and parts[-1][0] == owner:
                parts[-1] = owner, parts[-1][1] + cell.text
            else:
                parts.append((owner, cell.text))
        text = "".join(part if owner is None else terminal.curve(part, owner) for owner, part in parts)
        lines.append(f"{terminal.styled(label, 'dim')} {'┤' if terminal.unicode else '|'}{text}".rstrip())
    return [*lines, terminal.styled(made.below, "dim")]


def _marks(curves: Sequence[DrawnCurve]) -> list[str]:
    latest = [curve.latest for curve in curves if curve.latest is not None]
    not_finite = int(sum(sum(each.not_finite) for each in latest))
    found = [f"{NOT_FINITE} {not_finite} not finite"] if not_finite else []
    first = curves[0]
    found += [f"¦ unreadable lines: {len(first.gaps)}"] if first.gaps else []
    found += [f"┊ {len(first.resumes)} resumed"] if first.resumes else []
    return found + (["what was done again is without colour"] if any(curve.abandoned for curve in curves) else [])
