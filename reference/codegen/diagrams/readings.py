"""Draws how the library reads streams of the corpus: the states of a file, and the result of each reading mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import toyspec
from codegen import sources
from codegen.diagrams.drawing import MONO_WIDTH, WIDTH, Box, Drawing, cut
from toyspec.core.reading.reader import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

Part = Literal["committed", "gap", "fragment"]

_STATES = (
    "toy-v1/unterminated-line/ends-in-line-feed",
    "toy-v1/unterminated-line/half-a-record",
    "toy-v1/reading/damaged-and-a-fragment",
)
"""Cases of the corpus, one for each state."""
_MODES = ("toy-v1/unterminated-line/half-a-record", "toy-v1/reading/damaged-in-the-middle")
_STYLES: dict[Part, str] = {"committed": "good", "gap": "bad", "fragment": "open"}
_ROW = 19
_COLUMN = 78


@dataclass(frozen=True)
class Line:
    """One line of a stream as a reader counts it."""

    number: int
    offset: int
    data: bytes
    """Its bytes, its LF included where there is one."""
    part: Part
    reason: str
    """Why it is a gap; nothing for other lines."""


def reading_pictures() -> dict[str, str]:
    """Return the two pictures as SVG by name."""
    return {"file-states": _states().svg(), "reading-modes": _modes().svg()}


def lines_of(data: bytes) -> list[Line]:
    """Return the lines of *data* as a reading in mode salvage accounts for them."""
    reading = toyspec.read(data, mode="salvage")
    list(reading)
    reasons = {gap.offset: gap.reason for gap in reading.report.gaps}
    found, offset = [], 0
    for number, line in enumerate(_split(data), start=1):
        part: Part = "gap" if offset in reasons else "committed" if line.endswith(b"\n") else "fragment"
        found.append(Line(number, offset, line, part, reasons.get(offset, "")))
        offset += len(line)
    return found


def given(data: bytes, mode: Mode) -> tuple[set[int], str]:
    """Return the lines that give records when *data* is read in *mode*, and the name of the exception raised."""
    numbers = set()
    try:
        for record in toyspec.read(data, mode=mode):
            numbers.add(record.line)
    except toyspec.StreamError as error:
        return numbers, type(error).__name__
    return numbers, ""


def _split(data: bytes) -> list[bytes]:
    *lines, last = data.split(b"\n")
    return [*(line + b"\n" for line in lines), *([last] if last else [])]


def _data(case: str) -> bytes:
    return (sources.ROOT / "conformance/cases" / case / "events.jsonl").read_bytes()


def _states() -> Drawing:
    drawing = Drawing(
        "file-states",
        "The bytes of a file in each of the three states",
        "Three files of the corpus, each as a bar of its bytes and as a list of its lines: "
        "a complete one of committed lines only; a torn one whose end is a fragment; a damaged one with a gap.",
    )
    y = 0.0
    for case in _STATES:
        y = _state(drawing, y, _data(case)) + 16
    return drawing


def _state(drawing: Drawing, y: float, data: bytes) -> float:
    reading = toyspec.read(data, mode="salvage")
    list(reading)
    report = reading.report
    drawing.text(0, y + 13, report.state, style="strong")
    parts = f"{report.committed_bytes} committed + {report.fragment_bytes} fragment + {report.gap_bytes} gap"
    drawing.text(WIDTH, y + 13, f"{parts} = {report.size}", anchor="end", style="small faint")
    lines = lines_of(data)
    x = 0.0
    for line in lines:
        width = WIDTH * len(line.data) / len(data)
        drawing.box(Box(x + 1, y + 20, max(width - 2, 2), 12), style=_STYLES[line.part], radius=1)
        x += width
    y += 36
    for line in lines:
        _line(drawing, y, line)
        y += _ROW
    return y


def _line(drawing: Drawing, y: float, line: Line) -> None:
    drawing.box(Box(0.5, y + 4, 11, 11), style=_STYLES[line.part], radius=1)
    drawing.text(28, y + 13.5, str(line.number), style="mono faint", anchor="end")
    shown = line.data.decode().replace("\n", "⏎")
    ending = shown[-1] if shown.endswith("⏎") else ""
    drawing.text(34, y + 13.5, cut(shown.removesuffix("⏎"), 33) + ending, style="mono")
    label = f"gap: {line.reason}" if line.part == "gap" else line.part
    drawing.text(WIDTH, y + 13.5, label, anchor="end")


def _modes() -> Drawing:
    drawing = Drawing(
        "reading-modes",
        "What each reading mode gives of a torn and of a damaged file",
        "Two tables, one for a file with a torn end and one for a file with a damaged line. Rows are the lines, "
        "columns the four modes; a cell says whether the record of the line is given.",
    )
    y = 0.0
    for case in _MODES:
        y = _table(drawing, y, _data(case)) + 18
    return drawing


def _table(drawing: Drawing, y: float, data: bytes) -> float:
    modes: Sequence[Mode] = get_args(Mode)
    reading = toyspec.read(data, mode="salvage")
    list(reading)
    drawing.text(0, y + 13, reading.report.state, style="strong")
    left = WIDTH - _COLUMN * len(modes)
    for place, mode in enumerate(modes):
        drawing.text(left + _COLUMN * (place + 0.5), y + 30, mode, style="mono strong", anchor="middle")
    y += 36
    outcomes = [given(data, mode) for mode in modes]
    for line in lines_of(data):
        drawing.text(0, y + 13.5, f"line {line.number}", style="faint" if line.part == "committed" else "strong")
        for place, (numbers, _) in enumerate(outcomes):
            style, word = _cell(line, numbers)
            drawing.box(Box(left + _COLUMN * place + 2, y + 1, _COLUMN - 4, _ROW - 3), style=style)
            drawing.text(left + _COLUMN * (place + 0.5), y + 13.5, word, anchor="middle")
        y += _ROW
    return _endings(drawing, y, left, [error for _, error in outcomes])


def _cell(line: Line, numbers: set[int]) -> tuple[str, str]:
    if line.number in numbers:
        return "good", "record"
    if line.part == "committed":
        return "none", "not given"
    return _STYLES[line.part], line.part


def _endings(drawing: Drawing, y: float, left: float, errors: Sequence[str]) -> float:
    """Write below each column how the reading ends."""
    for place, error in enumerate(errors):
        words = ["raises", *_words(error)] if error else ["ends", "with a", "report"]
        for row, word in enumerate(words):
            drawing.text(left + _COLUMN * (place + 0.5), y + 13 + 13 * row, word, style="faint", anchor="middle")
    return y + 13 * 4


def _words(name: str) -> list[str]:
    """Return the name of an exception in pieces that fit below a column."""
    stem = name.removesuffix("StreamError")
    return [stem, "StreamError"] if len(name) * MONO_WIDTH > _COLUMN else [name]
