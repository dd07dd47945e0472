"""How the screen paints charts and the table of runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("textual", reason="the extra tui is not installed")

from textual.geometry import Size

from toyspec.core.runs.expressions import expression
from toyspec.view.charts import NO_PLACE, Cell, DrawnCurve
from toyspec.view.rows import unreadable_row
from toyspec.view.screen import COLORS, ChartPane, Drawn, RunList, _parts, end_of, listed

CELLS: Any = st.builds(
    Cell,
    st.sampled_from(["⣿", " ", "x"]),
    st.none() | st.integers(0, 2),
    st.sampled_from(["", "not-finite", "gap", "resume", "abandoned"]),
)
MARKED = {"not-finite": "bold red", "gap": "red", "resume": "dim", "abandoned": "dim"}


@given(st.lists(CELLS, max_size=20), st.lists(st.integers(0, 3 * len(COLORS)), min_size=3, max_size=3))
def test_every_cell_has_the_colour_of_its_curve_or_mark(row: list[Cell], colors: list[int]) -> None:
    """A mark counts before the curve; what is neither has no style, and neighbours of one style are one piece."""
    parts = _parts(row, colors)
    found = [(letter, style) for text, style in parts for letter in text]
    expected = []
    for cell in row:
        own = "" if cell.curve is None else COLORS[colors[cell.curve] % len(COLORS)]
        expected.append((cell.text, MARKED.get(cell.mark, own)))
    assert expected == found
    assert all(before[1] != after[1] for before, after in pairwise(parts))


def test_title_names_the_runs_in_the_colours_of_their_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The title has the metric, and each run in the colour of its curve."""
    monkeypatch.setattr(ChartPane, "size", Size(60, 10))
    pane = ChartPane()
    empty = DrawnCurve(None, [], [], [], None)
    pane.show(Drawn("loss", [empty, empty], [1, 0], ["first", "second"]))
    shown = pane.render()
    assert ["loss  first  second", NO_PLACE["linear"]] == shown.plain.splitlines()
    pieces = {shown.plain[span.start : span.end]: span.style for span in shown.spans}
    assert ("bold", COLORS[1], COLORS[0]) == (pieces["loss"], pieces["first"], pieces["second"])


def test_curves_have_different_colours() -> None:
    """As many as there are, no two are alike."""
    assert len(COLORS) == len(set(COLORS)) >= 6


@pytest.mark.parametrize(
    ("state", "reason", "text", "is_green"),
    [
        ("complete", "completed", "complete", True),
        ("complete", "errored", "errored", False),
        ("complete", "interrupted", "interrupted", False),
        ("damaged", "errored", "errored, damaged", False),
        ("damaged", "completed", "damaged", False),
        ("complete", "x" * 99, None, False),
    ],
)
def test_only_a_run_that_went_well_is_green(state: str, reason: str | None, text: str | None, is_green: bool) -> None:
    """How a run ended is said before how whole its log is; a green one is whole and went well."""
    said, style = end_of(row("first", state=state, reason=reason))
    if text is not None:
        assert text == said
    assert len(said) < 40
    assert is_green == ("green" in style)


def row(name: str, **facts: Any) -> dict[str, Any]:
    """Return a row of the table, without the facts that are not given."""
    return {**unreadable_row(name, "", 0), "state": "torn", "ended": "yes", **facts}


ROWS = [
    row("first", starred=True, state="complete", reason="completed", last_step=12000, seconds=7300.0, remaining=0.0),
    row(
        "second", state="running", ended="no", last_step=40, seconds=61.0, progress=0.259, remaining=180.0,
        metrics={"val/loss": {"last": 0.25, "best": 0.125}},
    ),
    row("third", state="complete", reason="diverged", metrics={"val/loss": {"last": None, "best": 2.0}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [
        (
            100,
            ROWS,
            [
                "  run         state   step  val/loss   best        took        left",
                "  first *  complete  12000                   2 h 01 min",
                "● second    running     40      0.25  0.125  1 min 01 s  3 min 00 s",
                "  third    diverged                       2",
            ],
        ),
        (
            44,
            ROWS,
            [
                "  run         state   step  val/loss   best",
                "  first *  complete  12000",
                "● second    running     40      0.25  0.125",
                "  third    diverged                       2",
            ],
        ),
        (
            30,
            ROWS,
            [
                "  run         state   step",
                "  first *  complete  12000",
                "● second    running     40",
                "  third    diverged",
            ],
        ),
    ],
)
def test_table_of_runs(
    columns: int, rows: list[dict[str, Any]], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the columns that have room; a run that is hidden is not in the list."""
    assert rows == listed([row("unseen", hidden=True), *rows], expression(""))
    monkeypatch.setattr(RunList, "size", Size(columns, 10))
    table = RunList()
    table.selected = {"second": 1}
    table.names = {row["id"]: row["name"] for row in rows}
    table.show(rows, "val/loss")
    shown = table.render()
    assert expected == [line.rstrip() for line in shown.plain.splitlines()]
