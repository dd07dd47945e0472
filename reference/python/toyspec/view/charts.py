"""Curves as they are drawn: read, smoothed, or their mean; and as charts of characters.

Each character has eight dots, so that a spike of one step is seen at any width.
"""

from __future__ import annotations

from array import array
from contextlib import closing
from itertools import count
from math import isfinite, log10
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.core.command_line.tables import cut, width
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.runs.groups import incomplete, mean_of, resampled
from toyspec.view.curve_frames import AXES, places, tokens_of
from toyspec.view.curve_store import curves_of
from toyspec.view.pyramids import MOST_BUCKETS
from toyspec.view.scans import ScannedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from toyspec.core.runs.groups import Band
    from toyspec.core.runs.summary import RunSummary
    from toyspec.view.curve_frames import Axis
    from toyspec.view.curve_store import Curves
    from toyspec.view.pyramids import Buckets

Scale = Literal["linear", "log"]

NOT_FINITE = "\N{MULTIPLICATION SIGN}"
"""The mark of values that are not finite."""

_BLANK = 0x2800
# The bit of each dot of a character by its row and column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_LEAST_COLUMNS = 10
# A whole number below it is written with all its digits.
_LARGE = 1e9


class Stretch(NamedTuple):
    """Successive buckets of a curve; each column has one value for each. NaN is a value that is not finite."""

    place: array[float]
    low: array[float]
    high: array[float]
    last: array[float]
    mean: array[float]
    not_finite: array[float]
    """Number of points that are not finite."""
    level: int
    """Number of points in a bucket."""


class DrawnCurve(NamedTuple):
    """One metric of one run."""

    latest: Stretch | None
    """The curve as the latest attempt made it; None if the run does not have the metric."""
    abandoned: list[Stretch]
    """What later attempts did again."""
    gaps: list[float]
    """Places of unreadable lines."""
    resumes: list[float]
    """Places that resumptions go on from."""
    first: float | None
    """Place of the first point, where it is known: the first bucket has that of its last point."""
    members: int = 1
    """Number of runs that it is the mean of."""
    incomplete: Sequence[tuple[int, int, int]] = ()
    """Where some of the members have no value: the first bucket, that after the last, and how many have one."""


def drawn_curve(curves: Curves, metric: str, axis: Axis = "step", most: int = MOST_BUCKETS) -> DrawnCurve:
    """Return what is drawn of *metric* over *axis*, in at most *most* buckets; points without a place are left out."""
    tokens, whole, begin = tokens_of(curves, (axis,)), curves.latest(metric), curves.first(metric)
    latest = None if whole is None else _stretch(whole.fitting(most), axis, tokens)
    abandoned = [_stretch(each.fitting(most), axis, tokens) for each in curves.abandoned(metric)]
    first = None if begin is None or axis == "tokens" else begin[AXES.index(axis)]
    known = first if first is not None and isfinite(first) else None
    return DrawnCurve(latest, abandoned, _known(curves.gaps, axis), _known(curves.resumes, axis), known)


def _known(marks: Iterable[Mapping[str, Any]], axis: Axis) -> list[float]:
    return [mark[axis] for mark in marks if mark.get(axis) is not None]


def _stretch(buckets: Buckets, axis: Axis, tokens: Buckets | None) -> Stretch:
    found = places(buckets, axis, tokens)
    kept = [at for at, place in enumerate(found) if isfinite(place)]
    columns = [found, *(buckets.columns[name] for name in ("min", "max", "last", "mean", "nan"))]
    place, low, high, last, mean, not_finite = (array("d", [column[at] for at in kept]) for column in columns)
    return Stretch(place, low, high, last, mean, not_finite, buckets.level)


def read_curves(
    path: str, *, wanted: Callable[[str], bool] | None = None, dialect: DialectChoice | None = None
) -> tuple[Curves, RunSummary]:
    """Return the curves of the run at *path*, and its summary; *wanted* chooses metrics by name.

    Raises StreamError; damage is skipped.
    """
    choice = dialect or DialectChoice()
    stream = locate_stream(path, choice.stream_files)
    with closing(ScannedRun(stream, choice, wanted=wanted)) as file:
        file.read_whole()
        return curves_of(file), file.scan.summary


def smoothed(stretch: Stretch, weight: float) -> array[float]:
    """Return the values of *stretch* as an exponential moving average; *weight*, from 0 to 1, is that of one step."""
    values = stretch.mean if stretch.level > 1 else stretch.last
    if weight == 0:
        return values
    kept = weight**stretch.level
    average, total = 0.0, 0.0
    found = array("d")
    for value in values:
        if isfinite(value):
            average = kept * average + (1 - kept) * value
            total = kept * total + (1 - kept)
        found.append(average / total if isfinite(value) else value)
    return found


