"""Tokens as an axis."""

from __future__ import annotations

from itertools import accumulate
from math import nan
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.view import curve_frames
from toyspec.view.charts import drawn_curve, read_curves
from toyspec.view.curve_frames import token_totals
from toyspec.view.curve_store import CurveStore
from toyspec.view.live_runs import LiveRuns
from toyspec.view.pyramids import Pyramid
from toyspec.view.requests import Answers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toyspec.view.pyramids import Buckets


def _stream(path: Path, counts: list[int]) -> str:
    lines = ['{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}']
    for step, count in enumerate(counts, 1):
        lines.append(f'{{"kind":"step","t":{step}.0,"step":{step},"loss":1.0,"tokens":{count}}}')
    path.write_text("\n".join([*lines, ""]))
    return str(path)


@pytest.mark.parametrize(
    ("counts", "places"),
    [
        ([512, 512, 512], [512, 1024, 1536]),
        ([512, 768, 640], [512, 1280, 1920]),
        ([0, 0, 5], [0, 0, 5]),
        ([512, 1024, 1536], [512, 1024, 1536]),
    ],
)
def test_place_is_the_number_of_tokens_so_far(tmp_path: Path, counts: list[int], places: list[int]) -> None:
    """A count of each step is added up; one that rises at every step is the number so far, as other tools log it."""
    curves, _ = read_curves(_stream(tmp_path / "events.jsonl", counts))
    latest = drawn_curve(curves, "loss", "tokens").latest
    assert latest is not None
    assert places == list(latest.place)


@given(st.lists(st.integers(3, 5), min_size=9, max_size=200))
def test_place_of_a_bucket_is_the_sum_up_to_its_last_point(counts: list[int]) -> None:
    """However many points a bucket has."""
    totals = token_totals(_buckets(counts))
    sums = list(accumulate(counts))
    places = zip(totals.columns["step"], totals.columns["last"], strict=True)
    assert all(place == pytest.approx(sums[int(step) - 1]) for step, place in places)


def test_value_that_is_not_finite_adds_nothing() -> None:
    """It is a point of the curve all the same."""
    assert [5, 5, 10] == list(token_totals(_buckets([5, None, 5])).columns["last"])


def test_request_adds_tokens_up_once_for_a_run_and_only_for_their_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With five metrics of each run, most of the time of a first view went into sums that no axis showed."""
    _stream(tmp_path / "events.jsonl", [512, 512])
    summing = Mock(side_effect=token_totals)
    monkeypatch.setattr(curve_frames, "token_totals", summing)
    catalog = LiveRuns(str(tmp_path), store=CurveStore(str(tmp_path / "cache")))
    catalog.start()
    answers = Answers(catalog)
    try:
        query = {"run": ["."], "metric": ["loss", "tokens"]}
        assert b"".join(answers.curves({**query, "x": ["step"]}))
        assert summing.call_count == 0
        assert b"".join(answers.curves({**query, "x": ["tokens"]}))
        assert summing.call_count == 1
    finally:
        catalog.close()


def _buckets(counts: Sequence[int | None]) -> Buckets:
    pyramid = Pyramid(8)
    for step, count in enumerate(counts, 1):
        pyramid.add((step, step, nan), nan if count is None else count, (0, 0))
    return pyramid.buckets()
