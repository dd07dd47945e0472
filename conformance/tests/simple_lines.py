"""Validates one line with only the JSON library of Python, to compare with the findings of cases."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from conformance.format_facts import MAX_DEPTH, UNREADABLE

RULES = UNREADABLE | {"duplicate-key"}


def violations(line: bytes, *, first: bool, limit: int) -> Counter[str]:
    """Return how often *line* breaks each of ``RULES``; *first* is true for the first line of the stream."""
    if len(line) > limit:
        return Counter(["line-too-long"])
    if not line.strip(b" \t\r"):
        return Counter()
    if first and line.startswith(b"\xef\xbb\xbf"):
        return Counter(["byte-order-mark"])
    if b"\0" in line:
        return Counter(["nul-bytes"])
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return Counter(["invalid-utf8"])
    return _text_problems(text)


def _text_problems(text: str) -> Counter[str]:
    found: Counter[str] = Counter()

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found["duplicate-key"] += len(pairs) - len(dict(pairs))
        found["lone-surrogate"] += sum(map(_has_half, (key for key, _ in pairs)))
        return dict(pairs)

    def not_finite(_: str) -> float:
        found["non-finite-number"] += 1
        return 0.0

    def number(digits: str) -> float:
        if abs(float(digits)) == float("inf"):
            found["non-finite-number"] += 1
        return 0.0

    deep = _depth_exceeded(text)
    try:
        value = json.loads(
            text[:deep] if deep is not None else text,
            object_pairs_hook=members,
            parse_constant=not_finite,
            parse_int=number,
            parse_float=number,
        )
    except json.JSONDecodeError as error:
        # The text before the bracket that is too deep ends early, so ignore an error at its end.
        is_deep = deep is not None and (error.pos >= deep or "Unterminated" in error.msg)
        return Counter(["nested-too-deep" if is_deep else "invalid-json"])
    if not isinstance(value, dict):
        return Counter(["not-an-object"])
    found["lone-surrogate"] += _halves(value)
    return +found


def _depth_exceeded(text: str) -> int | None:
    """Return the index of the first bracket outside strings that opens one level too many."""
    depth, inside, escaped = 0, False, False
    for index, character in enumerate(text):
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return index
        elif character in "]}":
            depth -= 1
    return None


def _halves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_halves, value.values()))
    if isinstance(value, list):
        return sum(map(_halves, value))
    return isinstance(value, str) and _has_half(value)


def _has_half(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
