"""What `toyspec train` shows while it trains: a bar on a terminal, else lines."""

from __future__ import annotations

import errno
import io
from typing import Any

import pytest

from toyspec.core.command_line.terminal import Terminal
from toyspec.trainer.commands.train import Bar, DisplayLines, open_display

ERASE = "\r\x1b[K"


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def _bar(steps: int, encoding: str = "utf-8") -> tuple[Bar, io.BytesIO, Clock]:
    written, clock = io.BytesIO(), Clock()
    stream = io.TextIOWrapper(written, encoding, write_through=True, newline="\n")
    return Bar(Terminal(stream), steps, clock=clock), written, clock


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a terminal have room for the whole line."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize(
    ("place", "seconds", "said"),
    [
        ((1, 1, 10), 2.0, "0.5 steps/s  18 s left"),
        ((1, 5, 10), 2.0, "2.5 steps/s  2 s left"),
        ((1, 10, 10), 4.0, "2.5 steps/s  0 s left"),
        ((91, 100, 200), 5.0, "2.0 steps/s  50 s left"),
        ((1, 1, 3601), 1.0, "1.0 steps/s  1 h 0 min left"),
        ((1, 1, 3600), 1.0, "1.0 steps/s  1 h 0 min left"),
        ((1, 1, 90062), 1.0, "1.0 steps/s  25 h 2 min left"),
    ],
)
def test_bar_has_rate_and_time_left(place: tuple[int, int, int], seconds: float, said: str) -> None:
    """The rate counts the steps of this process, and the time left is what the others take at that rate."""
    first, step, steps = place
    bar, written, clock = _bar(steps)
    if step > first:
        bar.step(first, 9.0)
    clock.now += seconds
    bar.step(step, 0.125)
    line = written.getvalue().decode().rpartition(ERASE)[2]
    done = 20 * step // steps
    cells = "█" * done + "░" * (20 - done)
    assert f"step {step}/{steps}  {cells}  loss 0.1250  {said}" == line


def test_bar_without_signs_beyond_ascii() -> None:
    """A stream that cannot show blocks has other signs."""
    bar, written, clock = _bar(4, "ascii")
    clock.now += 1
    bar.step(1, 1.0)
    assert b"  #####...............  " in written.getvalue()


def test_bar_is_drawn_ten_times_a_second_and_at_the_end() -> None:
    """Steps that follow each other quickly are not drawn, but the last one always is."""
    bar, written, clock = _bar(50)
    for step in range(1, 51):
        clock.now += 0.03
        bar.step(step, 1.0)
    drawn = [int(line.split("/")[0].removeprefix("step ")) for line in written.getvalue().decode().split(ERASE)[1:]]
    assert [*range(1, 50, 4), 50] == drawn
    bar.close()
    assert written.getvalue().endswith(ERASE.encode())


def test_bar_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves the last column free, where some terminals would begin another line."""
    monkeypatch.setenv("COLUMNS", "30")
    bar, written, _ = _bar(50)
    bar.step(1, 1.0)
    assert 29 == len(written.getvalue().decode().removeprefix(ERASE))


def test_result_is_inert_and_errors_are_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """The result of a bar is a line; of lines, what they have said is not said again. Errors are on standard error."""
    bar, written, _ = _bar(5)
    bar.result("done\x1b[2J", ["it failed"])
    assert b"done\\x1b[2J\n" == written.getvalue()
    assert "it failed" in capsys.readouterr().err
    stream = io.StringIO()
    DisplayLines(stream).result("done", ["it failed too"])
    assert "" == stream.getvalue()
    assert "it failed too" in capsys.readouterr().err


@pytest.mark.parametrize(("is_terminal", "kind"), [(True, Bar), (False, DisplayLines)])
def test_display_is_that_of_the_stream(is_terminal: bool, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar is for terminals alone."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    assert isinstance(open_display(stream, steps=3), kind)


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
def test_training_goes_on_without_its_output(error: OSError, is_said: bool, capsys: Any) -> None:
    """A reader that went away is not an event; another failure is said once, and nothing more is written."""
    stream = Closed(error)
    display = DisplayLines(stream)
    for step in range(1, 4):
        display.step(step, 1.0)
    display.close()
    assert 1 == stream.tries
    assert int(is_said) == capsys.readouterr().err.count("training continues without it")


def test_lines_have_four_digits_and_come_at_once() -> None:
    """One line for each step."""
    written = io.BytesIO()
    display = DisplayLines(io.TextIOWrapper(written, "utf-8", newline="\n"))
    display.step(1, 0.123456)
    assert b"step 1: loss=0.1235\n" == written.getvalue()
    display.step(2, 12.0)
    assert b"step 1: loss=0.1235\nstep 2: loss=12.0000\n" == written.getvalue()
