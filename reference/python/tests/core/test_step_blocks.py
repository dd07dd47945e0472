"""Blocks of steps that stay in the compiled engine have what their records have."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from core.test_engine_runs import long_stream, resumed_stream, scalar_stream
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.step_blocks import StepBlock, StepBlockFeed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("compiled_engine")


def points(items: list[Any]) -> dict[str, list[tuple[str, ...]]]:
    """Return each value with its place and phase, in the order of each metric; gaps by their line."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for item in items:
        if isinstance(item, StepBlock):
            for name, (steps, values, times, epochs) in item.columns().items():
                places = zip(steps, times, epochs or [float("nan")] * len(steps), values, strict=True)
                found[name] += [(str(item.numbers.phase), *map(str, place)) for place in places]
        elif isinstance(item, Record):
            place = [item.time, item.epoch]
            for name, value in item.values.items():
                numbers = (float("nan") if each is None else float(each) for each in (*place, value))
                found[name].append((str(item.phase), str(item.step), *map(str, numbers)))
        else:
            found[""].append((str(item.line),))
    return found


@pytest.mark.parametrize("make", [pytest.param(long_stream, marks=pytest.mark.slow), resumed_stream, scalar_stream])
def test_blocks_hold_what_records_hold(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """Blocks have the same numbers at the same places, read on one thread or on several."""
    data = make(tmp_path).read_bytes() * 2
    expected = points(RecordFeed().feed(data))
    for threads in (1, 3):
        found = StepBlockFeed(threads=threads).feed(data)
        assert expected == points(found), threads
        assert_blocks_are_alike(data, found)


def assert_blocks_are_alike(data: bytes, found: list[Any]) -> None:
    """Compare what the blocks of *found* say of themselves with what they hold."""
    blocks = [item for item in found if isinstance(item, StepBlock)]
    assert len(blocks) > 1
    for block in blocks:
        columns = block.columns()
        assert data.count(b"\n", 0, block.offset) == block.line - 1
        assert sorted(block.numbers.names) == sorted(columns)
        assert {name: len(column.values) for name, column in columns.items()} == {
            name: count for name, count, *_ in block.numbers.extremes()
        }
