"""Counts the records that a run has lost, and reports them: at the start and end of an outage, and at the end."""

from __future__ import annotations

from toyspec.system_calls import say

_MOST_SAID = 100
# A disk that is nearly full takes a short record now and then: that is not worth a line each time.
_MOST_OUTAGES = 10


class DroppedRecords:
    """The records of one stream that could not be written."""

    __slots__ = ("_outages", "_path", "_said", "cause", "count", "outage")

    def __init__(self, path: str) -> None:
        self.count = 0
        """Number of all of them so far."""
        self.outage = 0
        """Number of those that were lost since the last record that was written."""
        self._path = path
        self.cause = ""
        """Why records are being dropped; empty while they are written."""
        self._outages = 0
        self._said: tuple[str, ...] = ()

    @property
    def fact(self) -> str:
        """The text of the note about the outage."""
        return f"{_records(self.outage)} dropped here: {self.cause}"

    def begin(self, cause: str) -> None:
        """Report that records cannot be written now."""
        self.cause = cause
        self._outages += 1
        if self._outages <= _MOST_OUTAGES:
            say(f"{self._path}: {cause}; records are dropped until writing works again; the program continues")

    def add(self, cause: str) -> None:
        """Count a record that could not be written; report the first one of an outage."""
        self.count += 1
        self.outage += 1
        if cause != self.cause:
            self.begin(cause)

    def tell_caller(self, cause: str) -> None:
        """Count a record whose caller gets an error. The stream records it too, since the caller may continue."""
        self.count += 1
        self.outage += 1
        self.cause = cause

    def end_outage(self) -> None:
        """Report that the outage is over."""
        if self._outages <= _MOST_OUTAGES:
            say(f"{self._path}: writing works again; {self.fact}")
        self.outage = 0
        self.cause = ""

    def leave_out(self, fact: str, *, key: str = "") -> None:
        """Count a record that is invalid or exceeds a limit; report it once for each *key*.

        The key is *fact* by default. After a hundred different ones, nothing more is reported.
        """
        self.count += 1
        what = key or fact
        if what not in self._said and len(self._said) < _MOST_SAID:
            self._said += (what,)
            say(f"{self._path}: invalid record not written, nor later ones like it: {fact}")

    def conclude(self) -> None:
        """Report the number of records that the stream lacks, if any."""
        if self.count:
            say(f"{self._path}: {_records(self.count)} not written in total")


def _records(count: int) -> str:
    return f"{count} record was" if count == 1 else f"{count} records were"
