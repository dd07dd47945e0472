"""Byte ranges and conditions of HTTP requests for a file: RFC 9110, sections 13 and 14."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class RangePart(NamedTuple):
    """What is sent of a file."""

    status: int
    """200, 206, 304, 412 or 416."""
    begin: int = 0
    end: int = 0
    """Offset after the last byte."""


def part_of(headers: Mapping[str, str], etag: str, size: int) -> RangePart:
    """Return the part of a file of *size* bytes with *etag* that the *headers* of a request ask for.

    Several ranges, and a range that is not a range of bytes, count as none: the whole file is sent.
    """
    wanted = headers.get("If-Match")
    if wanted is not None and not _matches(wanted, etag):
        return RangePart(412)
    known = headers.get("If-None-Match")
    if known is not None and _matches(known, etag):
        return RangePart(304)
    found = _RANGE.fullmatch(headers.get("Range", "").replace(" ", ""))
    condition = headers.get("If-Range")
    if found is None or found.group(1) == found.group(2) == "" or (condition is not None and condition != etag):
        return RangePart(200, 0, size)
    first, last = found.groups()
    if not first:
        begin, end = max(0, size - int(last)), size
        return RangePart(206, begin, end) if int(last) and size else RangePart(416)
    begin, end = int(first), min(size, int(last) + 1) if last else size
    if last and int(last) < int(first):
        return RangePart(200, 0, size)
    return RangePart(206, begin, end) if begin < size else RangePart(416)


def _matches(condition: str, etag: str) -> bool:
    return condition.strip() == "*" or etag in (each.strip().removeprefix("W/") for each in condition.split(","))
