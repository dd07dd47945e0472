"""Makes text from a log inert before it reaches a terminal, a CI log or a page."""

from __future__ import annotations

from toyspec.core.generated.limits import MAX_MESSAGE_VALUE_CHARS

_ELLIPSIS = "…"
_C1_END = 0xA0
# Unicode characters that change how the text around them is shown: marks of direction, invisible
# separators, line and paragraph separators, the byte order mark and interlinear annotations.
_DECEPTIVE = frozenset(
    [
        *(0x00AD, 0x061C, 0x180E, 0xFEFF),
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFFF9, 0xFFFC),
        *range(0xE0000, 0xE0080),
    ]
)


def printable(text: str) -> str:
    r"""Return *text* with every control, deceptive and surrogate character written as ``\x1b`` or ``\u202e``.

    The result has no character that moves a cursor, starts an escape sequence, breaks a line or
    reorders what follows. A backslash stays a backslash: the result is for people, not for decoding.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def printable_bytes(data: bytes) -> str:
    r"""Return *data* as inert text; a byte that is not part of UTF-8 is written as ``\xff``."""
    return printable(data.decode("utf-8", "backslashreplace"))


def shortened(text: str, limit: int = MAX_MESSAGE_VALUE_CHARS) -> str:
    """Return inert *text*, cut to *limit* characters; a cut shows as an ellipsis at the end."""
    if len(text) <= limit:
        shown = printable(text)
        return shown if len(shown) <= limit else shown[: limit - 1] + _ELLIPSIS
    return printable(text[:limit])[: limit - 1] + _ELLIPSIS


def encodable(text: str) -> str:
    r"""Return *text* as UTF-8 can hold it: a byte of a path that is not part of UTF-8 is written as ``\udcff``."""
    return text.encode("utf-8", "backslashreplace").decode()


def clipped(text: str, limit: int) -> str:
    """Return *text* unchanged but cut to *limit* characters, for JSON; a cut shows as an ellipsis at the end."""
    return text if len(text) <= limit else text[: limit - 1] + _ELLIPSIS


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x20 or 0x7F <= code < _C1_END:
        return f"\\x{code:02x}"
    if code in _DECEPTIVE or 0xD800 <= code < 0xE000:
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character
