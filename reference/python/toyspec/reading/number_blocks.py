"""Reads the numbers of a stream as columns: the compiled engine gives them without an object for each value."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.engine import native
from toyspec.findings import Profile
from toyspec.format.line_validation import decode
from toyspec.format.lines import Line
from toyspec.reading.records import RecordFeed

if TYPE_CHECKING:
    import toyspec_engine

_PROFILES = ("toy/v1", "metrics/v1")


class NumberBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Successive records of which nothing but the numbers counts, so none that starts, ends or resumes a run."""

    profile: Profile
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


class NumberFeed(RecordFeed):
    """Gives blocks of numbers where it can, and records and gaps elsewhere."""

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the records, gaps and blocks of numbers that *chunk* commits, in order."""
        found: list[Any] = []
        while chunk and (not self._is_decided or self.size > self.committed):
            end = chunk.find(b"\n") + 1 or len(chunk)
            found += super().feed(chunk[:end])
            chunk = chunk[end:]
        engine = native()
        if engine is None or self._profile not in _PROFILES:
            return found + super().feed(chunk)
        whole = chunk.rfind(b"\n") + 1
        at = 0
        pieces: list[toyspec_engine.PieceFields] = engine.columns(chunk[:whole], self._profile)
        for piece in pieces:
            lines = chunk[at : at + piece["bytes"]]
            found += [self._block(piece, lines)] if piece["lines"] else super().feed(lines)
            at += piece["bytes"]
        return found + super().feed(chunk[whole:])

    def _block(self, piece: toyspec_engine.PieceFields, lines: bytes) -> NumberBlock:
        assert self._profile is not None
        number, offset = self._splitter.position
        self._splitter.skip(piece["lines"], len(lines))
        last = lines[piece["last"] : -1]
        value = decode(last)
        assert value is not None, "the engine takes readable lines only"
        self.records += piece["lines"] - 1
        self._record(Line(number + piece["lines"] - 1, offset + piece["last"], len(last), last, b""), value)
        return NumberBlock(
            profile=self._profile,
            offset=offset,
            kinds=piece["kinds"],
            phase=piece["phase"],
            times=piece["times"],
            steps=piece["steps"],
            columns={name: (array("q", steps), array("d", values)) for name, steps, values in piece["columns"]},
        )
