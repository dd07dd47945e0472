"""The exceptions of the library. Findings in a log are values; an exception means that a call failed.

::

    ToyspecError
    ├── CatalogError                a catalog is missing, of another version, or being written by another process
    ├── EngineError                 TOYSPEC_ENGINE names an engine that is not installed (a ValueError too)
    ├── ExpressionError             a filter of runs cannot be read, or no run has the field (a ValueError too)
    ├── ProfileError                the directory of a user's profile is wrong (a ValueError too)
    ├── UnknownRuleError            a rule to select or ignore does not exist (a ValueError too)
    ├── InvalidEventError           an event cannot be written as canonical JSON (a ValueError too)
    ├── RecordRefusedError          a record may not be written: a required key is missing or wrong (a ValueError too)
    ├── MetricsLogError             a metrics log cannot be written as asked (a ValueError too)
    ├── StreamRefusedError          a file may not be written: in use, ended, damaged, foreign (an OSError too)
    ├── StreamClosedError           a file is no longer written (an OSError too)
    ├── PlaceError                  an object store or a server cannot be reached or read (an OSError too)
    ├── MirrorBusyError             another process mirrors the run (an OSError too)
    ├── ServiceRefusedError         a service does not take what a mirror sends
    ├── WorkersError                work cannot be spread: Ray is missing, or there is no cluster at the address
    ├── SourceError                 a source cannot be imported, or a run cannot be exported
    └── StreamError                 a stream cannot be read as asked
        ├── StreamMissingError      there is no stream at the path
        ├── StreamUnreadableError   it is there, but cannot be opened or read
        ├── StreamReplacedError     it was replaced between two readings of one object
        ├── UnknownFormatError      the file is not of a known profile
        ├── DamagedStreamError      a committed line is unreadable: data is lost, waiting does not help
        └── TornStreamError         its end is missing: the run crashed, or is still being written

Damaged and torn share no type below StreamError: damage is a loss, but a torn stream may still grow.
Misuse of an API raises ValueError or TypeError.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Literal

from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from toyspec.core.findings import ReadReport


def let_through(error: Exception) -> None:
    """Raise *error* again if a signal handler of the program raised it, and do nothing with all other errors.

    To be called where any error of a value, of an object of another library, or of the system is caught: a handler
    interrupts whatever is running, and what it raises is not for us.
    """
    entry = error.__traceback__
    while entry is not None:
        frame, entry = entry.tb_frame, entry.tb_next
        # A handler alone is called with the frame that it interrupts, which is the one that it returns to.
        if frame.f_back is not None and _has(frame.f_locals.values(), frame.f_back):
            raise error


def _has(values: Iterable[object], frame: FrameType) -> bool:
    return any(value is frame or (type(value) is tuple and _has(value, frame)) for value in values)


class ToyspecError(Exception):
    """Every exception of this library that is not misuse of an API."""


class CatalogError(ToyspecError):
    """A catalog cannot be read or written; the message begins with its path."""

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"{printable(path)}: {fact}")
        self.path = path
        self.fact = fact
        """The message without the path."""


class EngineError(ToyspecError, ValueError):
    """The variable ``TOYSPEC_ENGINE`` names an engine that does not exist or is not installed."""


class ExpressionError(ToyspecError, ValueError):
    """A filter of runs cannot be read, or a name is that of no field; the message says what was expected, and where."""

    def __init__(self, fact: str, at: int | None = None) -> None:
        super().__init__(fact if at is None else f"{fact} (at character {at + 1})")
        self.fact = fact
        """The message without the place."""
        self.at = at
        """Number of characters before the place; None for a name alone."""


class ProfileError(ToyspecError, ValueError):
    """The profile of a user cannot be used; the message begins with the path of what is wrong."""

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"{printable(path)}: {printable(fact)}")


class StreamError(ToyspecError):
    """A stream cannot be read as asked; the message begins with the path, and the line where there is one."""

    def __init__(
        self,
        path: str,
        fact: str,
        *,
        line: int | None = None,
        offset: int | None = None,
        report: ReadReport | None = None,
    ) -> None:
        place = printable(path) if line is None else f"{printable(path)}:{line}"
        super().__init__(f"{place}: {fact}")
        self.fact = fact
        """The message without the path and line."""
        self.path = path
        """The path as given; ``<bytes>`` for bytes and ``-`` for an object without a name."""
        self.line = line
        """Line number, counted from 1; None when the error is not in a line."""
        self.offset = offset
        """Byte offset of the error from the start of the stream, counted from 0; None when it is not in a line."""
        self.report = report
        """The report on what was read; None when nothing was."""


class StreamMissingError(StreamError):
    """There is no stream at the path."""


class StreamUnreadableError(StreamError):
    """The stream is there, but cannot be opened or read: no permission, not a regular file, or an input error."""


class StreamReplacedError(StreamError):
    """The stream at the path is not the one that was read before."""


class UnknownFormatError(StreamError):
    """The file is not of a known profile; the message says what it looks like."""


class DamagedStreamError(StreamError):
    """A committed line is unreadable."""


class TornStreamError(StreamError):
    """The stream is not complete: bytes follow its last LF, its end event is missing, or it is empty."""


class _FileError(ToyspecError, OSError):
    def __str__(self) -> str:
        return f"{printable(str(self.filename))}: {self.strerror}"


class PlaceError(_FileError):
    """A place beyond the file system cannot be reached or read; the message begins with its address."""

    def __init__(self, address: str, fact: str, *, number: int = errno.EIO) -> None:
        OSError.__init__(self, number, fact, address)


class SourceError(ToyspecError):
    """A source cannot be imported, or a run cannot be exported; the message begins with its path."""

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"{printable(path)}: {fact}")
        self.path = path
        self.fact = fact
        """The message without the path."""


class WorkersError(ToyspecError):
    """The workers cannot start, as without Ray or a cluster at the address, or one ended without an answer."""


RefusalReason = Literal["locked", "irregular", "damaged", "complete", "incomplete", "foreign"]
"""Locked: another writer has the file. Irregular: a pipe, device or directory. Foreign: of another format.

Damaged, complete and incomplete: the state of the stream.
"""


class StreamRefusedError(_FileError):
    """The file may not be written, although the system would allow it; nothing was changed."""

    def __init__(self, path: str, reason: RefusalReason, fact: str) -> None:
        OSError.__init__(self, errno.EBUSY if reason == "locked" else errno.EINVAL, fact, path)
        self.reason = reason


class StreamClosedError(_FileError):
    """The file was closed: by its owner, for good after a failure, or because the process was forked."""

    def __init__(self, path: str, fact: str) -> None:
        OSError.__init__(self, errno.EBADF, fact, path)


def check_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise ValueError unless the argument *name*, which is *value*, is one of *allowed*."""
    words = tuple(allowed)
    if value not in words:
        raise ValueError(f"{name} is {value!r}; {must_be_one_of(words)}")


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the one of *known* that was probably meant by *word*; None if none is as alike as *cutoff* says."""
    # Imported here: start-up time counts.
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), 1, cutoff)), None)


def must_be_one_of(allowed: Iterable[object]) -> str:
    """Return the part of a message that names what is *allowed*, each as Python writes it."""
    return f"it must be one of {', '.join(map(repr, allowed))}"
