"""Checks records that another program has put into a stream, so that what is written is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.format.canonical import InvalidEventError, RecordRefusedError, encode
from toyspec.writing.event_checks import check_record
from toyspec.writing.run_progress import RunProgress

if TYPE_CHECKING:
    from toyspec.convert.losses import Cause, Ledger


class Admission:
    """Lets records into one stream that are valid and allowed at their place."""

    def __init__(self, ledger: Ledger, cause: Cause) -> None:
        """Drop all others, for *cause*."""
        self._progress = RunProgress()
        self._ledger = ledger
        self._cause = cause

    def begin(self, start: dict[str, Any]) -> None:
        """Take *start*, the ``run_start``, which is not counted."""
        self._progress.take("run_start", start)

    def lines(self, record: dict[str, Any], place: str) -> list[bytes]:
        """Return the line of *record*, settled as done; none if it was dropped."""
        kind = record.get("kind")
        try:
            line = encode(record)
            check_record(line, kind)
            value = msgspec.json.decode(line)
            self._progress.admit(str(kind), value)
        except (InvalidEventError, RecordRefusedError) as error:
            self._ledger.drop(self._cause, place, str(error))
            return []
        self._progress.take(str(kind), value)
        self._ledger.done()
        return [line + b"\n"]
