"""Reads the numbers of many steps at once, where there is a compiled engine: elsewhere records have them."""

from __future__ import annotations

from array import array
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
    order: list[int]
    """Where its columns are in the engine, in the order of the metrics of a record."""

    def extremes(self) -> toyspec_engine.NumbersFields:
        """Return what the numbers come to."""
        numbers = self.numbers
        metrics = numbers.extremes()
        return {
            "kinds": numbers.kinds,
            "phase": numbers.phase,
            "times": numbers.times,
            "steps": numbers.steps,
            "metrics": [metrics[at] for at in self.order],
        }

    def columns(self) -> dict[str, Column]:
        """Return all numbers, by metric."""
        found = self.numbers.opened()
        shared = _places(found["rows"])
        places = list(map(_places, found["places"])) or [shared] * len(self.order)
        columns = {}
        for at in self.order:
            (name, _, values), (steps, times, epochs) = found["columns"][at], places[at]
            columns[name] = Column(steps, array("d", values), times, epochs)
        return columns

    def rows(self) -> tuple[array[int], array[float], array[float] | None]:
        """Return the step, time and epoch of each record; NaN for an epoch that it does not have."""
        return _places(self.numbers.opened()["rows"])

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
        if engine is None or self._profile is None or self._profile not in get_args(Profile):
            return found + super().feed(chunk[at:])
        for piece in engine.step_blocks(chunk[at : chunk.rfind(b"\n") + 1], self._profile, self._threads):
            end = at + piece["bytes"]
            numbers = piece["block"]
            if numbers is not None and piece["lines"] >= _FEWEST:
                found += super().feed(chunk[begin:at])
                begin = at
                is_exact = not self._is_exact or chunk.find(b'"nonfinite"', at, end) < 0
                if is_exact and self._is_whole(numbers):
                    found.append(self._block(piece, numbers, chunk[at + piece["last"] : end - 1]))
                    begin = end
            at = end
        return found + super().feed(chunk[begin:])

    def _is_whole(self, numbers: toyspec_engine.StepBlock) -> bool:
        """Return whether a later attempt supersedes all steps of a block, or none; it begins with the next line."""
        kept = None if self._attempts is None else self._attempts.last_step_kept(self.next_line)
        if kept is None:
            return True
        steps = array("q", numbers.opened()["rows"][0])
        return max(steps) <= kept or min(steps) > kept

    def _block(self, piece: toyspec_engine.BlockPiece, numbers: toyspec_engine.StepBlock, last: bytes) -> StepBlock:
        """Pass over the lines of *piece*, whose *last* one becomes a record; return their block."""
        line, offset = self._splitter.position
        self._splitter.skip(piece["lines"], piece["bytes"])
        value = decode(last)
        assert value is not None, "the engine takes readable lines only"
        self.records += piece["lines"] - 1
        said = self._record(last, line + piece["lines"] - 1, offset + piece["last"], value).values
        assert self._profile is not None
        names, places = numbers.names, {name: at for at, name in enumerate(said)}
        order = sorted(range(len(names)), key=lambda at: places.get(names[at], 0))
        return StepBlock(self._profile, line, offset, piece["lines"], numbers, order)


def latest(items: Iterable[Record | StepBlock], attempts: Attempts) -> Iterator[Record | StepBlock]:
    """Yield of *items*, from a feed that knows *attempts* and in order, what no later attempt supersedes."""
    for item in items:
        if isinstance(item, StepBlock):
            is_abandoned = item.is_abandoned(attempts)
        else:
            is_abandoned = attempts.are_values_abandoned(item)
        if not is_abandoned:
            yield item
