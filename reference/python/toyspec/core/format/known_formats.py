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


_SOME_DIGITS = re.compile(rb"(?<!\w)[-+]?\d+(?:[.,]\d*)?(?!\w)[\s\S]*(?<!\w)[-+]?\d+(?:[.,]\d*)?(?!\w)")


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


def table_advice(head: bytes) -> str | None:
    """Return what to do with text of no known format that begins with *head*, and has numbers; None without any."""
    if b"\0" in head[:HEAD_BYTES] or not _SOME_DIGITS.search(head[:HEAD_BYTES]):
        return None
    try:
        # The end may be within a letter.
        head[:HEAD_BYTES].decode("utf-8", "strict" if len(head) < HEAD_BYTES else "ignore")
    except UnicodeDecodeError:
        return "the text is not UTF-8: make it so with `iconv -f ISO-8859-1 -t UTF-8`, if it is Latin-1"
    return (
        "describe it as a dialect in toyspec.toml; of a table, --step-key KEY names the column of the step, "
        "and --columns step,loss names columns that have no header"
    )


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
