"""What decides how text for people looks: width, colours, and what a CI system would obey."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.command_line import terminal
from toyspec.core.command_line.terminal import Terminal, columns, without_ci_commands

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("declared", "sizes", "expected"),
    [
        ("120", [200, 90], 120),
        ("0", [200, 90], 200),
        ("-5", [200, 90], 200),
        ("wide", [200, 90], 200),
        ("1", [200, 90], 1),
        ("", [0, 90], 90),
        ("", [None, 90], 90),
        ("", [1, 90], 1),
        ("", [0, 0], 80),
        ("", [None, None], 80),
    ],
)
def test_width_is_that_of_the_first_that_has_one(
    declared: str, sizes: Sequence[int | None], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COLUMNS, then standard output, then standard error, each if it says more than nothing; else 80."""

    class Stream:
        def __init__(self, number: int) -> None:
            self.number = number

        def fileno(self) -> int:
            return self.number

    def size(number: int) -> os.terminal_size:
        found = sizes[number]
        if found is None:
            raise OSError
        return os.terminal_size((found, 24))

    monkeypatch.setenv("COLUMNS", declared)
    monkeypatch.setattr("os.get_terminal_size", size)
    monkeypatch.setattr("sys.__stdout__", Stream(0))
    monkeypatch.setattr("sys.__stderr__", Stream(1))
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
    [("utf-8", True), ("UTF8", True), ("utf-16", True), ("UTF-32", True), ("ascii", False), ("cp1252", False)],
)
def test_signs_beyond_ascii_are_for_streams_that_can_show_them(encoding: str, expected: bool) -> None:
    """An encoding with every character is one of the three of Unicode."""
    assert expected == Terminal(io.TextIOWrapper(io.BytesIO(), encoding)).unicode
    stream = io.StringIO()
    assert not Terminal(stream).unicode


TEXTS = st.lists(st.sampled_from(["a", " ", "#", "##", "##[", "##vso[", "##teamcity[", "::", ":", "[", "\\x23", "\t"]))


@given(st.lists(TEXTS.map("".join), max_size=30), st.integers(1, 5))
def test_many_lines_are_as_one_by_one(texts: list[str], at_once: int) -> None:
    """How many are written together changes nothing."""
    single, many = io.StringIO(), io.StringIO()
    for text in texts:
        Terminal(single).line(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "_LINES_AT_ONCE", at_once)
        Terminal(many).lines(iter(texts))
    assert single.getvalue() == many.getvalue()


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
