"""Progress of long work, on standard error if it is a terminal; erased before anything else is shown."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from toyspec.core.command_line.figures import duration, size
from toyspec.core.command_line.tables import cut
from toyspec.core.command_line.terminal import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TextIO

    from toyspec.core.runs.summary import Taken
    from toyspec.core.watching import Watch


_FIRST_SECONDS = 0.5
_EVERY_SECONDS = 0.1
# Reading this many records takes less time than that.
_RECORDS = 256
_ERASE = "\r\x1b[K"


class Progress:
    """Shows bytes done of bytes known until it is left; silent if stderr is not a terminal or the work is short."""

    def __init__(self, work: str, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Show *work*, a word such as ``checking``, on *stream*, standard error by default."""
        self._work = work
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._started = clock()
        self._next = self._started + _FIRST_SECONDS
        self._visible = False
        self.active = self._stream.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def update(self, done: int, total: int) -> None:
        """Show the state of the work, a few times a second at most."""
        now = self._clock()
        if now >= self._next:
            share = f"{min(100 * done // total, 100):3d} % of {size(total)}" if total else size(done)
            speed = done / (now - self._started)
            left = f"  {duration((total - done) / speed)} left" if speed and done < total else ""
            self.show(f"{share}  {size(int(speed))}/s{left}")

    def show(self, text: str) -> None:
        """Show *text* as the state of the work, a few times a second at most."""
        now = self._clock()
        if not self.active or now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        # A line that wraps could not be erased.
        self._stream.write(_ERASE + cut(f"{self._work}  {text}", max(1, columns() - 1)))
        self._stream.flush()
        self._visible = True

    def through(self, records: Iterable[Taken], total: int) -> Iterator[Taken]:
        """Yield *records*, and show how much of a stream of *total* bytes they cover."""
        try:
            for count, record in enumerate(records):
                # A block holds many records.
                if not count % _RECORDS or not hasattr(record, "raw"):
                    self.update(record.offset, total)
                yield record
        finally:
            self.erase()

    @property
    def on_bytes(self) -> Watch | None:
        """``update``, or None if nothing would be shown."""
        return self.update if self.active else None

    @property
    def watch(self) -> Callable[[Iterable[Taken], int], Iterator[Taken]] | None:
        """``through``, or None if nothing would be shown."""
        return self.through if self.active else None

    def erase(self) -> None:
        """Remove what is shown, so that other output starts on a clean line."""
        if self._visible:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._visible = False
