"""Names the format of a file without a profile, by its first bytes: see schemas/meta/looks.json."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from toyspec.core.escaping import shortened
from toyspec.core.generated import messages
from toyspec.core.generated.looks import BINARY, EMPTY_RECORD, FIRST_LINES, HEAD_BYTES, RECORD, SHOWN_KEYS, STARTS, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.core.findings import Fragment

_SPACE = b" \t\r\n"
_MORE = "…"


class Look(NamedTuple):
    """What a file looks like."""

    fact: str
    """The format, or what is known of the first record; log text in it is escaped and cut."""
    read_with: str | None = None
    """A program that reads or converts such a file; None if none is known."""

    @property
    def advice(self) -> str | None:
        """What to do with such a file; None if nothing is known."""
        return None if self.read_with is None else messages.other_format_advice(command=self.read_with)


def look_of(head: bytes, keys: Iterable[str] | None, *, is_all: bool) -> Look:
    """Return what a file without a profile looks like.

    *head* is its first ``HEAD_BYTES`` bytes, or all of it if *is_all*. *keys* are those of its first readable
    record; None if it has none.
    """
    known = known_start(head) or _known_first_line(head, is_all=is_all)
    if known is not None:
        return known
    if keys is None:
        return Look(BINARY if b"\0" in head[:HEAD_BYTES] else TEXT)
    named = list(keys)
    shown = [shortened(key) for key in named[:SHOWN_KEYS]] + [_MORE] * (len(named) > SHOWN_KEYS)
    return Look(RECORD.replace("{keys}", ", ".join(shown)) if shown else EMPTY_RECORD)


def known_start(head: bytes) -> Look | None:
    """Return the look of a file with a known signature, such as an archive; None for all others."""
    return next((Look(fact, command) for at, start, fact, command in STARTS if head.startswith(start, at)), None)


def is_of_another_format(fragment: Fragment | None) -> bool:
    """Return whether the bytes of a stream without LF have the signature of another format, such as an archive."""
    return fragment is not None and known_start(fragment.head) is not None


def _known_first_line(head: bytes, *, is_all: bool) -> Look | None:
    line, lf, _ = head[:HEAD_BYTES].lstrip(_SPACE).partition(b"\n")
    if not line or not (lf or is_all):
        return None
    # Each byte counts as one character.
    text = line.rstrip(_SPACE).decode("latin-1")
    found = (Look(fact, command) for pattern, fact, command in FIRST_LINES if re.fullmatch(pattern, text))
    return next(found, None)
