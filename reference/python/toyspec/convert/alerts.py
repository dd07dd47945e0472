"""Alerts as W&B and Trackio have them: a title, a text and one of three levels, which they spell in different case."""

from __future__ import annotations

from typing import Any

_WORDS = {"info": "info", "warning": "warn", "error": "error"}
"""Their word for each level."""
_LEVELS = {word: level for level, word in _WORDS.items()}


def alert_event(title: str, text: str, word: str) -> dict[str, Any]:
    """Return the members of an ``alert`` but for its time; a level that is not known counts as info."""
    return {
        "kind": "alert",
        "rule": title or "alert",
        "level": _LEVELS.get(word.lower(), "info"),
        "text": text or title,
    }


def level_word(level: object) -> str:
    """Return their word for *level* of an ``alert``, in lower case: ``info``, ``warn`` or ``error``."""
    return _WORDS.get(str(level), "info")
