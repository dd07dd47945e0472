"""Readers of the logs of other programs: ours, which reads by dialects, and entry points of other packages.

A reader recognizes a log by its first bytes, and opens it as ``Row`` records. Those of other packages are asked where
ours is not sure, in the order of the number that each brings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from toyspec.core.entry_points import all_brought
from toyspec.core.reading.records import CutFeed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.core.checker.checking import Checker
    from toyspec.core.checker.collecting import CheckOptions
    from toyspec.core.findings import DialectUse, Profile, State
    from toyspec.core.reading.log_detection import DialectChoice

GROUP = "toyspec.readers"
"""The group of entry points whose values are readers."""

_OWN = "toyspec.logs.reader"
"""The module of our reader, the ``READER`` in it. It is imported with the first log: start-up time counts."""

SURE = 0.5
"""From here on, no reader of another package is asked."""


class LogFeed(CutFeed, ABC):
    """Makes rows of a log that arrives in pieces of any size."""

    records = 0
    """Number of rows so far."""
    gap_bytes = 0
    """Number of bytes in unreadable lines so far, their LFs included."""
    profile: Profile | None = None
    """None: a log of another program has no profile."""
    last: Any = None
    """The last row so far."""

    @property
    @abstractmethod
    def use(self) -> DialectUse:
        """How the log is read, with what is known of its end so far."""

    @property
    @abstractmethod
    def state(self) -> State:
        """The state of the file if it ended now."""

    @property
    def is_by_lines(self) -> bool:
        """True if each line is read by itself."""
        return True

    @abstractmethod
    def feed(self, chunk: bytes) -> list[Any]:
        """Return the rows that *chunk* commits, and a gap for each unreadable line, in order."""

    @abstractmethod
    def skip(self, size: int) -> None:
        """Pass over *size* bytes of whole lines, which count as none."""

    @abstractmethod
    def uncommitted(self) -> dict[str, Any] | None:
        """Return the object in the bytes that are not committed; None if they are not a whole record."""


class OpenedLog(Protocol):
    """A log that a reader recognized."""

    @property
    def sure(self) -> float:
        """How sure the reader is, from 0 to 1."""

    @property
    def title(self) -> str:
        """What writes such logs, for people."""

    @property
    def use(self) -> DialectUse:
        """How the log is read, for a report."""

    @property
    def is_document(self) -> bool:
        """True if its records are not lines, so that it needs no LF."""

    def feed(self, *, max_line_bytes: int = ..., target: Literal["rows", "blocks"] = ...) -> LogFeed:
        """Return what makes its rows."""

    def checker(self, path: str, options: CheckOptions) -> Checker:
        """Return what checks it."""


class Reader(Protocol):
    """Recognizes logs of other programs."""

    order: float
    """Its place among readers that are as sure: the lowest is taken."""

    def recognise(self, head: bytes, path: str, asked: DialectChoice) -> OpenedLog | None:
        """Return the log at *path*, which begins with *head*; None if it is of another format.

        *asked* is what the user named. Raise UnknownFormatError where the log lacks that.
        """


class DialectsReader(Reader, Protocol):
    """What options and settings ask our reader of dialects."""

    def names(self) -> Sequence[str]:
        """Return the names of the dialects that toyspec ships."""

    def files(self) -> Sequence[str]:
        """Return the patterns of the usual names of their files."""

    def named(self, name: str) -> Any:
        """Return the dialect *name*; raise ValueError if there is none."""

    def made(self, table: Mapping[str, Any]) -> Any:
        """Return the dialect that *table* describes; raise ValueError for a wrong one."""

    def opened(self, dialect: Any, head: bytes) -> OpenedLog:
        """Return a log that begins with *head*, read by *dialect*, which ``named`` or ``made`` returned."""

    def proposed(self, path: str) -> Any:
        """Return the dialect for the file at *path* that no dialect fits, if it is sure; None otherwise."""

    def keys(self, **named: Any) -> Any:
        """Return the ``Keys`` that the user *named*."""

    def manifest(self, name: str) -> Mapping[str, str]:
        """Return where the run.json beside a log of the dialect *name* has the members of run_start."""

    def may_go_on(self, data: bytes, asked: DialectChoice) -> bool:
        """Return whether *data* lacks the text by which the console output of a program is known."""


@cache
def dialects() -> DialectsReader:
    """Return our reader."""
    return cast("DialectsReader", import_module(_OWN).READER)


def opened(head: bytes, path: str, asked: DialectChoice) -> OpenedLog | None:
    """Return the log at *path*, which begins with *head*, as the surest reader opens it; None if none knows it."""
    own = dialects().recognise(head, path, asked)
    if asked.name != "auto" or (own is not None and own.sure >= SURE):
        return own
    others = sorted(all_brought(GROUP).values(), key=lambda each: each.order)
    logs = [own, *(reader.recognise(head, path, asked) for reader in others)]
    return max((log for log in logs if log is not None), key=lambda log: log.sure, default=None)