def mean_curve(curves: Sequence[DrawnCurve], members: int, band: Band = "sd", weight: float = 0.0) -> DrawnCurve:
    """Return the mean of *curves*, which have points, at each place of one of them, and its *band*.

    It is that of a group of runs, *members* in number, of which the others have no such curve. With the *weight* of a
    moving average, each curve is ``smoothed`` first: so the mean lies within them.
    """
    found = [each.latest for each in curves if each.latest is not None]
    grid = sorted({place for each in found for place in each.place})
    at = dict(zip(grid, count()))
    missing = array("d", bytes(8 * len(grid)))
    rows: list[list[list[float]]] = [[], [], []]
    for curve, each in zip(curves, found, strict=True):
        order = sorted(range(len(each.place)), key=each.place.__getitem__)
        places = [each.place[index] for index in order]
        begin = places[0] if curve.first is None else curve.first
        for row, values in zip(rows, (smoothed(each, weight), each.low, each.high), strict=True):
            row.append(resampled(places, [values[index] for index in order], grid, begin))
        for spot, number in zip(each.place, each.not_finite, strict=True):
            missing[at[spot]] += number
    mean = mean_of(rows[0], band, (rows[1], rows[2]))
    place, low, high, middle = (array("d", each) for each in (grid, mean.low, mean.high, mean.mean))
    gaps = [gap for each in curves for gap in each.gaps]
    resumes = [resume for each in curves for resume in each.resumes]
    stretch = Stretch(place, low, high, middle, middle, missing, max(each.level for each in found))
    return DrawnCurve(stretch, [], gaps, resumes, grid[0], members, incomplete(mean.number, members))


class Cell(NamedTuple):
    """One character of a chart."""

    text: str
    curve: int | None
    """Index of the curve that it belongs to; None for what is not a curve."""
    mark: Literal["", "not-finite", "gap", "resume", "abandoned"] = ""


class Frame(NamedTuple):
    """What a chart shows of its axes."""

    low: float
    high: float
    first: float
    last: float
    scale: Scale

    def height(self, value: float, dots: int) -> int:
        """Return the row of dots of *value*, from the bottom."""
        low, high, value = (log10(each) if self.scale == "log" else each for each in (self.low, self.high, value))
        # Halves keep the span of the largest numbers finite.
        span = high / 2 - low / 2
        return round((value / 2 - low / 2) / span * (dots - 1)) if span > 0 else (dots - 1) // 2

    def column(self, place: float, dots: int) -> int:
        """Return the column of dots of *place*."""
        span = self.last - self.first
        return min(max(int((place - self.first) / span * (dots - 1) + 0.5), 0), dots - 1) if span > 0 else 0

    def shows(self, value: float) -> bool:
        """Return whether *value* has a place on the scale."""
        return isfinite(value) and (self.scale == "linear" or value > 0)


NO_PLACE: dict[Scale, str] = {
    "linear": "no point has a place",
    "log": "no point has a place: a log scale shows values above 0",
}
"""What is said in place of a chart that has nothing to show."""


def frame_of(curves: Sequence[DrawnCurve], scale: Scale) -> Frame | None:
    """Return the frame that shows all of *curves*; None if there is nothing to show."""
    stretches = [each for curve in curves for each in (curve.latest, *curve.abandoned) if each is not None]
    shows = Frame(1.0, 1.0, 0.0, 0.0, scale).shows
    values = [
        value for each in stretches for column in (each.low, each.high, each.last) for value in column if shows(value)
    ]
    places = [place for each in stretches if each.place for place in (min(each.place), max(each.place))]
    places += [curve.first for curve in curves if curve.first is not None and places]
    if not places or (scale == "log" and not values):
        return None
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    return Frame(low, high, min(places), max(places), scale)


