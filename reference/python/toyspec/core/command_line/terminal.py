"""Text output for people: colours, width, and nothing that a terminal or a CI log would obey."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

from toyspec.core.escaping import printable
from toyspec.core.format.numbers import digits_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

ColorChoice = Literal["auto", "always", "never"]
Style = Literal["error", "warning", "info", "good", "strong", "dim"]

_CODES: dict[Style, str] = {
    "error": "1;31",
    "warning": "33",
    "info": "36",
    "good": "32",
    "strong": "1",
    "dim": "2",
}
# Told apart by the colour-blind, on dark and on light.
_CURVES = ("36", "33", "35", "32", "34", "31")
_DEFAULT_COLUMNS = 80
# Some CI systems run a command anywhere in a line of output, others only at its start.
_CI_COMMANDS = ("##[", "##vso[", "##teamcity[")


def columns() -> int:
    """Return the width of the terminal in columns, from COLUMNS or the terminal itself; 80 where there is none."""
    declared = digits_of(os.environ.get("COLUMNS", ""))
    if declared:
        return declared
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            found = os.get_terminal_size(stream.fileno()).columns if stream else 0
        except (OSError, ValueError):
            continue
        if found > 0:
            return found
    return _DEFAULT_COLUMNS


class Terminal:
    """A text stream that lines for people are written to, a terminal or not."""

    def __init__(self, stream: TextIO | None = None, *, color: ColorChoice = "auto") -> None:
        """Write to *stream*, standard output by default."""
        self.stream = stream if stream is not None else sys.stdout
        self.interactive = self.stream.isatty()
        self.colored = color == "always" or (color == "auto" and self.interactive and _colors_wanted())

    @property
    def unicode(self) -> bool:
        """True when the stream can show every character."""
        return (getattr(self.stream, "encoding", None) or "").lower().replace("-", "") in {"utf8", "utf16", "utf32"}

    def styled(self, text: str, style: Style) -> str:
        """Return *text* in *style*, plain where there are no colours."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colored else text

    def curve(self, text: str, index: int) -> str:
        """Return *text* in the colour of the curve or run with this *index*; colours repeat."""
        return f"\x1b[{_CURVES[index % len(_CURVES)]}m{text}\x1b[0m" if self.colored else text

    def line(self, text: str = "") -> None:
        """Write one line; text that a CI system would run as a command is made inert."""
        self.stream.write(f"{without_ci_commands(text)}\n")

    def lines(self, texts: Iterable[str]) -> None:
        """Write many lines."""
        for text in texts:
            self.line(text)


def tell(command: str | None, text: str, advice: str = "") -> None:
    """Write *text* on standard error as a line of *command*, or of toyspec, and *advice* as another.

    No terminal and no CI system obeys what is in them.
    """
    lines = filter(None, [f"{called(command)}: {text}", advice])
    sys.stderr.write("".join(f"{without_ci_commands(printable(line))}\n" for line in lines))


def called(command: str | None) -> str:
    """Return what a person types to call *command*, or toyspec alone."""
    return f"toyspec {command}" if command else "toyspec"


def without_ci_commands(text: str) -> str:
    """Return *text* with the mark of a workflow command escaped, in it or at its start."""
    if "##" in text:
        for mark in _CI_COMMANDS:
            text = text.replace(mark, f"\\x23{mark[1:]}")
    start = text.lstrip()
    if start.startswith("::"):
        return f"{text[: len(text) - len(start)]}\\x3a{start[1:]}"
    return text


def _colors_wanted() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    # The classic Windows console shows escape sequences as text.
    return os.name != "nt" or bool(os.environ.get("WT_SESSION") or os.environ.get("TERM"))
