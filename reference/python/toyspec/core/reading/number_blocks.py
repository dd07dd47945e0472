"""Reads the numbers of a stream as columns: the engine makes them of the bytes, plain Python of records."""

from __future__ import annotations

from array import array
from itertools import groupby
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

import msgspec

from toyspec.core.engine import native
from toyspec.core.findings import Profile
from toyspec.core.format.line_validation import decode
from toyspec.core.format.record_mapping import MILLISECONDS, mapping_of
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.limits import BINARY32_LIMIT
from toyspec.core.reading.records import Record, RecordFeed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toyspec.core.reading.attempts import Attempts

    Number = TypeVar("Number", int, float)
    import toyspec_engine


class Rows(NamedTuple):
    """Where each of several steps is."""

    steps: array[int]
    times: array[float]
    """Seconds."""
    epochs: array[float] | None
    """NaN where a step has none; None where no step has one."""


class NumberBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Successive records of which nothing but the numbers counts, so none that starts, ends or resumes a run."""

    profile: Profile
    line: int
    """Number of the first line, counted from 1."""
    offset: int
    """Byte offset of the first line."""
    kinds: list[tuple[str, int]]
    """Number of records by kind; metrics entries count as entry, kaun scalars as scalar."""
    phase: str | None
    """The phase that the steps name."""
    times: tuple[float, float] | None
    """The first and the last time, in seconds."""
    steps: tuple[int, int] | None
    """The first and the last valid step."""
    columns: dict[str, tuple[array[int], array[float]]]
    """The steps and the values of each metric: see ``Record.values``. NaN stands for null."""
    rows: Rows | None
    """Where each step is; None where there is no step, or where places were not asked for."""
    places: dict[str, Rows] = {}
    """Where the values of each metric are, if each record has one of several; else they are in every row."""
    minimized: dict[str, bool] = {}
    """Whether smaller values of a metric are better, by the last record that has it."""

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(number for _, number in self.kinds)

    @property
    def groups(self) -> list[list[str]]:
        """Names of the metrics that are in one record; a scalar has one."""
        return [[name] for name in self.columns] if self.profile == "kaun/v1" else [list(self.columns)]


class NumberFeed(RecordFeed):
    """Gives blocks of numbers where it can, and records and gaps elsewhere."""

    chunk_bytes = 1 << 20

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the records, gaps and blocks of numbers that *chunk* commits, in order."""
        found: list[Any] = []
        at = 0
        while at < len(chunk) and (not self._is_decided or self.size > self.committed):
            # A line without a brace is not a record.
            end = chunk.find(b"\n", chunk.find(b"{", at)) + 1 or len(chunk)
            found += super().feed(chunk[at:end])
            at = end
        engine = native()
        if engine is None or self._profile is None or self._profile not in get_args(Profile):
            return [*found, *_in_blocks(super().feed(chunk[at:]))]
        for piece in self._pieces(engine, chunk[at : chunk.rfind(b"\n") + 1], self._profile):
            end = at + piece["bytes"]
            is_block = piece["lines"] and self._is_whole(chunk, at, end)
            found += [self._block(piece, chunk[at + piece["last"] : end])] if is_block else super().feed(chunk[at:end])
            at = end
        return found + super().feed(chunk[at:])

    def _is_whole(self, chunk: bytes, begin: int, end: int) -> bool:  # noqa: ARG002 - others ask
        """Return whether a block has everything that matters of the lines of *chunk* from *begin* to *end*."""
        return True

    def _pieces(self, engine: Any, text: bytes, profile: Profile) -> Sequence[toyspec_engine.PieceFields]:
        """Return what the compiled *engine* finds in the whole lines *text*."""
        # The latest scalar of a tag is found by its place.
        find = engine.step_columns if profile == "kaun/v1" else engine.columns
        pieces: Sequence[toyspec_engine.PieceFields] = find(text, profile)
        return pieces

    def _block(self, piece: toyspec_engine.PieceFields, last_line: bytes) -> NumberBlock:
        assert self._profile is not None
        return number_block(self._profile, piece, self._skip(piece, last_line))

    def _skip(self, piece: toyspec_engine.PieceFields, last_line: bytes) -> tuple[int, int]:
        """Pass over the lines of *piece*; return number and offset of the first."""
        number, offset = self._splitter.position
        self._splitter.skip(piece["lines"], piece["bytes"])
        last = last_line[:-1]
        value = decode(last)
        assert value is not None, "the engine takes readable lines only"
        self.records += piece["lines"] - 1
        self._record(last, number + piece["lines"] - 1, offset + piece["last"], value)
        return number, offset


