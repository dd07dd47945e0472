"""What is sent of a curve is what its buckets are: to the pixel of a picture of all, to the bit in a closer look."""

from __future__ import annotations

import json
from contextlib import closing
from math import inf, isnan
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toyspec.core.reading.log_detection import DialectChoice
from toyspec.view.curve_frames import Request, curve_frames
from toyspec.view.curve_store import curves_of
from toyspec.view.scans import ScannedRun
from view_client import END, START, frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_BUCKETS = 16
_NUMBERS = st.one_of(st.none(), st.floats(-1, 1), st.sampled_from([0.0, 1e-300, -1e-40, 1e38]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the stream of each example."""
    return tmp_path_factory.mktemp("curves")


@given(
    st.lists(_NUMBERS, min_size=1, max_size=100),
    st.sampled_from([0.0, 1.0, 1e6, -1e9, 1e15]),
    st.sampled_from([1.0, 1e-3, 1e-35, 1e3, 1e200]),
    st.sampled_from([1, 3]),
)
@example([0.5, 0.5, None], 0.0, 1.0, 1)
def test_column_is_what_the_buckets_are(
    folder: Path, numbers: Sequence[float | None], offset: float, scale: float, distance: int
) -> None:
    """Values stay at their height, zeros and signs are kept, places are exact, and so is a part of a curve."""
    values = [None if number is None else number * scale + offset for number in numbers]
    lines = [
        json.dumps({"kind": "step", "t": 1.0, "step": 1 + at * distance, "loss": value}).encode() + b"\n"
        for at, value in enumerate(values)
    ]
    stream = folder / "events.jsonl"
    stream.write_bytes(b"".join([START, *lines, END]))
    with closing(ScannedRun(str(stream), DialectChoice())) as file:
        file.read_whole()
        curves = curves_of(file)
    all_points = curves.latest("loss")
    assert all_points is not None
    for request, exact in ((Request(("step",), _BUCKETS), False), (Request(("step",), _BUCKETS, 0.0, inf), True)):
        [(header, columns)] = frames(b"".join(curve_frames(curves, "run", "loss", request, None)))
        buckets = all_points.fitting(_BUCKETS)
        assert (buckets.level, buckets.number) == (header["level"], header["buckets"])
        assert buckets.columns["step"] == columns["step"]
        assert [*map(int, buckets.columns["nan"])] == [*map(int, columns.get("nan", [0] * buckets.number))]
        finite = [value for value in values if value is not None]
        height = 0.0 if exact or not finite else (max(finite) / 4096 - min(finite) / 4096)
        for name in ("min", "max", "mean") if buckets.level > 1 else ("mean",):
            for sent, kept in zip(columns[name], buckets.columns[name], strict=True):
                if isnan(kept):
                    assert isnan(sent)
                    continue
                assert abs(sent - kept) <= height
                assert (sent > 0, sent < 0) == (kept > 0, kept < 0)
