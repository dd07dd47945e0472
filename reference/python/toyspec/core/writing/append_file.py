"""A file that grows by whole lines and survives the death of its writer at any moment.

Each line goes to the file by one unbuffered write of the line and its LF to an O_APPEND descriptor. After
``append`` has returned, the operating system has the line: it survives the end of the process. A line that fails
half-way is completed, else removed, else the file is closed for good.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import msgspec

from toyspec.core.directories import sync_directory
from toyspec.core.errors import StreamClosedError, let_through
from toyspec.core.system_calls import (
    PASSING_ERRORS,
    SYSTEM_CALLS,
    SystemCalls,
    cause_of,
    is_at,
    named,
    say,
    sync_file,
    unlock,
)
from toyspec.core.writing import opening

if TYPE_CHECKING:
    from collections.abc import Callable


_BLOCK_BYTES = 1 << 20


def bytes_in_file(descriptor: int, data: bytes, committed: int) -> int | None:
    """Return how many bytes of the line *data* are at the end of a file; None if bytes of another writer follow them.

    *committed* is the size that the file had before, unless another process has appended to it or emptied it.
    """
    size = os.fstat(descriptor).st_size
    tail = _read(descriptor, max(0, size - len(data)), len(data))
    grown = size - committed
    if 0 <= grown <= len(data) and tail.endswith(data[:grown]):
        return grown
    if tail.endswith(data):
        return len(data)
    part = tail[tail.rfind(b"\n") + 1 :]
    return len(part) if data.startswith(part) else None


def copy_bytes(source: int, target: int, length: int, calls: SystemCalls) -> int:
    """Append the first *length* bytes of one file to another, or all if it has fewer; return the number."""
    offset = 0
    while block := _read(source, offset, min(_BLOCK_BYTES, length - offset)):
        offset += len(block)
        rest = memoryview(block)
        while rest:
            written = calls.write(target, rest)
            if not written:
                raise OSError(errno.EIO, "the system accepted 0 bytes of a write")
            rest = rest[written:]
    return offset


def _read(descriptor: int, offset: int, length: int) -> bytes:
    """Return *length* bytes from *offset*, fewer at the end of the file."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    found = b""
    while block := os.read(descriptor, length - len(found)):
        found += block
    return found


Durability = Literal["process", "fsync"]
"""What a line survives once it is acknowledged: the end of the process, or of the machine as well."""

