from __future__ import annotations

import json
from typing import Any

import pytest

from toyspec.core.findings import Profile
from toyspec.core.format.decoding import take_integers, take_integers_of_manifest
from toyspec.core.generated.toy_v1 import Step, Tap
from toyspec.core.reading.reader import read


@pytest.mark.parametrize(
    ("text", "expected"), [("1.0", 1), ("1e3", 1000), ("1.5e1", 15), ("-0.0", 0), ("1e300", int(1e300)), ("7", 7)]
)
def test_whole_number_at_an_integer_place_is_an_int(text: str, expected: int) -> None:
    """How an integer is written makes no difference to what a reader gives."""
    value = json.loads(f'{{"kind":"step","t":1.0,"step":{text}}}')
    take_integers(value, "toy/v1", "step")
    assert (int, expected, float) == (type(value["step"]), value["step"], type(value["t"]))


@pytest.mark.parametrize(
    ("profile", "kind", "value"),
    [
        ("toy/v1", "step", {"step": 1.5, "loss": 2.0, "extra": {"a": 1.0}, "else": 3.0}),
        ("toy/v1", "run_start", {"config": {"batch": 8.0}, "model": [1.0], "step": "1.0"}),
        ("toy/v1", "future", {"step": 1.0}),
        ("metrics/v1", "entry", {"step": 1.0}),
        ("kaun/v1", "run", {"total_epochs": 1.0}),
        (None, None, {"step": 1.0}),
    ],
)
def test_other_numbers_stay_as_they_are(profile: Profile | None, kind: str | None, value: dict[str, Any]) -> None:
    """Fractions, number fields, open maps, unknown keys and kinds, and metrics/v1 have no such places."""
    before = repr(value)
    assert [] == take_integers(value, profile, kind)
    assert before == repr(value)


def test_integers_inside_objects_arrays_and_maps_are_found() -> None:
    """Every place that the schema types as integer counts."""
    value: dict[str, Any] = {"model": {"vocab": 5.0, "rope_base": 1.0}, "step": 2.0}
    assert [("step",), ("model", "vocab")] == take_integers(value, "toy/v1", "run_start")
    assert {"model": {"vocab": 5, "rope_base": 1.0}, "step": 2} == value
    tap: dict[str, Any] = {"shape": [2.0, 3, 4.5]}
    assert [("shape", 0)] == take_integers(tap, "toy/v1", "tap")
    timing: dict[str, Any] = {"buckets": {"a": 1.0, "b": 2}}
    assert [("buckets", "a")] == take_integers(timing, "toy/v1", "op_timing")
    assert [("total_epochs",)] == take_integers_of_manifest({"total_epochs": 3.0, "created_at": 1.0})


def test_reader_gives_integers_in_values_and_events() -> None:
    """A record, its typed event and the bare events agree; the line is kept unchanged."""
    lines = [
        b'{"kind":"step","t":1.0,"step":1.0,"loss":2.0,"wall_us":71200.0}',
        b'{"kind":"step","t":2.0,"step":2,"loss":1.0}',
        b'{"kind":"tap","t":2.0,"step":2e0,"region":"a","layer":null,"shape":[4.0],"dtype":"f16"}',
    ]
    data = b'{"kind":"run_start","t":0,"run_id":"a"}\n' + b"".join(line + b"\n" for line in lines)
    found = list(read(data))[1:]
    assert [(1, 71200), (2, None), (2, None)] == [(item["step"], item.get("wall_us")) for item in found]
    assert {int} == {type(item["step"]) for item in found}
    assert lines == [item.raw for item in found]
    assert Step(t=1.0, step=1, loss=2.0, wall_us=71200) == found[0].event
    found[0].drop_value()
    assert (int, 1) == (type(found[0]["step"]), found[0]["step"])
    assert Step(t=2.0, step=2, loss=1.0) == list(read(data).events())[2]
    report = read(data + lines[0]).report
    assert report.uncommitted is not None
    assert int is type(report.uncommitted["step"])
    assert Tap(t=2.0, step=2, region="a", layer=None, shape=[4], dtype="f16") == found[2].event
