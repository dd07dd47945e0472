"""JSON for machines that is safe to print in any encoding: all of it is ASCII."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_OUTSIDE = re.compile("[^\x00-\x7e]")


def inert_json(value: Any) -> str:
    r"""Return *value* as JSON on one line; all that is not printable ASCII becomes a ``\u`` escape.

    Such characters occur only inside strings, so that a parser returns exactly the same value. No
    terminal obeys the text, and a console with another encoding than UTF-8 does not spoil it.
    """
    return inert(msgspec.json.encode(value).decode())


def inert(text: str) -> str:
    r"""Return the JSON *text* with all that is not printable ASCII as ``\u`` escapes."""
    return _OUTSIDE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
