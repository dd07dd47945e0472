"""Reads the numbers of a stream as columns, without an object for each record."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.engine import native
from toyspec.findings import Profile
from toyspec.format.line_validation import decode
from toyspec.format.lines import Line
from toyspec.format.number_columns import columns as plain_columns
from toyspec.reading.records import RecordFeed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.format.number_columns import Piece

_PROFILES = ("toy/v1", "metrics/v1")


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
    """Number of records by kind; metrics entries count as entry."""
    phase: str | None
    """The phase that the steps name."""
    times: tuple[float, float] | None
    """The first and the last time, in seconds."""
    steps: tuple[int, int] | None
    """The first and the last valid step."""
    columns: dict[str, tuple[array[int], array[float]]]
    """The steps and the values of each metric: see ``metrics_of``. NaN stands for null."""
    rows: Rows | None
    """Where each step is; None where there is no step."""


class NumberFeed(RecordFeed):
    """Gives blocks of numbers where it can, and records and gaps elsewhere."""

    _reads = "columns"
    """The function of the compiled engine that gives the blocks."""

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the records, gaps and blocks of numbers that *chunk* commits, in order."""
        found: list[Any] = []
        while chunk and (not self._is_decided or self.size > self.committed):
            end = chunk.find(b"\n") + 1 or len(chunk)
            found += super().feed(chunk[:end])
            chunk = chunk[end:]
        if self._profile not in _PROFILES:
            return found + super().feed(chunk)
        whole = chunk.rfind(b"\n") + 1
        at = 0
        for piece in self._pieces(chunk[:whole], self._profile):
            lines = chunk[at : at + piece["bytes"]]
            found += [self._block(piece, lines)] if piece["lines"] else super().feed(lines)
            at += piece["bytes"]
        return found + super().feed(chunk[whole:])

    def _pieces(self, text: bytes, profile: Profile) -> Sequence[Piece]:
        engine = native()
        if engine is None:
            return plain_columns(text, profile)
        pieces: Sequence[Piece] = getattr(engine, self._reads)(text, profile)
        return pieces

    def _block(self, piece: Piece, lines: bytes) -> NumberBlock:
        assert self._profile is not None
        number, offset = self._splitter.position
        self._splitter.skip(piece["lines"], len(lines))
        last = lines[piece["last"] : -1]
        value = decode(last)
        assert value is not None, "the engine takes readable lines only"
        self.records += piece["lines"] - 1
        self._record(Line(number + piece["lines"] - 1, offset + piece["last"], len(last), last, b""), value)
        rows = piece.get("rows")
        return NumberBlock(
            profile=self._profile,
            line=number,
            offset=offset,
            kinds=piece["kinds"],
            phase=piece["phase"],
            times=piece["times"],
            steps=piece["steps"],
            columns={name: (_whole(steps), _real(values)) for name, steps, values in piece["columns"]},
            rows=None if rows is None else Rows(_whole(rows[0]), _real(rows[1]), rows[2] and _real(rows[2])),
        )


class StepFeed(NumberFeed):
    """Gives blocks of nothing but steps with the same metrics, the place of each, and every other record."""

    _reads = "step_columns"


def _whole(numbers: Any) -> array[int]:
    return numbers if isinstance(numbers, array) else array("q", numbers)


def _real(numbers: Any) -> array[float]:
    return numbers if isinstance(numbers, array) else array("d", numbers)
