"""Checks and reads date-times of RFC 3339: see spec/encoding.md#date-times."""

from __future__ import annotations

from typing import Any

_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SHORTEST = len("2026-01-01T00:00:00Z")
_FORM = "dddd-dd-ddTdd:dd:dd"


def is_date_time(text: str) -> bool:
    """Return whether *text* is a date and time that exist, with a zone."""
    if len(text) < _SHORTEST or not text.isascii() or not _has_form(text[:19], _FORM):
        return False
    zone = _without_fraction(text[19:])
    minutes = _zone_minutes(zone)
    if minutes is None or not _is_date(text[:10]):
        return False
    hour, minute, second = int(text[11:13]), int(text[14:16]), int(text[17:19])
    if hour > 23 or minute > 59 or second > 60:
        return False
    # A leap second is inserted at the end of a day in UTC, whatever the zone shows.
    return second < 60 or (hour * 60 + minute - minutes) % 1440 == 1439


def unix_seconds(text: Any) -> float | None:
    """Return a date-time in seconds since the Unix epoch; None for what is not one, or beyond what Python has."""
    from datetime import datetime

    if not isinstance(text, str) or not is_date_time(text):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):  # a leap second, or the year 0
        return None


def _has_form(text: str, form: str) -> bool:
    return len(text) == len(form) and all(
        character.isdigit() if expected == "d" else character == expected
        for character, expected in zip(text, form, strict=True)
    )


def _is_date(text: str) -> bool:
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not 1 <= month <= 12:
        return False
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= _DAYS[month - 1] + leap


def _without_fraction(rest: str) -> str:
    if not rest.startswith("."):
        return rest
    zone = rest[1:].lstrip("0123456789")
    return zone if len(zone) < len(rest) - 1 else ""


def _zone_minutes(zone: str) -> int | None:
    """Return the offset from UTC in minutes, None if *zone* is not an offset."""
    if zone == "Z":
        return 0
    if not _has_form(zone[1:], "dd:dd") or zone[0] not in "+-":
        return None
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)
