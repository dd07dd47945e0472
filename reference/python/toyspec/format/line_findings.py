"""A finding in one line, as a value."""

from __future__ import annotations

import msgspec


class LineFinding(msgspec.Struct, frozen=True):
    """One finding of the bytes or JSON layer in one line."""

    rule: str
    """Name of the rule, for example ``invalid-json``."""
    offset: int
    """Byte offset of the place in the line, counted from 0; the line's length when it ends too early."""
    pointer: str
    """RFC 6901 JSON Pointer; "" is the whole line. Half a surrogate pair shows as U+FFFD."""
    message: str
    """The fact, with the value found; log text in it is escaped and cut."""
