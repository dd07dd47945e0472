"""Widths of text on a terminal, in columns; text is inert already."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ELLIPSIS = "…"


def width(text: str) -> int:
    """Return the number of columns that *text* takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(letter) in {"Mn", "Me"} else 2 if east_asian_width(letter) in "WF" else 1 for letter in text
    )


def cut(text: str, limit: int) -> str:
    """Return *text*, cut at its end to *limit* columns; a cut shows as an ellipsis."""
    if width(text) <= limit:
        return text
    return _fitting(text, limit - 1) + _ELLIPSIS


def cut_start(text: str, limit: int) -> str:
    """Return *text*, cut at its start to *limit* columns; a cut shows as an ellipsis."""
    if width(text) <= limit:
        return text
    return _ELLIPSIS + _fitting(text[::-1], limit - 1)[::-1]


def cut_middle(text: str, limit: int) -> str:
    """Return *text*, cut in its middle to *limit* columns; a cut shows as an ellipsis."""
    if width(text) <= limit:
        return text
    end = (limit - 1) // 2
    return _fitting(text, limit - 1 - end) + _ELLIPSIS + _fitting(text[::-1], end)[::-1]


def cut_apart(texts: Sequence[str], limit: int) -> list[str]:
    """Return *texts*, cut to *limit* columns or to as many more as it takes to keep different ones different."""
    longest = max(map(width, texts), default=0)
    for columns in range(limit, longest, 4):
        found = [cut_middle(text, columns) for text in texts]
        if len(set(found)) == len(set(texts)):
            return found
    return list(texts)


def padded(text: str, columns: int) -> str:
    """Return *text* filled with spaces to *columns* columns."""
    return text + " " * (columns - width(text))


def wrapped(text: str, limit: int, indent: str = "") -> list[str]:
    """Return *text* broken between words into lines of at most *limit* columns; those after the first get *indent*.

    A word that is longer than a line stays whole. Spaces at the start of the text stay.
    """
    words = text.lstrip(" ").split(" ")
    lines = [text[: len(text) - len(text.lstrip(" "))] + words[0]]
    for word in words[1:]:
        if width(lines[-1]) + 1 + width(word) > limit:
            lines.append(indent + word)
        else:
            lines[-1] += f" {word}"
    return lines


def _fitting(text: str, limit: int) -> str:
    if text.isascii():
        return text[: max(limit, 0)]
    taken = 0
    for index, letter in enumerate(text):
        taken += width(letter)
        if taken > limit:
            return text[:index]
    return text
