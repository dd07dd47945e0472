"""What decides how text for people looks: width, colours, columns, progress, and what a CI system would obey."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec import Record, read
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.tables import cut, cut_apart, cut_start, padded, width, wrapped
from toyspec.core.command_line.terminal import Terminal, columns, without_ci_commands
from toyspec.core.runs.names import cut_shared, names_among

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.mark.parametrize(
    ("declared", "sizes", "expected"),
    [
        ("120", [200, 90], 120),
        ("-5", [200, 90], 200),
        ("wide", [200, 90], 200),
        ("1", [200, 90], 1),
        ("", [0, 90], 90),
        ("", [None, 90], 90),
        ("", [1, 90], 1),
        ("", [None, None], 80),
    ],
)
def test_width_is_that_of_the_first_that_has_one(
    declared: str, sizes: Sequence[int | None], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COLUMNS, then standard output, then standard error, each if it says more than nothing; else 80."""

    def size(number: int) -> os.terminal_size:
        found = sizes[number]
        if found is None:
            raise OSError
        return os.terminal_size((found, 24))

    monkeypatch.setenv("COLUMNS", declared)
    monkeypatch.setattr("os.get_terminal_size", size)
    for number, name in enumerate(("stdout", "stderr")):
        monkeypatch.setattr(f"sys.__{name}__", SimpleNamespace(fileno=lambda number=number: number))
    assert expected == columns()
    monkeypatch.setattr("sys.__stdout__", None)
    assert (int(declared) if declared in ("120", "1") else sizes[1] or 80) == columns()


@pytest.mark.parametrize(
    ("color", "is_terminal", "variables", "expected"),
    [
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
        ("auto", False, {}, False),
        ("auto", True, {}, True),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    color: Any, is_terminal: bool, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option counts before the environment, and the environment before the terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    made = Terminal(stream, color=color)
    assert (expected, is_terminal) == (made.colored, made.interactive)
    assert ("\x1b[1mx\x1b[0m" if expected else "x") == made.styled("x", "strong")
    assert ("\x1b[36mx\x1b[0m" if expected else "x") == made.curve("x", 0)
    assert made.curve("x", 6) == made.curve("x", 0)
    assert expected == (len({made.curve("x", index) for index in range(6)}) == 6)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("UTF8", True), ("utf-16", True), ("ascii", False), ("cp1252", False)],
)
def test_signs_beyond_ascii_are_for_streams_that_can_show_them(encoding: str, expected: bool) -> None:
    """An encoding with every character is one of the three of Unicode."""
    assert expected == Terminal(io.TextIOWrapper(io.BytesIO(), encoding)).unicode
    assert not Terminal(io.StringIO()).unicode


TEXTS = st.lists(st.sampled_from(["a", " ", "#", "##", "##[", "##vso[", "##teamcity[", "::", ":", "[", "\\x23", "\t"]))


@given(TEXTS.map("".join))
def test_no_line_is_a_command_of_a_ci_system(text: str) -> None:
    """No mark of a command is left, other text stays unchanged, and the text can be read back."""
    made = without_ci_commands(text)
    assert not any(mark in made for mark in ("##[", "##vso[", "##teamcity["))
    assert not made.lstrip().startswith("::")
    is_command = any(mark in text for mark in ("##[", "##vso[", "##teamcity[")) or text.lstrip().startswith("::")
    assert is_command == (made != text)
    if "\\x23" not in text:
        assert text == made.replace("\\x23", "#").replace("\\x3a", ":", 1)


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("é", 1), ("e\u0301", 1), ("損失", 4), ("🔥", 2), ("❤\ufe0f", 1), ("हिन्दी", 5), ("\u20dd", 0)],
    ids=["ascii", "accent", "combining accent", "wide", "emoji", "variation", "vowel signs", "enclosing"],
)
def test_width(text: str, columns: int) -> None:
    """A mark takes no column of its own, a wide character two."""
    assert columns == width(text)


