"""What every run has is named once, and says what the stream says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.generated.runs import ALIASES, COLUMNS
from toyspec.core.runs.run import open_run
from toyspec.core.runs.run_facts import cut, settings_of
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from pathlib import Path

    from toyspec.core.runs.summary import RunSummary

START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "run"}
STEP = {"kind": "step", "t": 2.5, "step": 3, "loss": 1.5}


def run_of(folder: Path, *lines: dict[str, Any], name: str = "events.jsonl") -> RunSummary:
    """Return the summary of a run of *lines* below *folder*."""
    (folder / name).write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return summarize_run(str(folder / name))


def test_each_column_has_its_value(tmp_path: Path) -> None:
    """Every column of the schema is there, with what the records say."""
    start = {**START, "name": "a", "group": "g", "tags": ["x", 1], "started_at": "2026-11-22T10:30:00Z"}
    end = {"kind": "run_end", "t": 4.0, "reason": "errored", "error": "out of memory", "final_loss": 1.25}
    run = run_of(tmp_path, {**start, "config": {"max_steps": 6}}, STEP, end)
    expected = {
        "run": tmp_path.name, "path": str(tmp_path), "run_id": "run", "name": "a", "group": "g", "tags": ["x"],
            "notes": None, "starred": False, "hidden": False,
        "profile": "toy/v1", "state": "complete", "ended": "yes", "reason": "errored", "error": "out of memory",
        "sealed": False, "first_step": 3, "last_step": 3, "progress": 0.5, "remaining": None,
        "final_loss": 1.25, "seconds": 4.0,
        "started_at": "2026-11-22T10:30:00Z", "records": 3, "bytes": run.extent.size,
    }  # fmt: skip
    assert expected == run.facts.columns
    assert list(COLUMNS) == list(expected)
    assert expected == {name: open_run(tmp_path).row()[name] for name in COLUMNS}


def test_aliases_are_of_columns() -> None:
    """Another name is that of a column, and is not a column itself."""
    assert set(ALIASES.values()) <= COLUMNS.keys()
    assert not ALIASES.keys() & COLUMNS.keys()


@pytest.mark.parametrize(
    ("lines", "ended"),
    [
        ([START, STEP], "no"),
        ([START, STEP, {"kind": "run_end", "t": 4.0, "reason": "completed"}], "yes"),
        ([{"step": 1, "wall_time_ms": 1.0, "loss": 1.0}], "unknown"),
        ([{"type": "scalar", "step": 1, "tag": "a", "value": 1.0}], "unknown"),
    ],
)
def test_a_run_says_whether_it_ended(tmp_path: Path, lines: list[dict[str, Any]], ended: str) -> None:
    """A run of a format with an end has ended or not; of others it is not known."""
    assert ended == run_of(tmp_path, *lines).facts.ended


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
