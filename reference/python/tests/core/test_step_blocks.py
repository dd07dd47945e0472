"""Blocks of steps that stay in the compiled engine are those that Python would get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core.test_engine_columns import long_stream, resumed_stream, scalar_stream
from toyspec.core.reading.number_blocks import NumberBlock, StepBlock, StepBlockFeed, StepFeed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("compiled_engine")


def points(items: list[Any]) -> list[tuple[Any, ...]]:
    """Return each value with its place, in the order of each metric; records and gaps by their line."""
    found: list[tuple[Any, ...]] = []
    for item in items:
        block = item.opened() if isinstance(item, StepBlock) else item
        if not isinstance(block, NumberBlock):
            found.append(("", type(block).__name__, block.line))
            continue
        for name, (steps, values) in block.columns.items():
            rows = block.places.get(name, block.rows)
            assert rows is not None
            places = zip(steps, rows.times, rows.epochs or [None] * len(steps), map(str, values), strict=True)
            found += [(name, block.phase or "", *map(str, place)) for place in places]
    return sorted(found, key=lambda each: each[0])


@pytest.mark.parametrize("make", [pytest.param(long_stream, marks=pytest.mark.slow), resumed_stream, scalar_stream])
def test_blocks_hold_what_a_step_feed_gives(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """Opened blocks have the same numbers at the same places, read on one thread or on several."""
    data = make(tmp_path).read_bytes() * 2
    expected = points(StepFeed().feed(data))
    for threads in (1, 3):
        found = StepBlockFeed(threads=threads).feed(data)
        assert expected == points(found), threads
        assert_blocks_are_alike(data, found)


def assert_blocks_are_alike(data: bytes, found: list[Any]) -> None:
    """Compare what the blocks of *found* say of themselves with what they hold."""
    blocks = [item for item in found if isinstance(item, StepBlock)]
    assert len(blocks) > 1
    for block in blocks:
        rows = block.opened()
        assert data.count(b"\n", 0, block.offset) == block.line - 1
        assert block.numbers.names == list(rows.columns)
        assert {name: len(values) for name, (_, values) in rows.columns.items()} == {
            name: count for name, count, *_ in block.numbers.extremes()
        }
