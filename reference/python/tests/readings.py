"""Reads whole streams, and gives what tests compare."""

from __future__ import annotations

import contextlib
from typing import Any

from toyspec.core.errors import StreamError
from toyspec.core.findings import ReadReport
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record


def drained(source: Any, **options: Any) -> tuple[list[Record], ReadReport]:
    """Return the records and the report, also of a reading that raises."""
    reading = read(source, **options)
    records: list[Record] = []
    with contextlib.suppress(StreamError):
        records.extend(reading)
    return records, reading.report


def account(report: ReadReport) -> tuple[int, int, int]:
    """Return the bytes of committed lines, of the fragment and of the gaps."""
    return report.committed_bytes, report.fragment_bytes, report.gap_bytes