class _Canvas:
    """Dots, each cell of them owned by the curve that was drawn last."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._bits = [[0] * columns for _ in range(rows)]
        self._owners: list[list[tuple[int, bool] | None]] = [[None] * columns for _ in range(rows)]
        self._marks: dict[tuple[int, int], Cell] = {}

    def dots(self, column: int, low: int, high: int, owner: tuple[int, bool]) -> None:
        """Set the dots from *low* to *high*, counted from the bottom, in a column of dots."""
        for height in range(max(low, 0), min(high, 4 * self.rows - 1) + 1):
            row = self.rows - 1 - height // 4
            self._bits[row][column // 2] |= _DOTS[3 - height % 4][column % 2]
            self._owners[row][column // 2] = owner

    def mark(self, column: int, rows: range, cell: Cell) -> None:
        """Put *cell* where there are no dots."""
        for row in rows:
            self._marks.setdefault((row, column // 2), cell)

    def cells(self) -> Iterator[list[Cell]]:
        """Yield each row."""
        for row, bits in enumerate(self._bits):
            yield [self._cell(row, column, each) for column, each in enumerate(bits)]

    def _cell(self, row: int, column: int, bits: int) -> Cell:
        mark = self._marks.get((row, column))
        owner = self._owners[row][column]
        # A mark is never hidden: it covers the curve at the top, or at the bottom.
        if mark is not None and (owner is None or row == 0 or mark.mark == "not-finite"):
            return mark
        if owner is None:
            return Cell(" ", None)
        curve, is_abandoned = owner
        return Cell(chr(_BLANK + bits), curve, "abandoned" if is_abandoned else "")


def drawn(curves: Sequence[DrawnCurve], frame: Frame, size: tuple[int, int]) -> list[list[Cell]]:
    """Return *curves* as rows of cells, *size* columns and rows of them; later curves are drawn over earlier ones."""
    columns, rows = size
    canvas = _Canvas(columns, rows)
    for index, curve in enumerate(curves):
        for stretch in curve.abandoned:
            _draw(canvas, stretch, frame, (index, True))
        if curve.latest is not None:
            _draw(canvas, curve.latest, frame, (index, False))
            _mark_not_finite(canvas, curve.latest, frame, index)
        for marked, mark, sign in ((curve.gaps, "gap", "¦"), (curve.resumes, "resume", "┊")):
            cell = Cell(sign, index, mark)  # type: ignore[arg-type]
            for place in marked:
                if frame.first <= place <= frame.last:
                    canvas.mark(frame.column(place, 2 * columns), range(rows), cell)
    return list(canvas.cells())


def _draw(canvas: _Canvas, stretch: Stretch, frame: Frame, owner: tuple[int, bool]) -> None:
    wide, high = 2 * canvas.columns, 4 * canvas.rows
    before: tuple[int, int] | None = None
    for place, low, top, last in zip(stretch.place, stretch.low, stretch.high, stretch.last, strict=True):
        if not frame.shows(top):
            before = None
            continue
        column = frame.column(place, wide)
        ends = [frame.height(value if frame.shows(value) else frame.low, high) for value in (low, top, last)]
        if before is not None:
            _connect(canvas, before, (column, ends[2]), owner)
        canvas.dots(column, ends[0], ends[1], owner)
        before = column, ends[2]


def _connect(canvas: _Canvas, begin: tuple[int, int], end: tuple[int, int], owner: tuple[int, bool]) -> None:
    """Draw a line between two dots, without a gap in any column."""
    steps = end[0] - begin[0]
    if steps <= 0:
        canvas.dots(end[0], min(begin[1], end[1]), max(begin[1], end[1]), owner) if steps == 0 else None
        return
    before = begin[1]
    for at in range(1, steps + 1):
        height = begin[1] + round((end[1] - begin[1]) * at / steps)
        step = 1 if height > before else -1 if height < before else 0
        canvas.dots(begin[0] + at, min(before + step, height), max(before + step, height), owner)
        before = height


def _mark_not_finite(canvas: _Canvas, stretch: Stretch, frame: Frame, owner: int) -> None:
    cell = Cell(NOT_FINITE, owner, "not-finite")
    for place, number in zip(stretch.place, stretch.not_finite, strict=True):
        if number:
            canvas.mark(frame.column(place, 2 * canvas.columns), range(canvas.rows - 1, canvas.rows), cell)


class Chart(NamedTuple):
    """A chart with its axes: a label before each row, and the line below."""

    labels: list[str]
    rows: list[list[Cell]]
    below: str


def chart(curves: Sequence[DrawnCurve], size: tuple[int, int], *, scale: Scale = "linear") -> Chart | None:
    """Return a chart of at most *size* columns and rows, axes included; None if no point has a place."""
    frame = frame_of(curves, scale)
    columns, rows = size[0], max(size[1] - 1, 2)
    if frame is None:
        return None
    labels = _labels(frame, rows)
    room = max(columns - width(labels[0]) - 2, _LEAST_COLUMNS)
    begin, end = (_whole(each) for each in (frame.first, frame.last))
    middle = f"step{', log y' if scale == 'log' else ''}".center(max(room - len(begin) - len(end), 0))
    below = " " * (width(labels[0]) + 2) + cut(f"{begin}{middle}{end}", room)
    return Chart(labels, drawn(curves, frame, (room, rows)), below)


def _labels(frame: Frame, rows: int) -> list[str]:
    middle = frame.low**0.5 * frame.high**0.5 if frame.scale == "log" else frame.low / 2 + frame.high / 2
    named = {0: frame.high, rows - 1: frame.low} | ({rows // 2: middle} if rows >= 5 and frame.high > frame.low else {})
    texts = [_short(named[row]) if row in named else "" for row in range(rows)]
    wide = max(map(len, texts))
    return [text.rjust(wide) for text in texts]


def _short(value: float) -> str:
    return f"{value:.4g}"


def _whole(place: float) -> str:
    return f"{place:.0f}" if float(place).is_integer() and abs(place) < _LARGE else _short(place)
