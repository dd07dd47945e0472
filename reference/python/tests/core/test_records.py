"""What a record says in terms of any log: compared with an independent reading of its bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from run_streams import stream
from toyspec import read
from toyspec.core.format.canonical import encode_record
from toyspec.core.runs.summary import MOST_NAMES, summarize_run
from toyspec.health.checking import recorded_alert

if TYPE_CHECKING:
    from pathlib import Path

    from toyspec.core.reading.records import Record

START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "run"}
KAUN = {"type": "scalar", "step": 0, "tag": "loss", "value": 1.0}
ENTRY = {"step": 0, "wall_time_ms": 0.0, "loss": 1.0, "grad_norm": 1.0, "throughput_samples_per_sec": 1.0}


def records_of(*lines: dict[str, Any]) -> list[Record]:
    """Return the records of a stream of *lines*."""
    with read(stream(*lines), mode="salvage") as reading:
        return list(reading)


def record(line: dict[str, Any], first: dict[str, Any] = START) -> Record:
    """Return the record of *line*, after the *first* of a stream; without a time of its own, a second later."""
    return records_of(first, {"t": 1.0, **line} if first is START else line)[1]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ({"kind": "step", "step": 1, "loss": 2.5, "layer": 3, "extra": {"acc": 1}}, {"loss": 2.5, "acc": 1}),
        ({"kind": "step", "step": 1, "loss": 2, "extra": {"loss": 3}}, {"loss": 2, "extra/loss": 3}),
        ({"kind": "step", "step": 1, "loss": None, "extra": {"s": "x", "b": True}}, {"loss": None, "b": 1.0}),
        ({"kind": "step", "step": 1, "own": {"a": [1, False]}}, {"own/a/0": 1, "own/a/1": 0.0}),
        ({"kind": "scalars", "values": {"a": 1, "b": None, "c": "x"}}, {"a": 1, "b": None}),
        ({"kind": "scalars", "values": 7}, {}),
        ({"kind": "eval", "name": "val", "loss": 2, "extra": {"f1": 0.5}}, {"val/loss": 2, "val/f1": 0.5}),
        ({"kind": "eval", "name": "v", "extra": {"a": {"b": {"c": True}, "d": [1, None]}, "e": [1, "x"]}},
         {"v/a/b/c": 1.0, "v/a/d/0": 1, "v/a/d/1": None}),
        ({"kind": "eval", "name": "v", "loss": 1, "extra": {"a": [2], "a/0": 3, "loss": 4}},
         {"v/loss": 1, "v/a/0": 3, "v/extra/loss": 4, "v/extra/a/0": 2}),
        ({"kind": "eval", "name": "v", "extra": {"many": [1] * 257, "nested": [[1]]}}, {}),
        ({"kind": "eval", "loss": 2}, {}),
        ({"kind": "system", "memory_used_bytes": 9, "extra": {"gpu": 1}},
         {"system/memory_used_bytes": 9, "system/gpu": 1}),
        ({"kind": "grad", "step": 1, "param": "wte", "head": 2, "l2": None}, {"grad/wte/head2/l2": None}),
        ({"kind": "tap", "step": 1, "region": "attn", "layer": 0, "l2": 1, "per_head_l2": [3, None, "x"]},
         {"tap/attn/layer0/l2": 1, "tap/attn/layer0/per_head_l2/0": 3, "tap/attn/layer0/per_head_l2/1": None}),
        ({"kind": "drift", "step": 1, "param": "tok", "token_id": 17, "cos_to_init": 1},
         {"drift/tok/token_id17/cos_to_init": 1}),
        ({"kind": "align", "step": 1, "li": 0, "wi": 2, "cos": 0.5}, {"align/li0/wi2/cos": 0.5}),
        ({"kind": "align", "step": 1, "w": "q", "cos": 0.5}, {"align/q/cos": 0.5}),
        ({"kind": "align", "step": 1, "cos": 0.5}, {"align/cos": 0.5}),
        ({"kind": "compare", "step": 1, "ppl_ratio": 1.5}, {"compare/ppl_ratio": 1.5}),
        ({"kind": "rollout", "step": 1, "reward": 2, "none": None, "a": {"b": 3}, "list": [1]},
         {"rollout/reward": 2, "rollout/a/b": 3, "rollout/list/0": 1}),
        ({"kind": "rollout", "step": 1, "won": True, "none": None, "nonfinite": {"none": "x"}},
         {"rollout/won": 1.0}),
        ({"kind": "note", "text": "", "number": 3}, {}),
        ({"loss": 3}, {}),
    ],
)  # fmt: skip
def test_events_have_their_numbers_as_values(line: dict[str, Any], values: dict[str, Any]) -> None:
    """The numbers of each kind are metrics under the name of what they are about, unknown kinds included."""
    assert values == record(line).values


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ({"kind": "step", "step": 1, "loss": None, "nonfinite": {"loss": "inf"}}, "loss", math.inf),
        ({"kind": "step", "step": 1, "extra": {"a": None}, "nonfinite": {"extra/a": "-inf"}}, "a", -math.inf),
        ({"kind": "scalars", "values": {"extra/a": None}, "nonfinite": {"extra/a": "inf"}}, "extra/a", math.inf),
        ({"kind": "eval", "name": "v", "loss": None, "nonfinite": {"loss": "-inf"}}, "v/loss", -math.inf),
        ({"kind": "scalars", "values": {"a": None}, "nonfinite": {"a": "nan"}}, "a", math.nan),
        ({"kind": "scalars", "values": {"a": None}, "nonfinite": {"a": "what"}}, "a", None),
        ({"kind": "scalars", "values": {"a": 1}, "nonfinite": {"a": "inf"}}, "a", 1),
        ({"kind": "scalars", "values": {"a": None}, "nonfinite": []}, "a", None),
    ],
)
def test_nulls_are_what_the_record_says_they_were(line: dict[str, Any], name: str, value: float | None) -> None:
    """``nonfinite`` tells what a null was, and changes no number."""
    assert repr(value) == repr(record(line).values[name])


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ({"kind": "scalars", "values": {}, "texts": {"stage": "warm", "n": 1}}, {"stage": "warm"}),
        ({"kind": "eval", "name": "v", "extra": {"grade": "A", "n": 1}}, {"v/grade": "A"}),
        (
            {"kind": "eval", "name": "v", "extra": {"a": [1, {"b": "é"}], "e": [], "o": {"x": {}, "s": "t"}}},
            {"v/a": '[1,{"b":"é"}]', "v/e": "[]", "v/o/x": "{}", "v/o/s": "t"},
        ),
        (
            {"kind": "eval", "name": "v", "extra": {"a": [None, "x"]}, "nonfinite": {"extra/a/0": "-inf"}},
            {"v/a": '[-Infinity,"x"]'},
        ),
        ({"kind": "rollout", "label": "x", "a": {"b": "y"}}, {"rollout/label": "x", "rollout/a/b": "y"}),
        ({"kind": "compare", "verdict": "better", "own": "x"}, {"compare/own": "x"}),
        ({"kind": "step", "step": 1, "own": "x"}, {"own": "x"}),
        ({"kind": "note", "text": "x"}, {}),
        ({"kind": "scalars", "values": {}, "texts": "x"}, {}),
    ],
)
def test_texts_are_found_by_name(line: dict[str, Any], texts: dict[str, str]) -> None:
    """Texts beside numbers have names of their own."""
    assert texts == record(line).texts


@pytest.mark.parametrize(
    ("first", "line", "place"),
    [
        (START, {"kind": "step", "t": 1.5, "step": 3, "epoch": 0.5, "phase": "eval"}, (3, 1.5, "run", 0.5, "eval")),
        (START, {"kind": "step", "t": 1.5, "step": -3, "phase": "other"}, (None, 1.5, "run", None, None)),
        (START, {"kind": "step", "t": True, "step": True, "epoch": "x"}, (None, None, None, None, None)),
        (ENTRY, {**ENTRY, "step": 7, "wall_time_ms": 2500}, (7, 2.5, "run", None, None)),
        (KAUN, {**KAUN, "step": 7.9, "wall_time": 2e9, "epoch": 2}, (7, 2e9, "unix", 2, None)),
        (KAUN, {**KAUN, "step": -1}, (None, None, None, None, None)),
    ],
)
def test_each_profile_has_its_places(first: dict[str, Any], line: dict[str, Any], place: tuple[Any, ...]) -> None:
    """Step, time in seconds with its origin, epoch and phase come from the keys of the profile, if they are valid."""
    found = record(line, first)
    assert place == (found.step, found.time, found.time_origin, found.epoch, found.phase)


def test_starts_ends_and_goals_are_named_alike() -> None:
    """What a run records about its start, its end and its goals is in the same members for every profile."""
    end = {"kind": "run_end", "t": 2.0, "reason": "completed"}
    define = {"kind": "define", "t": 1.0, "name": "acc", "goal": "max"}
    found = records_of(START, define, end)
    assert [START, None, None] == [each.start for each in found]
    assert [None, None, end] == [each.end for each in found]
    assert [{}, {"acc": "max"}, {}] == [each.goal for each in found]
    assert {"loss": "max"} == record({**KAUN, "minimize": False}, KAUN).goal
    assert {} == record({**KAUN, "minimize": 1}, KAUN).goal


@pytest.mark.parametrize(
    ("wrong", "value"), [("rule", 1), ("rule", None), ("level", "loud"), ("level", None), ("text", 7), ("text", None)]
)
def test_alert_with_one_wrong_member_is_not_one(wrong: str, value: object) -> None:
    """Rule, level and text must all be valid."""
    alert = {"kind": "alert", "t": 1.0, "rule": "loss-spike", "level": "warning", "text": "loss is 9"}
    found = recorded_alert(record(alert))
    assert found is not None
    assert "loss is 9" == found.text
    assert recorded_alert(record(alert | {wrong: value})) is None


def test_what_is_not_declared_as_a_number_is_not_named_as_one() -> None:
    """Only a number of the schema can be null in its own place, so that ``nonfinite`` says what it was."""
    event = {"kind": "step", "t": 0.0, "step": 1, "loss": math.nan, "mine": math.nan, "nonfinite": {"mine": "inf"}}
    line = b'{"kind":"step","t":0.0,"step":1,"loss":null,"nonfinite":{"loss":"nan","mine":"inf"},"mine":null}'
    assert line == encode_record(event)


def test_metrics_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much is left out and counted, each name once; the loss is kept."""
    assert MOST_NAMES > 5000
    monkeypatch.setattr("toyspec.core.runs.summary.MOST_NAMES", 2)
    lines: list[dict[str, Any]] = [START]
    lines += [
        {"kind": "scalars", "t": 1.0, "step": step, "values": {"a": 1, "b": 2, "c": 3, "d": 4, "loss": 5}}
        for step in (1, 2)
    ]
    lines += [{"kind": "define", "t": 1.0, "name": name, "goal": "min"} for name in "abc"]
    path = tmp_path / "events.jsonl"
    path.write_bytes(stream(*lines))
    summary = summarize_run(str(path))
    assert (["a", "b", "loss"], 2) == (list(summary.series), summary.metrics_left_out)
    assert (2, 2) == (len(summary.kinds), len(summary.goals))