class StepFeed(NumberFeed):
    """Gives blocks of nothing but steps or scalars, the place of each, and every other record.

    The steps of a block have the same metrics.
    """

    def _pieces(self, engine: Any, text: bytes, profile: Profile) -> Sequence[toyspec_engine.PieceFields]:
        pieces: Sequence[toyspec_engine.PieceFields] = engine.step_columns(text, profile)
        return pieces


class ExactStepFeed(StepFeed):
    """Gives blocks as a ``StepFeed`` does, but for records that say what a null was: a block has NaN for each."""

    def _is_whole(self, chunk: bytes, begin: int, end: int) -> bool:
        return chunk.find(b'"nonfinite"', begin, end) < 0


def number_block(profile: Profile, piece: toyspec_engine.PieceFields, place: tuple[int, int]) -> NumberBlock:
    """Return the block of *piece*, whose first line has number and offset *place*."""
    line, offset = place
    rows = piece["rows"]
    names = [name for name, _, _ in piece["columns"]]
    return NumberBlock(
        profile=profile,
        line=line,
        offset=offset,
        kinds=piece["kinds"],
        phase=piece["phase"],
        times=piece["times"],
        steps=piece["steps"],
        columns={name: (_whole(steps), _real(values)) for name, steps, values in piece["columns"]},
        rows=None if rows is None else _rows(rows),
        places=dict(zip(names, map(_rows, piece["places"]), strict=False)),
        minimized=dict(piece["minimized"]),
    )


_NUMBERS = frozenset([float, int])
_NUMBERS_OR_NULL = _NUMBERS | {type(None)}
_MOST_STEP = (1 << 63) - 1


def _in_blocks(items: Iterable[Any]) -> Iterator[Any]:
    """Yield *items* with a block in place of successive steps that have the same keys and nothing but numbers."""
    for keys, group in groupby(items, _keys_of):
        records = list(group)
        block = None if keys is None else _block_of(records)
        yield from records if block is None else [block]


def _keys_of(item: Any) -> tuple[Any, ...] | None:
    """Return the keys and the phase of a step; None for anything else."""
    if not isinstance(item, Record) or (item.profile, item.kind) not in (("toy/v1", "step"), ("metrics/v1", None)):
        return None
    extra, phase = item.value.get("extra", {}), item.value.get("phase")
    if type(extra) is not dict or phase != item.phase or item.value.keys() & extra.keys():
        return None
    return (*item.value, "extra", *extra, phase)


def _block_of(records: list[Record]) -> NumberBlock | None:
    """Return the block of *records* with the same keys; None if one has anything but the numbers of a step."""
    first, profile, kind = records[0].value, records[0].profile, records[0].kind
    read, values = mapping_of(profile), [record.value for record in records]
    assert profile is not None
    assert read.time is not None
    if not {"step", read.time.key} <= first.keys():
        return None
    steps, times = ([value[key] for value in values] for key in ("step", read.time.key))
    epochs = [value[read.epoch] for value in values] if read.epoch in first else None
    columns = {key: [value["extra"][key] for value in values] for key in first.get("extra", {})}
    columns |= {key: [value[key] for value in values] for key in first if key not in (*read.places, "extra")}
    is_plain = {*map(type, steps)} == {int} and {*map(type, [*times, *(epochs or ())])} <= _NUMBERS
    if not is_plain or not all({*map(type, column)} <= _NUMBERS_OR_NULL for column in columns.values()):
        return None
    if min(times) < 0 or not 0 <= min(steps) <= max(steps) <= _MOST_STEP:
        return None
    if profile == "metrics/v1":
        losses = columns.get("loss", ())
        if not first.keys() <= FIELDS["metrics/v1"]["entry"].keys() or not all(map(_is_binary32, losses)):
            return None
        times = [time / MILLISECONDS for time in times]
    try:
        rows = Rows(array("q", steps), array("d", times), None if epochs is None else array("d", epochs))
        found = {name: (rows.steps, _with_nan(column)) for name, column in columns.items()}
    except OverflowError:
        return None
    return NumberBlock(
        profile=profile,
        line=records[0].line,
        offset=records[0].offset,
        kinds=[(kind or "entry", len(records))],
        phase=records[0].phase,
        times=(rows.times[0], rows.times[-1]),
        steps=(steps[0], steps[-1]),
        columns=found,
        rows=rows,
    )