_Sync = Literal["as-opened", "now"]
_monotonic = time.monotonic
OF_THE_PARENT: Final = "it was opened by the parent process; open one file in each process"
"""Why a forked child cannot write to a file."""
_open_files: weakref.WeakSet[AppendFile] = weakref.WeakSet()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is written."""

    durability: Durability = "process"
    look_seconds: float = 1.0
    """Minimum time between two checks whether the path still names the file."""
    calls: SystemCalls = SYSTEM_CALLS


_DEFAULT = Options()


class AppendFile:
    """One file of lines, open for appending, and the only writer of it where the platform has locks.

    Threads may share it. A signal handler may append while it interrupts ``append``: its line is written right
    after the interrupted one. After a fork the child's handle is dead. When the path no longer names the file, because
    it was deleted, moved or replaced, the file is written there again with all its lines; if that cannot be, since a
    FIFO or a directory is there, or another program replaces the file each time, they are kept in ``<path>.kept-N``.
    """

    _descriptor = -1

    def __init__(self, opened: opening.Opened, *, options: Options = _DEFAULT) -> None:
        self.path = opened.path
        self.committed = os.fstat(opened.descriptor).st_size
        """Number of bytes that are known to be whole lines; more than the file has where another program has cut it.

        The next look finds the cut by that, so what happens meanwhile leaves it as large.
        """
        self.appended = 0
        """Number of lines that this handle has committed."""
        self.moves = opened.moves
        """Old and new path of every earlier file that was moved to make room, in order."""
        self.torn_path: str | None = None
        """Path of the side file with the bytes that were after the last line; None if there were none."""
        self.lock = threading.RLock()
        """Held while a line is written; hold it to keep several calls together."""
        self.on_truncation: Callable[[int], None] | None = None
        """Called with the number of bytes that are gone, before the line after another program has cut the file."""
        self.closed_because: str | None = None
        """Why the file is closed; None while it is open."""
        self.has_said_why = False
        """True once a message on standard error has reported that the file is closed for good."""
        self._descriptor = opened.descriptor
        self._opened = opened
        self.place = os.path.abspath(opened.path)
        """The absolute path: the program may change its directory."""
        self.options = options
        self.calls = options.calls
        self._write = options.calls.write
        self._syncs_each = options.durability == "fsync"
        self._next_look = _monotonic() + options.look_seconds
        self._has_started_again = False
        self._was_replaced = False
        self._in_flight = b""
        self.is_busy = False
        """True while a call is in its turn."""
        # A list, since it is nearly always empty, and an empty deque takes 760 bytes.
        self._waiting: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        _open_files.add(self)

    @classmethod
    def create(cls, path: str, *, options: Options = _DEFAULT) -> AppendFile:
        """Create the file *path*; raise FileExistsError when there is one."""
        return cls(opening.create(path, options.calls), options=options)

    @classmethod
    def reopen(
        cls, path: str, *, missing: Literal["create", "fail"] = "create", options: Options = _DEFAULT
    ) -> AppendFile:
        """Open the file *path* and lock it; raise StreamRefusedError when another writer has it.

        The content is not read: ``committed`` is the size, which may end in a fragment; see ``appending``.
        """
        return cls(opening.reopen(path, options.calls, missing=missing), options=options)

    @classmethod
    def replace(cls, path: str, *, options: Options = _DEFAULT) -> AppendFile:
        """Create the file *path*; an older one is kept, see ``opening.replace``.

        Raise StreamRefusedError when another writer has the older one.
        """
        return cls(opening.replace(path, options.calls), options=options)

    def append(self, line: bytes, *, sync: _Sync = "as-opened") -> None:
        """Write *line*, which must not have an LF, and its LF.

        When this returns, the line is committed. When it raises OSError, the line is not in the file, or the file
        is closed for good and reports it. ``sync="now"`` forces the file and its directory to the device.
        """
        self.in_turn(self.commit, line + b"\n", sync)

    def in_turn(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call *call* alone: after other threads, and after the turn that a signal handler interrupts with it.

        An exception is raised once all that waits is done; of several, the first.
        """
        with self.lock:
            if self.is_busy or self._waiting:
                self._waiting.append((call, arguments))
                if self.is_busy:
                    return
                call, arguments = self._waiting.pop(0)
            self.is_busy, failure = True, None
            try:
                while True:
                    try:
                        call(*arguments)
                    except BaseException as error:  # noqa: BLE001 - it is raised below
                        failure = failure or error
                    if not self._waiting:
                        break
                    call, arguments = self._waiting.pop(0)
            finally:
                self.is_busy = False
            if failure is not None:
                try:
                    raise failure
                finally:
                    del failure  # which would hold this frame, and it the error

    def settle(self) -> None:
        """Find out whether a line is committed whose ``append`` an exception interrupted, else remove its part.

        ``appended`` has the result. The next ``append`` does the same first.
        """
        with self.lock:
            data = self._in_flight
            if not data or self.closed_because is not None:
                return
            cause = InterruptedError(errno.EINTR, "interrupted", self.path)
            written = bytes_in_file(self._descriptor, data, self.committed)
            if written == len(data):
                self.committed, self._in_flight = max(self.size, self.committed + len(data)), b""
                self.appended += 1
            elif written is None:
                self._give_up(f"writing a line failed ({cause_of(cause)}) while another process was writing the file")
            else:
                self._take_back(written, cause)

    def sync(self, *, directory: Literal["too", "not"] = "not") -> None:
        """Force what is committed to the device. A failure closes the file for good; it is not tried again."""
        with self.lock:
            self._check_open()
            try:
                sync_file(self.calls, self._descriptor)
                if directory == "too":
                    sync_directory(self.calls, os.path.dirname(self.place))
            except OSError as error:
                self._give_up(f"fsync failed ({cause_of(error)}); lines already written may be lost")
                raise named(error, self.path) from None

    def truncate(self, size: int) -> None:
        """Cut the file to *size* bytes, which must end a line, and force that to the device."""
        with self.lock:
            self._check_open()
            self.calls.ftruncate(self._descriptor, size)
            self.committed = size
            self.sync(directory="too")

    @property
    def size(self) -> int:
        """Number of bytes in the file now, those after the last committed line too."""
        self._check_open()
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """Return at most *length* bytes from *offset*; empty at the end of the file."""
        with self.lock:
            self._check_open()
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            return self.calls.read(self._descriptor, length)

    def close(self) -> None:
        """Close the file; do nothing when it is closed. Raise OSError when the system could not keep what it took."""
        self.in_turn(self._close)

    def _close(self) -> None:
        if self.closed_because is not None:
            return
        self.closed_because = "it was closed"
        self._close_descriptor()

    def commit(self, data: bytes, sync: _Sync = "as-opened") -> None:
        """Append *data*, a line with its LF, in the turn of the caller."""
        if self._in_flight or self.closed_because is not None:
            self.settle()
            self._check_open()
        if _monotonic() >= self._next_look or sync == "now":
            self._look()
        self._in_flight = data
        try:
            written = self._write(self._descriptor, data)
        except OSError as error:
            let_through(error)
            self._fail(error, 0)
        if written != len(data):
            self._complete(data, written)
        # An exception from a signal cannot come between these three.
        self.committed += len(data)
        self.appended += 1
        self._in_flight = b""
        if sync == "now":
            self.sync(directory="too")
        elif self._syncs_each:
            self.sync()

    def _complete(self, data: bytes, written: int) -> None:
        """Write the rest of a line of which the system took only a part."""
        rest = memoryview(data)
        while written < len(data):
            try:
                written += self._write_some(rest[written:])
            except OSError as error:
                let_through(error)
                self._fail(error, written)

    def _write_some(self, data: memoryview) -> int:
        written = self._write(self._descriptor, data)
        if written <= 0:
            raise OSError(errno.EIO, "the system accepted 0 bytes of a write", self.path)
        return written

    def _fail(self, error: OSError, written: int) -> NoReturn:
        """Remove the *written* bytes of a line, close the file for good if the error is final, and raise."""
        self._take_back(written, error)
        if error.errno not in PASSING_ERRORS and self.closed_because is None:
            self._give_up(f"a line could not be written ({cause_of(error)})")
        raise named(error, self.path)

    def _take_back(self, written: int, cause: OSError) -> None:
        """Remove the part of a line that was not written whole; close the file for good if that fails."""
        try:
            if written:
                self._remove_part(written)
            self._in_flight = b""
        except OSError as error:
            self._give_up(f"a line could be neither written ({cause_of(cause)}) nor removed ({cause_of(error)})")

    def _remove_part(self, written: int) -> None:
        """Cut the *written* bytes off the end, if they are there: not what another process has appended."""
        if bytes_in_file(self._descriptor, self._in_flight[:written], self.committed) != written:
            raise OSError(errno.ESTALE, "another process is writing the file", self.path)
        end = self.size - written
        self.calls.ftruncate(self._descriptor, end)
        self.committed = max(end, self.committed)

    def _look(self) -> None:
        """Write the file again at its path if that no longer names it; else later lines would be lost."""
        self._next_look = _monotonic() + self.options.look_seconds
        self._check_descriptor()
        try:
            is_there = is_at(self.place, self._descriptor)
        except OSError as error:
            let_through(error)
            is_there = True
        if is_there:
            self._check_size()
            return
        is_replaced = os.path.lexists(self.place)
        if is_replaced and self._was_replaced:
            self._give_up(f"another program replaced the file twice; let one program write it; {self._kept()}")
            self._check_open()
        self._was_replaced = self._was_replaced or is_replaced
        try:
            self._start_again()
        except OSError as error:
            self._next_look = _monotonic()
            if error.errno not in PASSING_ERRORS:
                fact = "the file was deleted, moved or replaced, and could not be written there again"
                self._give_up(f"{fact} ({cause_of(error)}); {self._kept()}")
            raise named(error, self.path) from None
        self._check_size()

    def _check_descriptor(self) -> None:
        """Close the file for good if the program has closed its descriptor: the number may be another file's now.

        Lines since the look before may be in that file.
        """
        try:
            found = os.fstat(self._descriptor)
            if (found.st_dev, found.st_ino) == self._opened.identity:
                return
        except OSError as error:
            let_through(error)
        self._descriptor = -1
        self._give_up("the program closed the file's descriptor, or opened another file with it")
        self._check_open()

    def _check_size(self) -> None:
        """Report that another program has cut the file short, and let its owner make it readable again."""
        size = os.fstat(self._descriptor).st_size
        lost = self.committed - size
        if lost <= 0:
            return
        before, self.committed = self.committed, size
        try:
            if self.on_truncation is not None:
                self.on_truncation(lost)
        except OSError:
            # It is tried again before the next line.
            self.committed, self._next_look = before, _monotonic()
            raise
        say(f"{self.path}: another program cut the file short while it was open; {lost} bytes are lost")

    def _kept(self) -> str:
        """Write all lines into a file beside the path, which something else has taken; say where they are."""
        lines = f"the {self.committed} bytes until here"
        try:
            fresh = opening.create(next(opening.free_names(f"{self.place}.kept", first=1)), self.calls)
            self._copied_to(fresh)
            self.calls.close(fresh.descriptor)
        except OSError as error:
            return f"{lines} are lost ({cause_of(error)})"
        return f"{lines} are in {fresh.path}"

    def _copied_to(self, fresh: opening.Opened) -> int:
        """Copy all lines into the empty file *fresh*, and return the number of bytes; close it if that fails."""
        try:
            copied = copy_bytes(self._descriptor, fresh.descriptor, self.committed, self.calls)
            sync_file(self.calls, fresh.descriptor)
            sync_directory(self.calls, os.path.dirname(self.place))
        except BaseException:
            with contextlib.suppress(OSError):
                self.calls.ftruncate(fresh.descriptor, 0)
                fresh.take_back()
            with contextlib.suppress(OSError):
                self.calls.close(fresh.descriptor)
            raise
        return copied

    def _start_again(self) -> None:
        os.makedirs(os.path.dirname(self.place), exist_ok=True)
        fresh = opening.replace(self.place, self.calls)
        copied = self._copied_to(fresh)
        old, self._descriptor, self._opened = self._descriptor, fresh.descriptor, fresh
        with contextlib.suppress(OSError):
            self.calls.close(old)
        if not self._has_started_again:
            self._has_started_again = True
            kept = "".join(f"; the file in its place was moved to {new}" for _, new in fresh.moves[-1:])
            fact = "deleted, moved or replaced while it was open"
            say(f"{self.path}: {fact}; written again with all {copied} bytes{kept}")

    def discard(self) -> None:
        """Close the file, in the turn of the caller; if it is empty, undo what opening it changed on the disk."""
        with self.lock:
            if self.closed_because is None:
                self._take_back_opening()
            self._close()

    def _take_back_opening(self) -> None:
        """Remove an empty new file, and restore the name of the file it replaced."""
        with contextlib.suppress(OSError):
            if self.size == 0 and is_at(self.place, self._descriptor):
                self._opened.take_back()

    def _check_open(self) -> None:
        if self.closed_because is not None:
            raise StreamClosedError(self.path, f"cannot write: {self.closed_because}")

    def _give_up(self, why: str) -> None:
        self._take_back_opening()
        self.closed_because = f"closed after an error: {why}"
        with contextlib.suppress(OSError):
            self._close_descriptor()
        self.has_said_why = True
        say(f"{self.path}: {self.closed_because}")

    def _close_descriptor(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            unlock(descriptor)
            self.calls.close(descriptor)

    def _abandon(self) -> None:
        """Close the file in a forked child, without a sync and without touching the lock of the parent."""
        self.lock = threading.RLock()
        self.is_busy = False
        self._waiting.clear()
        if self.closed_because is None:
            self.closed_because = OF_THE_PARENT
            self._let_go()

    def _let_go(self) -> None:
        # Closing the last descriptor ends the lock; lines need no flush.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    __del__ = _let_go


def _abandon_all() -> None:
    for file in list(_open_files):
        file._abandon()  # noqa: SLF001 - same module
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
