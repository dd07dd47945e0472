"""Which points a mirror sends: a pure function of the records, which keeps what a curve must not lose."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.convert.mirrors.mirroring import _passes
from toyspec.convert.mirrors.selection import MOST_NAMES, Selection
from toyspec.convert.mirrors.settings import Mirror, Selecting
from toyspec.convert.mirrors.state import MirrorProgress
from toyspec.convert.run_items import Bins, ItemRow
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.records import Record, RecordFeed

START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}
LOSSES = st.lists(st.one_of(st.none(), st.floats(-100, 100)), min_size=1, max_size=300)


def records(*events: dict[str, Any]) -> list[Record]:
    """Return the records of a run with *events*."""
    data = "".join(json.dumps(event) + "\n" for event in [START, *events]).encode()
    return RecordFeed().feed(data)


def steps(losses: list[float | None], seconds: float = 1.0) -> list[dict[str, Any]]:
    """Return a step for each of *losses*, *seconds* apart."""
    return [{"kind": "step", "t": at * seconds, "step": at, "loss": loss} for at, loss in enumerate(losses)]


def selected(found: list[Record], select: Selecting, **options: Any) -> list[ItemRow]:
    """Return the rows of a whole run."""
    selection = Selection(select, **options)
    selection.start({})
    return all_rows(selection, found)


def all_rows(selection: Selection, found: list[Record]) -> list[ItemRow]:
    """Return the rows of *selection* for a run that ends after *found*."""
    # The first record is put whenever a run is opened, and is not among them.
    rows = [row for record in found[1:] for row in selection.take(record, Attempts())]
    return rows + selection.finish()


def named(row: ItemRow) -> dict[str, Any]:
    """Return the values of *row* by name."""
    return {item.name: item.value for item in row.items}


def values(rows: list[ItemRow], name: str = "loss") -> list[Any]:
    """Return the values of one metric."""
    return [item.value for row in rows for item in row.items if item.name == name]


def test_all_is_sent_without_a_budget() -> None:
    """Every number of every record is sent, with its step, by the names of an export; null stays null."""
    found = records(
        {"kind": "step", "t": 1.0, "step": 1, "loss": 2.5, "extra": {"mfu": 0.5}},
        {"kind": "eval", "t": 2.0, "step": 1, "phase": "eval", "name": "held-out", "loss": None},
        {"kind": "scalars", "t": 3.0, "step": 2, "values": {"val/acc": 0.75}},
        {"kind": "note", "t": 4.0, "text": "no number"},
    )
    rows = selected(found, Selecting())
    shown = [{"loss": 2.5, "mfu": 0.5}, {"held-out/loss": None}, {"val/acc": 0.75}, {"note": found[4].value}]
    assert shown == [named(row) for row in rows]
    assert [(2, 1, 1.0), (3, 1, 2.0), (4, 2, 3.0), (5, None, 4.0)] == [(row.line, row.step, row.t) for row in rows]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["loss"], [{"loss": 1.0}]),
        (["val/*"], [{"val/acc": 0.5}]),
        (["l*", "lr"], [{"loss": 1.0, "lr": 0.1}]),
        (["x"], []),
    ],
)
def test_only_metrics_of_the_allow_list_are_sent(patterns: list[str], expected: list[dict[str, float]]) -> None:
    """A pattern names metrics as a shell names files."""
    found = records({"kind": "scalars", "t": 1.0, "values": {"loss": 1.0, "lr": 0.1, "val/acc": 0.5}})
    assert expected == [named(row) for row in selected(found, Selecting(metrics=patterns))]


def test_steps_are_thinned_by_their_number() -> None:
    """Multiples of N are sent, and everything that is not a step."""
    found = records(*steps([1.0] * 10), {"kind": "eval", "t": 10.0, "step": 9, "name": "val", "loss": 1.0})
    rows = selected(found, Selecting(every=4))
    assert [0, 4, 8, 9] == [row.step for row in rows]
    assert [9] == [row.step for row in selected(found, Selecting(every=0))]


def test_names_can_be_grouped() -> None:
    """A prefix takes the place of nothing, and of the name of an evaluation."""
    found = records(
        {"kind": "step", "t": 1.0, "step": 1, "loss": 2.5},
        {"kind": "eval", "t": 2.0, "step": 1, "phase": "eval", "name": "validation", "loss": 2.0},
        {"kind": "scalars", "t": 3.0, "values": {"own": 1.0}},
    )
    rows = selected(found, Selecting(prefixes={"step": "train/", "eval": "val/"}))
    assert [{"train/loss": 2.5}, {"val/loss": 2.0}, {"own": 1.0}] == [named(row) for row in rows]


@given(LOSSES, st.integers(1, 120), st.sampled_from([0.01, 1.0, 30.0]))
def test_budget_keeps_what_a_curve_must_not_lose(losses: list[float | None], rate: int, seconds: float) -> None:
    """First, last, smallest, largest and null values are sent, in order, and never more than the budget allows."""
    found = records(*steps(losses, seconds))
    sent = values(selected(found, Selecting(points_per_minute=rate)))
    assert (losses[0], losses[-1]) == (sent[0], sent[-1])
    numbers = [loss for loss in losses if loss is not None]
    assert not numbers or (min(numbers), max(numbers)) == (
        min(loss for loss in sent if loss is not None),
        max(loss for loss in sent if loss is not None),
    )
    assert (None in losses) == (None in sent)
    minutes = len(losses) * seconds / 60
    # A window is at least as long as six points need; the last one is not over yet.
    assert len(sent) <= rate * (minutes + max(10 / 60, 6 / rate)) + 6


def test_window_is_sent_once_it_is_over() -> None:
    """What a mirror shows is at most a window behind the run: nothing waits for the end of the run."""
    selection = Selection(Selecting(points_per_minute=6))
    selection.start({})
    sent = [selection.take(record, Attempts()) for record in records(*steps([float(at) for at in range(150)]))[1:]]
    lags = [at - (row.step or 0) for at, rows in enumerate(sent, 1) for row in rows]
    assert [61, 2, 61, 2] == lags


def test_spike_of_one_step_survives_a_small_budget() -> None:
    """One high value and one null among 10,000 are sent with a hundredth of the points."""
    losses: list[float | None] = [math.sin(at / 100) for at in range(10_000)]
    losses[4_321], losses[7_777] = 50.0, None
    sent = values(selected(records(*steps(losses, 0.1)), Selecting(points_per_minute=6)))
    assert 50.0 in sent
    assert None in sent
    assert len(sent) <= 106


@given(LOSSES, st.integers(1, 40))
def test_budget_of_the_whole_run_is_a_hard_limit(losses: list[float | None], points: int) -> None:
    """No more points are sent, and the last value is among them."""
    selection = Selection(Selecting(points=points))
    rows = all_rows(selection, records(*steps(losses)))
    sent = values(rows)
    assert len(sent) == min(points, len(losses))
    assert losses[-1] == sent[-1]
    assert selection.is_spent == (len(losses) >= points)


def test_bytes_are_a_hard_limit_too() -> None:
    """Settings and rows together never exceed the megabytes, and nothing is sent where the settings alone do."""
    selection = Selection(Selecting(megabytes=0.001))
    assert selection.start({"lr": 0.1})
    found = records(*steps([1.0 / 3.0] * 1000))
    rows = all_rows(selection, found)
    size = len('{"lr":0.1}') + sum(len(json.dumps(named(row), separators=(",", ":"))) for row in rows)
    assert 950 < size <= 1000
    assert not Selection(Selecting(megabytes=0.0001)).start({"text": "x" * 200})


@given(LOSSES, st.integers(1, 60), st.data())
def test_rows_do_not_depend_on_when_they_are_read(losses: list[float | None], rate: int, data: st.DataObject) -> None:
    """With the cuts of a first reading, a second one that begins again gives the same rows."""
    found, select = records(*steps(losses)), Selecting(points_per_minute=rate, points=50)
    cuts = sorted(data.draw(st.sets(st.integers(2, len(losses) + 1), max_size=4)))
    live = Selection(select)
    first = []
    for record in found[1:]:
        first += live.take(record, Attempts())
        if record.line in cuts:
            first += live.cut()
    assert first + live.finish() == selected(found, select, cuts=cuts)


def test_what_was_sent_is_left_out() -> None:
    """A second choice sends the points that the first one left out, and no other."""
    from array import array

    from toyspec.convert.mirrors.selection import item_id

    found = records(*steps([float(at) for at in range(200)], 0.1))
    first = selected(found, Selecting(points_per_minute=6))
    sent = array("Q", sorted(item_id(row.line, place) for row in first for place in row.indexes))
    second = selected(found, Selecting(), sent=sent)
    assert sorted(values(first) + values(second)) == [float(at) for at in range(200)]


def test_resumption_and_meaning_are_rows_between_points() -> None:
    """What came before a resumption is sent before it, whatever its window."""
    found = records(
        *steps([1.0, 2.0]),
        {"kind": "run_resume", "t": 3.0, "from_step": 0},
        {"kind": "step", "t": 4.0, "step": 1, "loss": 3.0},
        {"kind": "define", "t": 5.0, "name": "loss", "goal": "min"},
    )
    rows = selected(found, Selecting(points_per_minute=60))
    assert ["measure", "measure", "resume", "measure", "definition"] == [row.items[0].kind for row in rows]
    assert "min" == rows[-1].items[0].value["goal"]


def test_gradients_are_histograms() -> None:
    """A grad event is one value with counts and borders; one without finite elements is a record."""
    grad = {"kind": "grad", "t": 1.0, "step": 1, "param": "w", "min": -1.0, "max": 1.0, "histogram": [1, 2]}
    rows = selected(records(grad, {**grad, "min": None}), Selecting())
    assert [{"gradients/w": Bins([-1.0, 0.0, 1.0], [1, 2])}, {"grad": {**grad, "min": None}}] == [
        named(row) for row in rows
    ]


def test_marks_are_sent_whatever_the_patterns_and_alerts_are_counted() -> None:
    """A text, a picture and a histogram have names as numbers do; all else is sent whatever is chosen."""
    alert = {"kind": "alert", "t": 1.0, "rule": "r", "level": "error", "text": "x"}
    found = records(
        {"kind": "scalars", "t": 1.0, "values": {"loss": 1.0}, "texts": {"said": "a", "other": "b"}},
        {"kind": "media", "t": 1.0, "name": "other", "media_type": "image/png", "sha256": "0" * 64},
        alert, {**alert, "level": "info"}, alert,
        {"kind": "run_end", "t": 2.0, "reason": "completed"},
    )  # fmt: skip
    rows = selected(found, Selecting(metrics=["said"]))
    assert ["said", "alert", "alert", "alert", "reason"] == [item.name for row in rows for item in row.items]
    assert [0, 1, 1, 2, 0] == [row.alerts for row in rows]


def test_names_without_end_take_bounded_memory() -> None:
    """Metrics beyond the ten thousandth name are not sent."""
    found = records(*({"kind": "scalars", "t": 1.0, "values": {f"m{at}": 1.0}} for at in range(MOST_NAMES + 5)))
    assert MOST_NAMES == len(selected(found, Selecting()))


def test_time_that_stands_still_takes_bounded_memory() -> None:
    """A million points at one time are thinned while they come."""
    selection = Selection(Selecting(points_per_minute=60))
    found = records(*steps([float(at % 97) for at in range(5_000)], 0.0))
    for record in found[1:]:
        selection.take(record, Attempts())
    assert selection._window is not None
    assert max(map(len, selection._window._points.values())) <= 4 * 10 + 1


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"every": -1}, "every is -1"),
        ({"points": 0}, "points is 0"),
        ({"points_per_minute": 1.5}, "points_per_minute is 1.5"),
        ({"megabytes": -1.0}, "megabytes is -1.0"),
        ({"metrics": "loss"}, "it must be a list of patterns"),
        ({"prefixes": {"note": "x"}}, "prefixes has 'note'"),
    ],
)
def test_choices_that_cannot_be_are_refused(options: dict[str, Any], fact: str) -> None:
    """The message says what was given and what may be."""
    with pytest.raises(ValueError, match=fact):
        Selecting(**options)


def test_unknown_service_is_refused() -> None:
    """The message lists those that there are."""
    with pytest.raises(
        ValueError, match="to is 'comet'; it must be one of 'wandb', 'mlflow', 'trackio', 'tensorboard'"
    ):
        Mirror(to="comet")  # type: ignore[arg-type]


def test_other_choice_begins_a_pass_of_its_own() -> None:
    """The rows of each pass are counted; the same choice, or none, goes on with the last one."""
    first, second, third = Selecting(), Selecting(every=2), Selecting(every=3)
    progress = MirrorProgress(run="r", to="wandb", rows=0)
    assert [first] == [each.select for each in _passes(progress, None)]
    progress.rows, progress.ended = 10, True
    assert [10, None] == [each.rows for each in _passes(progress, second)]
    assert not progress.ended
    progress.rows, progress.ended = 14, True
    assert [10, None] == [each.rows for each in _passes(progress, None)]
    assert [10, None] == [each.rows for each in _passes(progress, second)]
    assert progress.ended
    assert [10, 4, None] == [each.rows for each in _passes(progress, third)]
    progress.rows = 19
    assert [10, 4, 5, None] == [each.rows for each in _passes(progress, first)]
    assert [first, second, third, first] == [each.select for each in progress.passes]