def _is_binary32(loss: float | None) -> bool:
    return loss is None or abs(loss) < BINARY32_LIMIT


def _with_nan(column: list[float | None]) -> array[float]:
    return array("d", [nan if number is None else number for number in column])


def parted(block: NumberBlock, attempts: Attempts) -> tuple[NumberBlock | None, NumberBlock | None]:
    """Return the steps of *block* that no later attempt supersedes, and those that one does; None for none.

    The block is from a ``StepFeed``.
    """
    kept = attempts.last_step_kept(block.line) if block.profile == "toy/v1" else None
    if kept is None or block.rows is None or (block.phase or attempts.own_phase) != "train":
        return block, None
    steps = block.rows.steps
    return (
        _part(block, [at for at, step in enumerate(steps) if step <= kept]),
        _part(block, [at for at, step in enumerate(steps) if step > kept]),
    )


def latest(items: Iterable[Record | NumberBlock], attempts: Attempts) -> Iterator[Record | NumberBlock]:
    """Yield of *items*, from a ``StepFeed`` and in order, what no later attempt supersedes."""
    for item in items:
        if not isinstance(item, NumberBlock):
            if not attempts.are_values_abandoned(item):
                yield item
            continue
        kept, _ = parted(item, attempts)
        if kept is not None:
            yield kept


def _part(block: NumberBlock, chosen: list[int]) -> NumberBlock | None:
    """Return the *chosen* rows of *block*."""
    rows = block.rows
    assert rows is not None
    if len(chosen) in (0, len(rows.steps)):
        return block if chosen else None
    steps, times = _picked(rows.steps, chosen), _picked(rows.times, chosen)
    return NumberBlock(
        profile=block.profile,
        line=block.line,
        offset=block.offset,
        kinds=[("step", len(chosen))],
        phase=block.phase,
        times=(times[0], times[-1]),
        steps=(steps[0], steps[-1]),
        columns={name: (steps, _picked(values, chosen)) for name, (_, values) in block.columns.items()},
        rows=Rows(steps, times, None if rows.epochs is None else _picked(rows.epochs, chosen)),
    )


def _picked(numbers: array[Number], chosen: list[int]) -> array[Number]:
    return array(numbers.typecode, [numbers[at] for at in chosen])


def _rows(rows: tuple[Any, Any, Any]) -> Rows:
    steps, times, epochs = rows
    return Rows(_whole(steps), _real(times), None if epochs is None else _real(epochs))


def _whole(numbers: Any) -> array[int]:
    return numbers if isinstance(numbers, array) else array("q", numbers)


def _real(numbers: Any) -> array[float]:
    return numbers if isinstance(numbers, array) else array("d", numbers)


class StepBlock(NamedTuple):
    """Successive steps of the same metrics, or scalars."""

    profile: Profile
    line: int
    """Number of the first line, counted from 1."""
    offset: int
    """Byte offset of the first line."""
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

    def opened(self) -> NumberBlock:
        """Return the same with all numbers."""
        return number_block(self.profile, self.numbers.opened(), (self.line, self.offset))


class StepBlockFeed(StepFeed):
    """Gives a ``StepBlock`` where a ``StepFeed`` gives a block of numbers, if there is a compiled engine.

    Long chunks are read on at most *threads* threads.
    """

    def __init__(self, *, threads: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self._threads = threads

    def _pieces(self, engine: Any, text: bytes, profile: Profile) -> Sequence[Any]:
        pieces: Sequence[Any] = engine.step_blocks(text, profile, self._threads)
        return pieces

    def _block(self, piece: Any, last_line: bytes) -> Any:
        if "block" not in piece:
            return super()._block(piece, last_line)
        assert self._profile is not None
        return StepBlock(self._profile, *self._skip(piece, last_line), piece["block"])
