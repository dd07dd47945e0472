"""Charts in the terminal."""

from __future__ import annotations

from array import array
from math import isnan
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.command_line.tables import width
from toyspec.view.charts import NOT_FINITE, DrawnCurve, Stretch, chart, drawn_curve, read_curves
from view_client import END, START, step, write_run

RESUME = b'{"kind":"run_resume","t":9.0,"from_step":%d}\n'


def curve(path: Path, metric: str = "loss") -> DrawnCurve:
    """Return what is drawn of a metric of the run at *path*."""
    return drawn_curve(read_curves(str(path))[0], metric)


def text(found: DrawnCurve, size: tuple[int, int] = (40, 8)) -> list[str]:
    """Return the rows of the chart of one curve, without its axes."""
    made = chart([found], size)
    assert made is not None
    return ["".join(cell.text for cell in row) for row in made.rows]


def test_spike_of_one_step_reaches_the_top(tmp_path: Path) -> None:
    """Of ten thousand points one is high: the top row has a dot for it, and the axis has its value."""
    lines = (step(10**6 + number, 500.0 if number == 7777 else 1.0 + number / 1e5) for number in range(10_000))
    found = curve(write_run(tmp_path / "a", START, *lines, END))
    made = chart([found], (60, 10))
    assert made is not None
    assert "500" in made.labels[0]
    assert 1 == sum(cell.text != " " for cell in made.rows[0])
    # A bucket is at its last point; the axis begins at the first of all.
    assert ["1000000", "step", "1009999"] == made.below.split()


def test_values_that_are_not_finite_are_marked(tmp_path: Path) -> None:
    """A hole in the curve has crosses at the bottom, and no line across it."""
    lines = (step(number, None if 40 <= number < 60 else float(number)) for number in range(100))
    rows = text(curve(write_run(tmp_path / "a", START, *lines, END)), (54, 9))
    middle = [row[22:28] for row in rows]
    assert {NOT_FINITE * 6} == set(middle[-1:])
    assert {" " * 6} == set(middle[:-1])


def test_gap_resume_and_abandoned_attempt_are_shown(tmp_path: Path) -> None:
    """An unreadable line, a resumption and what it abandoned each have their mark."""
    lines = [*(step(number, 1.0) for number in range(50)), b"x\n", *(step(number, 5.0) for number in range(50, 80))]
    lines += [RESUME % 60, *(step(number, 2.0) for number in range(61, 100)), END]
    found = curve(write_run(tmp_path / "a", START, *lines))
    made = chart([found], (60, 10))
    assert made is not None
    assert {"", "gap", "resume", "abandoned"} == {cell.mark for row in made.rows for cell in row}
    assert ([49.0], [60.0], 1) == (found.gaps, found.resumes, len(found.abandoned))
    assert 99.0 == max(found.latest.place if found.latest else [])


def test_log_scale_leaves_out_what_has_no_place(tmp_path: Path) -> None:
    """Zero and negative values break the line; equal ratios have equal heights."""
    path = write_run(
        tmp_path / "a", START, step(1, 100.0), step(2, 0.0), step(3, -5.0), step(4, 1.0), step(5, 10.0), END
    )
    made = chart([curve(path)], (40, 6), scale="log")
    assert made is not None
    assert ["100", "1"] == [label.strip() for label in (made.labels[0], made.labels[-1])]
    assert "10" == made.labels[2].strip()
    assert "log y" in made.below


numbers = st.one_of(st.floats(allow_nan=True, allow_infinity=False), st.floats(-5, 5))


@given(
    st.lists(st.tuples(st.floats(-1e300, 1e300), numbers), max_size=20),
    st.integers(1, 60),
    st.integers(1, 12),
    st.sampled_from(["linear", "log"]),
)
def test_any_curve_has_a_chart_of_its_size(
    points: list[tuple[float, float]], columns: int, rows: int, scale: str
) -> None:
    """Whatever the values are, every row is as wide as the others and nothing is raised."""
    places, values = array("d", sorted(place for place, _ in points)), array("d", [value for _, value in points])
    nans = array("d", [float(isnan(value)) for value in values])
    found = DrawnCurve(Stretch(places, values, values, values, values, nans, 1), [], [0.5], [1.5], None)
    made = chart([found], (columns, rows), scale=scale)  # type: ignore[arg-type]
    has_place = any(value > 0 for value in values) if scale == "log" else bool(points)
    assert has_place == (made is not None)
    if made is not None:
        assert 1 == len({len(row) for row in made.rows})
        assert 1 == len({width(label) for label in made.labels})
