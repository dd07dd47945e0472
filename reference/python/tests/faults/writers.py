"""Writers that the fault tests check: the library's own, and broken ones that have to be caught."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls
from toyspec.core.writing.append_file import AppendFile, Options


class Writer(Protocol):
    """Writes lines to one file; a call that returns says that the line is written."""

    def append(self, line: bytes) -> object:
        """Write *line* and its LF, or raise OSError."""

    def close(self) -> object:
        """Close the file, or raise OSError."""


Opening = Callable[[str, SystemCalls], Writer]


def library(path: str, calls: SystemCalls = SYSTEM_CALLS) -> Writer:
    """Return the writer of the library."""
    return AppendFile.reopen(path, options=Options(calls=calls))


def library_synced(path: str, calls: SystemCalls = SYSTEM_CALLS) -> Writer:
    """Return the writer of the library that syncs each line."""
    return AppendFile.reopen(path, options=Options(calls=calls, durability="fsync"))


class Buffered:
    """Broken: keeps lines in a buffer of the process, as ``open(path, "a")`` does."""

    def __init__(self, path: str, calls: SystemCalls = SYSTEM_CALLS) -> None:
        self._file = open(path, "ab")  # noqa: SIM115 - closed by close

    def append(self, line: bytes) -> None:
        """Write to the buffer."""
        self._file.write(line + b"\n")

    def close(self) -> None:
        """Write the buffer."""
        self._file.close()


class _Plain:
    """Opens as it should; subclasses append in a broken way."""

    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND

    def __init__(self, path: str, calls: SystemCalls = SYSTEM_CALLS) -> None:
        self._calls = calls
        self._descriptor = calls.open(path, self.flags, 0o666)

    def close(self) -> None:
        """Close the file."""
        self._calls.close(self._descriptor)


class TwoWrites(_Plain):
    """Broken: writes the record, then its LF."""

    def append(self, line: bytes) -> None:
        """Write twice."""
        self._calls.write(self._descriptor, line)
        self._calls.write(self._descriptor, b"\n")


WRITERS: dict[str, Opening] = {
    "library": library,
    "library-synced": library_synced,
    "buffered": Buffered,
    "two-writes": TwoWrites,
}
"""All of them by name."""
