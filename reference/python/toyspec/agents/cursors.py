"""Where an answer stopped: the line of each run, and of a long answer the next item."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r"c1((?:-\d+\.[0-9a-f]{6}(?:\.\d+)?)+)(?:~(\d+)\.(\d+)\.(\d+))?")
_PART = re.compile(r"-(\d+)\.([0-9a-f]{6})(?:\.(\d+))?")
_MOST_DIGITS = 18


class LogPlace(NamedTuple):
    """What a cursor knows of one run."""

    line: int
    """The answer is about the lines after this one."""
    digest: str
    """The first 6 hexadecimal digits of the SHA-256 of the first line, which tells another log apart."""
    until: int | None = None
    """The last line that the answer is about; None for all lines that there are."""


class AnswerCursor(NamedTuple):
    """Asks for what comes after an answer."""

    places: tuple[LogPlace, ...]
    """One for each run, in the order in which the runs were named."""
    item: tuple[int, int, int] | None = None
    """The next item: number of its section, of its run, and of the item in both, counted from 0; None for all."""

    def __str__(self) -> str:
        parts = (f"-{line}.{digest}" + ("" if until is None else f".{until}") for line, digest, until in self.places)
        rest = "" if self.item is None else "~" + ".".join(map(str, self.item))
        return "c1" + "".join(parts) + rest

    @classmethod
    def parse(cls, text: str) -> AnswerCursor:
        """Return the cursor that ``str`` wrote as *text*; raise ValueError for anything else."""
        found = _TEXT.fullmatch(text)
        if (
            found is None
            or not text.isascii()
            or any(len(number) > _MOST_DIGITS for number in re.findall(r"\d+", text))
        ):
            raise ValueError(f"{text[:80]!r} is not a cursor; give one that a digest printed, unchanged")
        places = tuple(
            LogPlace(int(line), digest, int(until) if until else None)
            for line, digest, until in _PART.findall(found[1])
        )
        item = (int(found[2]), int(found[3]), int(found[4])) if found[2] else None
        return cls(places, item)
