"""Counts the records and values that a log lacks, and reports them: on standard error, and in notes of the log itself.

Losses by the system are reported at the start and end of an outage; what cannot be written is reported once by name.
What forked processes log into a run of their parent, which alone writes it, is counted in a file without a name. A
process has it open when it forks: the counts arrive however a child ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from toyspec.core.directories import directory_of
from toyspec.core.escaping import shortened
from toyspec.core.system_calls import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.writing.logged_values import LeftOut


_MOST_SAID = 100
# A disk that is nearly full takes a short record now and then: that is not worth a line each time.
_MOST_OUTAGES = 10
_MOST_IN_TEXT = 5
# A note is one line, and a line has a limit; a further note has the rest.
_MOST_NAMES_IN_NOTE = 1000
_LONGEST_NAME = 1000
TOPIC = "left-out"
"""Topic of a note about what the log lacks."""


class DroppedRecords:
    """The records and values of one stream that could not be written."""

    def __init__(self, path: str) -> None:
        self.count = 0
        """Number of all of them so far."""
        self.outage = 0
        """Number of those that were lost since the last record that was written."""
        self._path = path
        self.cause = ""
        """Why records are being dropped; empty while they are written."""
        self.values: Counter[str] = Counter()
        """Number of values that were left out alone, by name."""
        self._outages = 0
        self._unnoted_values: Counter[str] = Counter()
        self._unnoted_records: Counter[str] = Counter()
        self._facts: list[str] = []
        self._known: set[str] = set()

    @property
    def has_news(self) -> bool:
        """True when something was left out of which no note says anything so far."""
        return bool(self._facts)

    @property
    def has_unnoted(self) -> bool:
        """True while the notes in the log do not count all that is missing."""
        return bool(self._unnoted_values or self._unnoted_records)

    def note(self) -> dict[str, Any]:
        """Return the members of the note that counts what was left out since the one before."""
        texts = self._facts[:_MOST_IN_TEXT]
        if len(self._facts) > len(texts):
            texts.append(f"and {len(self._facts) - len(texts)} more")
        if not texts and not self.outage:
            texts = [f"{self._unnoted_values.total() + self._unnoted_records.total()} more like before"]
        facts = [self.fact] if self.outage else []
        if texts:
            facts.append(f"left out: {'; '.join(texts)}")
        note: dict[str, Any] = {"kind": "note", "text": "; ".join(facts), "topic": TOPIC}
        if self._unnoted_values:
            note["left_out"] = dict(islice(self._unnoted_values.items(), _MOST_NAMES_IN_NOTE))
        if self._unnoted_records:
            note["dropped"] = dict(self._unnoted_records)
        return note

    def end_note(self, note: Mapping[str, Any]) -> None:
        """Take that *note* is in the log."""
        for name in note.get("left_out", ()):
            del self._unnoted_values[name]
        self._unnoted_records.clear()
        self._facts.clear()

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

    def add(self, cause: str, *, kind: str = "record") -> None:
        """Count a record of *kind* that could not be written; report the first one of an outage."""
        self._count(kind)
        self.outage += 1
        if cause != self.cause:
            self.begin(cause)

    def tell_caller(self, cause: str, *, kind: str = "record") -> None:
        """Count a record whose caller gets an error. The stream records it too, since the caller may continue."""
        self.cause = cause
        self.add(cause, kind=kind)

    def end_outage(self) -> None:
        """Report that the outage is over."""
        if self._outages <= _MOST_OUTAGES:
            say(f"{self._path}: writing works again; {self.fact}")
        self.outage = 0
        self.cause = ""

    def leave_out(self, fact: str, *, key: str = "", kind: str = "record") -> None:
        """Count a record of *kind* that is invalid or exceeds a limit; report it once for each *key*.

        The key is *fact* by default.
        """
        self._count(kind)
        if self.say_once(key or fact, f"invalid record not written, nor later ones like it: {fact}"):
            self._facts.append(f"{kind} ({fact})")

    def say_once(self, what: str, fact: str) -> bool:
        """Return whether *what* happens for the first time, and report the *fact* then, up to a hundred."""
        if what in self._known:
            return False
        self._known.add(what)
        if len(self._known) <= _MOST_SAID:
            say(f"{self._path}: {fact}")
        elif len(self._known) == _MOST_SAID + 1:
            say(f"{self._path}: what else is left out is not reported here; the log counts it")
        return True

    def count_forked(self, records: Counter[str]) -> None:
        """Count *records* by kind that children of this process were asked to write, which each of them reported."""
        self.count += records.total()
        self._unnoted_records.update(records)
        if records and "forked" not in self._known:
            self._known.add("forked")
            self._facts.append("records of forked processes (the process that started the run is its only writer)")

    def leave_out_values(self, left_out: list[LeftOut], kind: str) -> None:
        """Count values that a record of *kind* is written without, and report each name once.

        An empty kind means that they are of no record.
        """
        where = f" of {kind} is left out, and all else is written" if kind else " is left out"
        for given, why in left_out:
            shown = shortened(given)
            name = given if len(given) <= _LONGEST_NAME else shown
            self.values[name] += 1
            self._unnoted_values[name] += 1
            if self.say_once(f"value {name}", f"{shown}{where}: {why} (reported once)"):
                self._facts.append(f"{shown} ({why})")

    def conclude(self) -> None:
        """Report the number of records and values that the stream lacks, if any."""
        if self.count:
            say(f"{self._path}: {_records(self.count)} not written in total")
        if self.values:
            total = self.values.total()
            names = ", ".join(f"{shortened(name)} {count}" for name, count in self.values.most_common(_MOST_IN_TEXT))
            rest = len(self.values) - _MOST_IN_TEXT
            more = f" and {rest} more" if rest > 0 else ""
            say(f"{self._path}: {total} value{'s were' if total > 1 else ' was'} left out in total ({names}{more})")

    def _count(self, kind: str) -> None:
        self.count += 1
        self._unnoted_records[kind] += 1


def _records(count: int) -> str:
    return f"{count} record was" if count == 1 else f"{count} records were"


class ForkedRecords:
    """The records of one stream that children of its process were asked to write."""

    def __init__(self) -> None:
        self.is_open = True
        """Whether records are counted: the stream is open."""
        self._owner = os.getpid()
        self._descriptor: int | None = None
        self._taken = 0
        _watched.add(self)

    @property
    def is_child(self) -> bool:
        """True in a process that was forked off the one that has the stream."""
        return os.getpid() != self._owner

    def prepare(self) -> None:
        """Let a child that is about to be forked count; where there is no room for that, it only reports."""
        if self.is_open and self._descriptor is None:
            with contextlib.suppress(OSError):
                self._descriptor, path = tempfile.mkstemp(prefix="toyspec-")
                with directory_of(path) as (directory, name):
                    directory.delete(name)

    def add(self, kind: str) -> None:
        """Count a record of *kind* in a child."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, f"{kind}\n".encode())

    def taken(self) -> Counter[str]:
        """Return the number of records by kind that were counted since the last call."""
        found = b""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                size = os.fstat(self._descriptor).st_size
                found = os.pread(self._descriptor, size - self._taken, self._taken)
        self._taken += len(found)
        return Counter(found.decode().splitlines())

    def close(self) -> None:
        """Count no more."""
        self.is_open = False
        descriptor, self._descriptor, self._taken = self._descriptor, None, 0
        if descriptor is not None:
            os.close(descriptor)

    __del__ = close


_watched: weakref.WeakSet[ForkedRecords] = weakref.WeakSet()


def _prepare_all() -> None:
    for each in list(_watched):
        each.prepare()


if hasattr(os, "register_at_fork") and hasattr(os, "pread"):
    os.register_at_fork(before=_prepare_all)
