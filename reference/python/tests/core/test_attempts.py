"""Tests of the view that leaves out superseded steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_streams import stream
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.reader import read


def _step(step: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "step", "t": 0.0, "step": step, **fields}


def _resume(from_step: Any) -> dict[str, Any]:
    return {"kind": "run_resume", "t": 0.0, "from_step": from_step}


def _numbers(data: bytes) -> list[Any]:
    return [record.get("step", record.get("from_step")) for record in read(data, attempts="latest")]


def test_latest_view_touches_training_only() -> None:
    """Decoded tokens, unknown kinds and the frame of the run are of no attempt."""
    kept = [
        _step(9, phase="decode"),
        _step(9, phase="eval"),
        {"kind": "eval", "t": 0.0, "name": "request", "phase": "serve", "step": 9},
        {"kind": "future", "step": 9},
        {"kind": "run_end", "step": 9},
        {"kind": "note", "text": "no step"},
        _step(1),
        {"kind": "step", "step": "9"},
    ]
    dropped = [
        _step(9),
        {"kind": "tap", "step": 9},
        {"kind": "eval", "step": 9, "phase": "eval"},
        {"kind": "drift", "step": 9},
    ]
    records = read(stream(*kept, *dropped, _resume(1)), attempts="latest")
    assert [*kept, _resume(1)] == [record.value for record in records]


@pytest.mark.parametrize(("phase", "is_abandoned"), [(None, True), ("train", True), ("eval", True), ("decode", False)])
def test_values_of_an_unknown_kind_are_abandoned_in_phases_of_training(phase: str | None, is_abandoned: bool) -> None:
    """Views of metrics leave out what a resumption supersedes, also of kinds that a later revision may add."""
    later = {"kind": "future", "t": 1.0, "step": 9} | ({} if phase is None else {"phase": phase})
    records = list(read(stream({"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}, later, _resume(8))))
    attempts = Attempts()
    for record in records:
        attempts.learn(record)
    assert is_abandoned == attempts.are_values_abandoned(records[1])
    for from_step in (9, 10):
        attempts = Attempts.of([3], [from_step], None, 1)
        assert not attempts.are_values_abandoned(records[1])
    assert not Attempts.of([2], [8], None, 1).are_values_abandoned(records[1])


def test_latest_view_uses_the_phase_of_run_start() -> None:
    """A step without a phase of its own is of the run's phase."""
    decode, train = {"kind": "run_start", "phase": "decode"}, {"kind": "run_start"}
    assert [None, 1, 2, 1] == _numbers(stream(decode, _step(1), _step(2), _resume(1)))
    assert [None, None, 1, 2, 1] == _numbers(stream(decode, train, _step(1), _step(2), _resume(1)))


@pytest.mark.parametrize("from_step", [None, "1", 1.5, -1, True, 1 << 63])
def test_resumption_with_a_wrong_step_supersedes_nothing(from_step: Any) -> None:
    """A field that is itself wrong takes no part."""
    assert [1, 2, from_step] == _numbers(stream(_step(1), _step(2), _resume(from_step)))


@given(st.lists(st.one_of(st.integers(0, 8), st.integers(0, 8).map(lambda step: ("resume", step))), max_size=30))
def test_latest_view_is_what_a_list_would_give(plan: list[Any]) -> None:
    """In one pass over a list: a resumption removes what lies beyond its step."""
    events: list[dict[str, Any]] = []
    expected: list[dict[str, Any]] = []
    for item in plan:
        if isinstance(item, tuple):
            events.append(_resume(item[1]))
            expected = [event for event in expected if event.get("step", 0) <= item[1]]
        else:
            events.append(_step(item))
        expected.append(events[-1])
    records = read(stream(*events), attempts="latest", mode="salvage", profile="toy/v1")
    assert expected == [record.value for record in records]


def test_latest_view_is_of_the_stream_as_the_first_pass_saw_it(tmp_path: Path) -> None:
    """What is appended between the passes neither appears nor supersedes anything."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(stream(_step(1), _step(2)))
    reading = read(path, attempts="latest")
    first = next(reading)
    with path.open("ab") as file:
        file.write(stream(_resume(0), _step(1)))
    assert [1, 2] == [first["step"], *(record["step"] for record in reading)]
    assert 2 == reading.report.records
