"""Reads the numbers of many steps at once, where there is a compiled engine: elsewhere records have them."""

from __future__ import annotations

from array import array
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from toyspec.core.engine import native
from toyspec.core.findings import Profile
from toyspec.core.format.line_validation import decode
from toyspec.core.reading.records import RecordFeed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import toyspec_engine

    from toyspec.core.reading.attempts import Attempts
    from toyspec.core.reading.records import Record

# To ask for the numbers of fewer takes longer than to read their records.
_FEWEST = 4


class Column(NamedTuple):
    """The values of one metric, and where each of them is."""

    steps: array[int]
    values: array[float]
    """NaN stands for null."""
    times: array[float]
    """Seconds."""
    epochs: array[float] | None
    """NaN where a step has none; None where no step has one."""


class StepBlock(NamedTuple):
    """Successive steps of the same metrics, or scalars, of which nothing but the numbers counts."""

    profile: Profile
    line: int
    """Number of the first line, counted from 1."""
    offset: int
    """Byte offset of the first line."""
    records: int
    """Number of records."""
    numbers: toyspec_engine.StepBlock

    def extremes(self) -> toyspec_engine.NumbersFields:
        """Return what the numbers come to."""
        numbers = self.numbers
        return {
            "kinds": numbers.kinds,
            "phase": numbers.phase,
            "times": numbers.times,
            "steps": numbers.steps,
            "metrics": numbers.extremes(),
        }

    def columns(self) -> dict[str, Column]:
        """Return all numbers, by metric."""
        found = self.numbers.opened()
        shared = _places(found["rows"])
        places = map(_places, found["places"]) if found["places"] else repeat(shared)
        return {
            name: Column(steps, array("d", values), times, epochs)
            for (name, _, values), (steps, times, epochs) in zip(found["columns"], places, strict=False)
        }

    def is_abandoned(self, attempts: Attempts) -> bool:
        """Return whether a later attempt supersedes the steps; the block is from a feed that knows *attempts*."""
        kept = attempts.last_step_kept(self.line) if self.profile == "toy/v1" else None
        steps = self.numbers.steps
        is_training = (self.numbers.phase or attempts.own_phase) == "train"
        return kept is not None and is_training and steps is not None and steps[0] > kept


def _places(rows: tuple[bytes, bytes, bytes | None]) -> tuple[array[int], array[float], array[float] | None]:
    steps, times, epochs = rows
    return array("q", steps), array("d", times), None if epochs is None else array("d", epochs)


class StepBlockFeed(RecordFeed):
    """Gives blocks of steps where the compiled engine reads them, and records and gaps elsewhere.

    Long chunks are read on at most *threads* threads. Of a stream whose *attempts* are known, a later one supersedes
    all steps of a block, or none. With *exact*, no record of a block says what a null was.
    """

    chunk_bytes = 1 << 20

    def __init__(
        self, *, threads: int = 1, attempts: Attempts | None = None, exact: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self._threads, self._attempts, self._is_exact = threads, attempts, exact

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the records, gaps and blocks that *chunk* commits, in order."""
        found: list[Any] = []
        at = 0
        while at < len(chunk) and (not self._is_decided or self.size > self.committed):
            # A line without a brace is not a record.
            end = chunk.find(b"\n", chunk.find(b"{", at)) + 1 or len(chunk)
            found += super().feed(chunk[at:end])
            at = end
        engine, begin = native(), at
        if engine is None or self._profile not in get_args(Profile):
            return found + super().feed(chunk[at:])
        for piece in engine.step_blocks(chunk[at : chunk.rfind(b"\n") + 1], self._profile, self._threads):
            end = at + piece["bytes"]
            if piece["lines"] >= _FEWEST:
                found += super().feed(chunk[begin:at])
                begin = at
                block = StepBlock(self._profile, *self._splitter.position, piece["lines"], piece["block"])
                if self._is_whole(block) and not (self._is_exact and chunk.find(b'"nonfinite"', at, end) >= 0):
                    found.append(block)
                    self._skip(block, piece, chunk[at + piece["last"] : end - 1])
                    begin = end
            at = end
        return found + super().feed(chunk[begin:])

    def _is_whole(self, block: StepBlock) -> bool:
        """Return whether a later attempt supersedes all steps of *block*, or none."""
        kept = None if self._attempts is None else self._attempts.last_step_kept(block.line)
        if kept is None:
            return True
        steps = array("q", block.numbers.opened()["rows"][0])
        return max(steps) <= kept or min(steps) > kept

    def _skip(self, block: StepBlock, piece: toyspec_engine.BlockPiece, last: bytes) -> None:
        """Pass over the lines of *piece*, whose *last* one becomes a record."""
        self._splitter.skip(piece["lines"], piece["bytes"])
        value = decode(last)
        assert value is not None, "the engine takes readable lines only"
        self.records += piece["lines"] - 1
        self._record(last, block.line + piece["lines"] - 1, block.offset + piece["last"], value)


def latest(items: Iterable[Record | StepBlock], attempts: Attempts) -> Iterator[Record | StepBlock]:
    """Yield of *items*, from a feed that knows *attempts* and in order, what no later attempt supersedes."""
    for item in items:
        is_block = isinstance(item, StepBlock)
        if not (item.is_abandoned(attempts) if is_block else attempts.are_values_abandoned(item)):
            yield item
