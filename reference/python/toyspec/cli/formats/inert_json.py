"""JSON for machines that is safe to print in any encoding: all of it is ASCII."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from toyspec.cli.paths import encodable

_OUTSIDE = re.compile("[^\x00-\x7e]")


def inert_json(value: Any) -> str:
    r"""Return *value* as JSON on one line; all that is not printable ASCII becomes a ``\u`` escape.

    Such characters occur only inside strings, so that a parser returns exactly the same value. No
    terminal obeys the text, and a console with another encoding than UTF-8 does not spoil it.
    """
    try:
        return inert(msgspec.json.encode(value).decode())
    except UnicodeEncodeError:
        return inert(msgspec.json.encode(_encodable(msgspec.to_builtins(value))).decode())


def _encodable(value: Any) -> Any:
    """Return *value*, in whose texts a byte of a path that is not part of UTF-8 is an escape."""
    if isinstance(value, dict):
        return {_encodable(name): _encodable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_encodable(member) for member in value]
    return encodable(value) if isinstance(value, str) else value


def inert(text: str) -> str:
    r"""Return the JSON *text* with all that is not printable ASCII as ``\u`` escapes."""
    return _OUTSIDE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
