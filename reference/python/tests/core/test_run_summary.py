"""What every run has is named once, and says what the stream says."""

from __future__ import annotations

import json
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property_examples import examples
from toyspec import list_runs
from toyspec.core.generated.runs import ALIASES, COLUMNS
from toyspec.core.reading.step_blocks import StepBlockFeed
from toyspec.core.runs.curves import thinned
from toyspec.core.runs.run_facts import cut, goal_of, loss_among, settings_of
from toyspec.core.runs.summary import RunSummary, summarize_ends, summarize_run
from toyspec.view.scans import Scan

_START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}


def _log(directory: Path, *records: dict[str, Any], name: str = "events.jsonl") -> str:
    path = directory / name
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(path)


def _summary(directory: Path, *records: dict[str, Any]) -> RunSummary:
    return summarize_run(_log(directory, _START, *records))


def _step(step: int, t: float = 1.0, **members: Any) -> dict[str, Any]:
    return {"kind": "step", "t": t, "step": step, **members}


def _scalars(step: int | None, **values: float | None) -> dict[str, Any]:
    return {"kind": "scalars", "t": 2.0, "values": values} | ({} if step is None else {"step": step})


def test_a_run_whose_steps_are_all_at_0_has_no_duration(tmp_path: Path) -> None:
    """A program without a clock is not one that trained for 0 seconds; a single step may be that quick."""
    assert _summary(tmp_path, _step(1, 0.0), _step(2, 0.0)).facts.seconds is None
    assert _summary(tmp_path, _step(1, 0.0)).facts.seconds == 0.0
    assert _summary(tmp_path, _step(1, 0.5), _step(2, 4.5)).facts.seconds == 4.5


def test_training_loss_of_a_run_with_steps_is_theirs(tmp_path: Path) -> None:
    """Other metrics with the name of a loss are the loss only of runs without steps, whatever came first."""
    steps = _summary(tmp_path, _scalars(0, total_loss=9.0), _step(1, loss=2.0), _scalars(1, total_loss=8.0))
    assert steps.loss is not None
    assert (1, 2.0) == steps.loss.last
    assert _summary(tmp_path, _step(1, lr=0.1), _scalars(1, total_loss=8.0)).loss is None
    scalars = _summary(tmp_path, _scalars(1, total_loss=8.0)).loss
    assert scalars is not None
    assert (1, 8.0) == scalars.last


@pytest.mark.parametrize("engine", ["python", ""])
@pytest.mark.parametrize("before", [0, 2000])
def test_a_step_that_is_repeated_is_not_the_last_one(
    tmp_path: Path, engine: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an end, the final loss is that of the last step for every reader, also after values beside the steps."""
    monkeypatch.setenv("TOYSPEC_ENGINE", engine)
    early = [_step(step, loss=9.0, phase="train", extra={"pad": 1.0}) for step in range(1, before)]
    late = [
        _step(before + 1, loss=3.0),
        _step(before + 2, loss=2.0),
        _step(before + 3),
        _step(7, loss=8.0, phase="eval"),
    ]
    repeated = [_scalars(before + 1, loss=5.0), _scalars(before + 2, loss=None)]
    path = _log(tmp_path, _START, *early, *late, *repeated)
    summary = summarize_run(path)
    assert summary.loss is not None
    assert ((before + 2, None), 2.0) == (summary.loss.last, summary.facts.final_loss)
    assert [2.0] == [run.facts.final_loss for run in list_runs(tmp_path)]
    assert 2.0 == summarize_ends(path, checked_bytes=0).facts.final_loss
    scan = Scan(path)
    scan.take(StepBlockFeed().feed(Path(path).read_bytes()))
    scan.summary.describe("toy/v1", "torn", None, 0)
    assert 2.0 == scan.summary.facts.final_loss


def test_goal_that_a_log_states_is_the_goal(tmp_path: Path) -> None:
    """Smaller is better by ``min`` alone; ``none`` is not a goal, and a name may end in ``*``."""
    goals = {"a": "min", "b": "max", "loss": "none", "val/*": "max", "val/l*": "min"}
    defined = [{"kind": "define", "t": 0.0, "name": name, "goal": goal} for name, goal in goals.items()]
    run = _summary(tmp_path, *defined, _step(1, loss=1.0))
    names = ("a", "b", "loss", "val/acc", "val/lr", "value", "unknown")
    assert [True, False, None, False, True, None, None] == [run.smaller_is_better(name) for name in names]
    assert "max" == goal_of("val/acc", goals)


def test_names_of_losses() -> None:
    """The training loss is the first name of the list that is there."""
    assert "loss" == loss_among(["acc", "total_loss", "loss"])
    assert loss_among(["acc"]) is None


def test_aliases_are_of_columns() -> None:
    """Another name is that of a column, and is not a column itself."""
    assert set(ALIASES.values()) <= COLUMNS.keys()
    assert not ALIASES.keys() & COLUMNS.keys()


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)


@given(st.lists(values, max_size=4))
def test_lists_of_settings_are_shown_whole(given_list: list[Any]) -> None:
    """The text of a list is JSON that gives the list back, numbers by their value; null is what is not finite."""
    shown = settings_of({"config": {"a": given_list}})["a"]
    expected = json.loads(json.dumps(given_list), parse_constant=lambda _: None, parse_int=float)
    assert expected == json.loads(shown, parse_int=float)


def test_long_texts_that_differ_at_their_end_stay_different() -> None:
    """What is left out of a text is in its digest."""
    one, other = cut("x" * 5000 + "a"), cut("x" * 5000 + "b")
    assert one != other
    assert max(map(len, (one, other))) < 4200


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e-7, "1e-7"),
        (1e-5, "0.00001"),
        (1.5e16, "15000000000000000"),
        (1e21, "1e+21"),
        (12, "12"),
    ],
)
def test_numbers_in_lists_are_written_as_javascript_does(number: float, text: str) -> None:
    """The viewer's reader of folders shows the same setting."""
    assert f"[{text}]" == settings_of({"config": {"a": [number]}})["a"]


VALUES = st.sampled_from([0.5, 1.0, 1.5, 2.0, -4.0, inf, -inf, nan])


@given(st.lists(VALUES, max_size=30), st.integers(2, 9))
@settings(max_examples=examples(300))
def test_thinned_values_keep_the_lowest_and_the_highest_of_each_part(values: list[float], most: int) -> None:
    """Parts are equal to within one value, and no spike of any of them is lost."""
    points = list(enumerate(values))
    kept = thinned(points, most)
    if len(points) <= most:
        assert points == kept
        return
    assert sorted(set(points) & set(kept)) == kept
    parts = most // 2
    for part in range(parts):
        within = range(len(points) * part // parts, len(points) * (part + 1) // parts)
        finite = [values[at] for at in within if isfinite(values[at])]
        shown = [value for at, value in kept if at in within]
        assert sorted(shown) == sorted({min(finite), max(finite)}) if finite else 1 == len(shown)
