"""Makes untrusted text harmless in a terminal, in XML, in Markdown and in CI logs."""

from __future__ import annotations

import unicodedata

_MAX_CHARACTERS = 400


def printable(text: str) -> str:
    """Return *text* with control and invisible characters as escapes, cut at 400 characters."""
    cut = text[:_MAX_CHARACTERS]
    shown = "".join(c if unicodedata.category(c)[0] not in "CZ" or c == " " else _escape(c) for c in cut)
    return shown if len(text) <= _MAX_CHARACTERS else f"{shown}…"


def markup(text: str) -> str:
    """Return *text* for XML, HTML and SVG."""
    return _with_entities(printable(text))


def _with_entities(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(character, entity)
    return text


def markdown(text: str) -> str:
    """Return *text* for a cell of a table in Markdown."""
    harmless = printable(text)
    for character in "\\|`*_[]{}#!":
        harmless = harmless.replace(character, f"\\{character}")
    return _with_entities(harmless)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
