"""Checks and reads date-times of RFC 3339: see spec/encoding.md#date-times."""

from __future__ import annotations

import re
from typing import Any

_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FORM = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|(?P<sign>[+-])(\d\d):(\d\d))", re.ASCII)


def is_date_time(text: str) -> bool:
    """Return whether *text* is a date and time that exist, with a zone."""
    found = _FORM.fullmatch(text)
    if found is None:
        return False
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    zone_hour, zone_minute = (int(part or 0) for part in found.groups()[7:])
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + leap:
        return False
    if max(hour, zone_hour) > 23 or max(minute, zone_minute) > 59 or second > 60:
        return False
    offset = (zone_hour * 60 + zone_minute) * (-1 if found["sign"] == "-" else 1)
    # A leap second is inserted at the end of a day in UTC, whatever the zone shows.
    return second < 60 or (hour * 60 + minute - offset) % 1440 == 1439


def unix_seconds(text: Any) -> float | None:
    """Return a date-time in seconds since the Unix epoch; None for what is not one, or beyond what Python has."""
    from datetime import datetime

    if not isinstance(text, str) or not is_date_time(text):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):  # a leap second, or the year 0
        return None