def test_cut_keeps_wide_characters_whole() -> None:
    """A cut never exceeds the limit, even if a character of two columns would not fit."""
    assert ("損…", "…失", "損失 ") == (cut("損失曲線", 4), cut_start("損失", 3), padded("損失", 5))


def test_wrapped_counts_columns() -> None:
    """Lines of wide characters are half as long; a long word stays whole."""
    assert ["  損失", "> 曲線", "> abcdefgh"] == wrapped("  損失 曲線 abcdefgh", 6, "> ")


VECTORS: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).parents[1].joinpath("names.json").read_bytes())


def test_runs_have_the_names_of_the_shared_vectors() -> None:
    """The browser passes the same: what a run is called, and how names are cut."""
    for case in VECTORS["called"]:
        assert case["called"] == names_among(case["names"], case["paths"]), case["why"]
    for case in VECTORS["cut"]:
        assert case["cut"] == cut_shared(case["names"], case["limit"]), case["why"]


@given(st.lists(st.text(alphabet="ab-損", max_size=30), max_size=12), st.integers(0, 20))
def test_cut_names_differ_by_all_that_differs(names: list[str], limit: int) -> None:
    """Different names stay different, and a cut is a part of its name; in columns all fit, or none is cut more."""
    shared = cut_shared(names, limit)
    for name, short in zip(names, shared, strict=True):
        assert re.fullmatch(".*".join(map(re.escape, short.split("…"))), name)
        assert len(short) <= len(name)
    fitting = cut_apart(names, limit)
    assert len(set(names)) == len(set(shared)) == len(set(fitting))
    assert fitting == cut_shared(names, max(limit, 8), width) or all(width(name) <= max(limit, 8) for name in fitting)


class _Screen(io.StringIO):
    """A terminal that keeps what it shows."""

    def isatty(self) -> bool:
        return True


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

    screen, clock = _Screen(), _Clock()
    progress = Progress("reading", screen, clock=clock)
    found: list[Any] = []
    with pytest.raises(OSError, match="a bad sector"):
        found.extend(progress.through(failing(), 11 * 600))
    assert 600 == len(found)
    assert ["42 % of 6.6 kB", "85 % of 6.6 kB"] == re.findall(r"\d+ % of 6.6 kB", screen.getvalue())
    assert screen.getvalue().endswith("\r\x1b[K")


def test_long_work_shows_and_erases() -> None:
    """After half a second the state is shown, a few times a second, and erased before all else; a pipe stays empty."""
    screen, pipe, clock = _Screen(), io.StringIO(), _Clock()
    progress, unseen = (Progress("checking", stream, clock=clock) for stream in (screen, pipe))
    progress.update(10, 1000)
    assert "" == screen.getvalue()
    clock.now += 2.0
    progress.update(500_000, 2_000_000)
    shown = "\r\x1b[Kchecking   25 % of 2.0 MB  250 kB/s  6.0 s left"
    assert shown == screen.getvalue()
    progress.update(600_000, 2_000_000)
    assert shown == screen.getvalue()
    unseen.update(600_000, 2_000_000)
    unseen.show("2 of 3")
    for each in (progress, progress, unseen):
        each.erase()
    assert (f"{shown}\r\x1b[K", "") == (screen.getvalue(), pipe.getvalue())


@pytest.mark.parametrize(
    ("columns", "sizes", "seconds", "text"),
    [
        ("80", (1500, 0), 1.0, "checking  1.5 kB  1.5 kB/s"),
        ("24", (500_000, 2_000_000), 2.0, "checking   25 % of 2.0…"),
        ("80", (1, 2), 0.0, ""),
    ],
    ids=["unknown size", "narrow terminal", "short work"],
)
def test_what_is_shown_of_work(
    columns: str, sizes: tuple[int, int], seconds: float, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done alone where the size is not known; a line that wrapped could not be erased, so it is cut."""
    monkeypatch.setenv("COLUMNS", columns)
    screen, clock = _Screen(), _Clock()
    progress = Progress("checking", screen, clock=clock)
    clock.now += seconds
    progress.update(*sizes)
    assert text == screen.getvalue().removeprefix("\r\x1b[K")
    assert len(text) < int(columns)
