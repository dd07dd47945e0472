"""Draws the loss curve of a damaged log, as the reader saves it: the picture of the start page."""

from __future__ import annotations

import math
from typing import NamedTuple

import toyspec
from codegen.diagrams.drawing import WIDTH, Box, Drawing

NAME = "saved-curve"
STEPS = 400
"""Number of steps in the log."""
LOST = 148
"""Number of the step that a killed writer left half written; the next step was appended to its line."""

_PLOT = Box(30, 10, WIDTH - 40, 130)
_LOWEST, _HIGHEST = 1.0, 6.5


class Saved(NamedTuple):
    """The result of reading in mode ``salvage``."""

    points: list[tuple[int, float]]
    """Step and loss of each record that was read."""
    gap_line: int
    """Number of the line that could not be read, counted from 1."""
    lines: int
    """Number of lines in the log."""


def broken_log() -> bytes:
    """Return a log of ``STEPS`` steps, one of them half written and followed by the next on the same line."""
    lines = [b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"llama-003"}\n']
    lines += [b'{"kind":"step","t":%d.5,"step":%d,"loss":%.4f}\n' % (n, n, loss_at(n)) for n in range(1, STEPS + 1)]
    lines.append(b'{"kind":"run_end","t":%d.0,"reason":"completed"}\n' % (STEPS + 1))
    lines[LOST] = lines[LOST][: len(lines[LOST]) - 6]
    return b"".join(lines)


def loss_at(step: int) -> float:
    """Return a falling loss, with ripples as noise."""
    ripple = 0.12 * math.sin(1.7 * step) + 0.08 * math.sin(0.61 * step + 1)
    return 1.6 + 4.4 * math.exp(-0.012 * step) + ripple


def saved(log: bytes) -> Saved:
    """Return what can be read of *log*."""
    reading = toyspec.read(log, mode="salvage")
    points = [(record["step"], record["loss"]) for record in reading if record.kind == "step"]
    (gap,) = reading.report.gaps
    return Saved(points, gap.line, log.count(b"\n"))


def picture() -> dict[str, str]:
    """Return the picture by its name."""
    found = saved(broken_log())
    drawing = Drawing(
        NAME,
        "The loss curve of a damaged log",
        f"{len(found.points)} of {STEPS} steps were read; a mark shows the gap at line {found.gap_line}.",
    )
    drawing.box(_PLOT, style="none", radius=0)
    for loss in (2, 4, 6):
        drawing.text(_PLOT.x - 6, _y(loss) + 4, str(loss), style="small faint", anchor="end")
    drawing.line(" ".join(f"{_x(step):.1f},{_y(loss):.1f}" for step, loss in found.points))
    at = _x(LOST + 0.5)
    drawing.box(Box(at - 1.5, _PLOT.y, 3, _PLOT.height), style="bad", radius=0)
    drawing.text(at + 8, _PLOT.y + 14, f"line {found.gap_line}: two steps lost", style="small")
    drawing.text(_PLOT.x, _PLOT.bottom + 16, "step 1", style="small faint")
    drawing.text(_PLOT.x + _PLOT.width, _PLOT.bottom + 16, f"step {STEPS}", style="small faint", anchor="end")
    drawing.text(_PLOT.x + _PLOT.width / 2, _PLOT.bottom + 16, f"{len(found.points)} of {STEPS} steps", anchor="middle")
    return {NAME: drawing.svg()}


def _x(step: float) -> float:
    return _PLOT.x + _PLOT.width * (step - 1) / (STEPS - 1)


def _y(loss: float) -> float:
    return _PLOT.bottom - _PLOT.height * (loss - _LOWEST) / (_HIGHEST - _LOWEST)
