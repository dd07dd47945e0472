"""Steps whose numbers stay in the compiled engine: of each step, Python then makes no object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.reading.number_blocks import StepFeed, number_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    import toyspec_engine

    from toyspec.findings import Profile
    from toyspec.reading.number_blocks import NumberBlock


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
