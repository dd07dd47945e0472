"""Shows the progress of training: a bar on a terminal, else a line for each step."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Protocol

from toyspec.core.command_line.terminal import Terminal, columns
from toyspec.core.escaping import printable
from toyspec.core.system_calls import cause_of, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

_EVERY_SECONDS = 0.1
_ERASE = "\r\x1b[K"
_BAR_CELLS = 20


class Display(Protocol):
    """Where steps and the result are shown."""

    def step(self, step: int, loss: float) -> None:
        """Show that *step* is done."""

    def close(self) -> None:
        """Leave a clean line, also after an error."""

    def result(self, fact: str, errors: Sequence[str]) -> None:
        """Show the result of the run, and its *errors*."""


def open_display(stream: TextIO, *, steps: int) -> Display:
    """Return the display for *stream*; *steps* is the number of the last step."""
    terminal = Terminal(stream)
    return Bar(terminal, steps) if terminal.interactive else DisplayLines(stream)


class DisplayLines:
    """Writes ``step N: loss=…`` and nothing else. Training goes on if the output is closed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_open = True

    def step(self, step: int, loss: float) -> None:
        """Write the line of *step*."""
        if not self._is_open:
            return
        try:
            self._stream.write(f"step {step}: loss={loss:.4f}\n")
            self._stream.flush()
        except OSError as error:
            self._is_open = False
            # The interpreter would try to write the rest of the buffer again at its exit.
            _discard(self._stream)
            if not isinstance(error, BrokenPipeError):
                say(f"standard output: {cause_of(error)}; training continues without it")

    def close(self) -> None:
        """Do nothing."""

    def result(self, fact: str, errors: Sequence[str]) -> None:  # noqa: ARG002 - the lines have shown it
        """Print *errors* to standard error."""
        for error in errors:
            say(error)


class Bar:
    """One line that is redrawn, with loss, rate and time left."""

    def __init__(self, terminal: Terminal, steps: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._steps = steps
        self._clock = clock
        self._first: tuple[int, float] | None = None
        self._drawn_at = -_EVERY_SECONDS
        self._began = clock()

    def step(self, step: int, loss: float) -> None:
        """Draw the progress, a few times a second at most."""
        now = self._clock()
        if self._first is None:
            self._first = step - 1, self._began
        if now - self._drawn_at < _EVERY_SECONDS and step < self._steps:
            return
        self._drawn_at = now
        before, began = self._first
        rate = (step - before) / max(now - began, 1e-9)
        left = (self._steps - step) / rate
        text = (
            f"step {step}/{self._steps}  {self._cells(step)}  loss {loss:.4f}  {rate:.1f} steps/s  {_time(left)} left"
        )
        self._show(f"{_ERASE}{text[: columns() - 1]}")

    def close(self) -> None:
        """Remove the bar."""
        self._show(_ERASE)

    def result(self, fact: str, errors: Sequence[str]) -> None:
        """Write *fact*, and print *errors* to standard error."""
        self._terminal.line(printable(fact))
        for error in errors:
            say(error)

    def _cells(self, step: int) -> str:
        full, empty = ("█", "░") if self._terminal.unicode else ("#", ".")
        done = _BAR_CELLS * step // self._steps
        return full * done + empty * (_BAR_CELLS - done)

    def _show(self, text: str) -> None:
        try:
            self._terminal.stream.write(text)
            self._terminal.stream.flush()
        except OSError:
            # A terminal that was closed must not end the training.
            _discard(self._terminal.stream)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def _discard(stream: TextIO) -> None:
    """Drop what is written to *stream* from now on, and what is in its buffer."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
