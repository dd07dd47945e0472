from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pytest

from toyspec import Record, read
from toyspec.core.command_line.figures import size
from toyspec.core.command_line.progress import Progress


class _Screen(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, terminal: str) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal == "terminal"


class _Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_records_show_how_far_they_reach() -> None:
    """A reading shows the place of its records, gives each of them, and leaves a clean line, also when it fails."""

    def failing() -> Iterator[Record]:
        for record in read(b'{"step":1}\n' * 600):
            clock.now += 0.01
            yield record
        raise OSError("a bad sector")

    screen, clock = _Screen("terminal"), _Clock()
    progress = Progress("reading", screen, clock=clock)
    found: list[Any] = []
    with pytest.raises(OSError, match="a bad sector"):
        found.extend(progress.through(failing(), 11 * 600))
    assert 600 == len(found)
    assert ["42 % of 6.6 kB", "85 % of 6.6 kB"] == re.findall(r"\d+ % of 6.6 kB", screen.getvalue())
    assert screen.getvalue().endswith("\r\x1b[K")


def test_long_work_shows_and_erases() -> None:
    """After half a second the state is shown, a few times a second, and erased before anything else."""
    screen, clock = _Screen("terminal"), _Clock()
    progress = Progress("checking", screen, clock=clock)
    progress.update(10, 1000)
    assert "" == screen.getvalue()
    clock.now += 2.0
    progress.update(500_000, 2_000_000)
    shown = "\r\x1b[Kchecking   25 % of 2.0 MB  250 kB/s  6.0 s left"
    assert shown == screen.getvalue()
    progress.update(600_000, 2_000_000)
    assert shown == screen.getvalue()
    progress.erase()
    progress.erase()
    assert f"{shown}\r\x1b[K" == screen.getvalue()


def test_line_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that wrapped could not be erased: it is cut one column before the edge."""
    monkeypatch.setenv("COLUMNS", "24")
    screen, clock = _Screen("terminal"), _Clock()
    progress = Progress("importing", screen, clock=clock)
    clock.now += 2.0
    progress.update(500_000, 2_000_000)
    assert "\r\x1b[Kimporting   25 % of 2.…" == screen.getvalue()
    assert 23 == len(screen.getvalue().removeprefix("\r\x1b[K"))


def test_short_work_shows_nothing() -> None:
    """Work that ends at once leaves no trace on a terminal."""
    screen = _Screen("terminal")
    progress = Progress("checking", screen, clock=_Clock())
    progress.update(1, 1)
    progress.erase()
    assert "" == screen.getvalue()


def test_nothing_is_shown_without_a_terminal() -> None:
    """In a pipe or a file, progress writes nothing however long the work takes."""
    screen, clock = _Screen("pipe"), _Clock()
    progress = Progress("checking", screen, clock=clock)
    clock.now += 60.0
    progress.update(1, 2)
    progress.erase()
    assert not progress.active
    assert "" == screen.getvalue()


def test_work_of_unknown_size() -> None:
    """Where the size is not known, as of a pipe, what is done is shown alone."""
    screen, clock = _Screen("terminal"), _Clock()
    progress = Progress("checking", screen, clock=clock)
    clock.now += 1.0
    progress.update(1500, 0)
    assert screen.getvalue().endswith("checking  1.5 kB  1.5 kB/s")


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123_456, "123 kB"), (51_014_359, "51.0 MB"), (10**16, "10000 TB")],
)
def test_size(number: int, text: str) -> None:
    """A number of bytes is shown in the largest unit that leaves at least one."""
    assert text == size(number)
