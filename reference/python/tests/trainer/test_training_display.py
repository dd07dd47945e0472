"""What `toyspec train` shows while it trains: a bar on a terminal, else lines."""

from __future__ import annotations

import errno
import io
from typing import Any

import pytest

from toyspec.trainer.commands.train import Display

ERASE = "\r\x1b[K"


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_a_terminal_has_progress_and_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows step, loss, rate and time left, which the result replaces as inert text."""
    monkeypatch.setenv("COLUMNS", "200")
    clock = iter([100.0, 102.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    terminal = Terminal()
    display = Display(terminal, steps=10)
    display._progress._clock = lambda: 1e9
    display.step(3, 9.0)
    shown = terminal.getvalue().rpartition(ERASE)[2]
    assert "training  step 3/10  loss 9.0000  0.5 steps/s  14.0 s left" == shown
    display.result("done\x1b[2J")
    assert terminal.getvalue().endswith(f"{ERASE}done\\x1b[2J\n")


class Closed(io.StringIO):
    """An output whose reader is gone, or whose disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error
        self.tries = 0

    def write(self, text: str) -> int:
        """Fail."""
        del text
        self.tries += 1
        raise self.error

    def fileno(self) -> int:
        """Be no file."""
        raise io.UnsupportedOperation


@pytest.mark.parametrize(
    ("error", "is_said"), [(BrokenPipeError(errno.EPIPE, "Broken pipe"), False), (OSError(errno.ENOSPC, "full"), True)]
)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_training_goes_on_without_its_output(
    error: OSError, is_said: bool, is_terminal: bool, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that went away is not an event; another failure is said once, and nothing more is written."""
    stream = Closed(error)
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    display = Display(stream, steps=3)
    display._progress._clock = lambda: 1e9
    for step in range(1, 4):
        display.step(step, 1.0)
    display.close()
    assert 1 == stream.tries
    assert int(is_said) == capsys.readouterr().err.count("training continues without it")


def test_lines_have_four_digits_and_come_at_once() -> None:
    """Elsewhere each step is one line, and the result is not said again."""
    written = io.BytesIO()
    display = Display(io.TextIOWrapper(written, "utf-8", newline="\n"), steps=2)
    display.step(1, 0.123456)
    assert b"step 1: loss=0.1235\n" == written.getvalue()
    display.step(2, 12.0)
    display.result("done")
    assert b"step 1: loss=0.1235\nstep 2: loss=12.0000\n" == written.getvalue()
