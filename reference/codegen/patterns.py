"""Parses the patterns of schemas, so that languages without a regular expression library check them by a table."""

from __future__ import annotations

import re
from typing import NamedTuple

_CHARACTER = r"(?:\\u[0-9a-f]{4}|[^\\\]])"
_FORM = re.compile(
    rf"\^\[\^(?P<excluded>{_CHARACTER}+)\]\{{(?P<least>\d+),(?P<most>\d+)\}}" + re.escape(r"(?![\s\S])"),
)
_RANGE = re.compile(rf"({_CHARACTER})(?:-({_CHARACTER}))?")


class Characters(NamedTuple):
    """A string of *least* to *most* characters, none of them in a range of *excluded* (first and last code point)."""

    excluded: tuple[tuple[int, int], ...]
    least: int
    most: int


def characters(pattern: str) -> Characters:
    """Return what *pattern* demands; raise ValueError unless it bounds the number of characters outside a set.

    No other form is in use. The tables of the languages would have to learn it first.
    """
    found = _FORM.fullmatch(pattern)
    if found is None:
        raise ValueError(f"the tables of the languages have no form for the pattern {pattern!r}")
    excluded = tuple((_code(low), _code(high or low)) for low, high in _RANGE.findall(found["excluded"]))
    return Characters(excluded, int(found["least"]), int(found["most"]))


def _code(text: str) -> int:
    return ord(text) if len(text) == 1 else int(text.removeprefix("\\u"), base=16)
