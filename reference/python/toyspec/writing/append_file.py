"""A file that grows by whole lines and survives the death of its writer at any moment.

Each line goes to the file by one unbuffered write of the line and its LF to an O_APPEND descriptor. What ``append``
has returned for is in the operating system's hands: nothing of it is lost when the process dies. A line that fails
half-way is completed, else rolled back, else the file is closed for good.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import weakref
from collections import deque
from typing import Literal

import msgspec

from toyspec.errors import ToyspecError
from toyspec.escaping import printable
from toyspec.system_calls import (
    SYSTEM_CALLS,
    SystemCalls,
    cause_of,
    is_at,
    is_regular,
    say,
    sync_directory,
    sync_file,
    try_lock,
)

Durability = Literal["process", "fsync"]
"""What a line survives once it is acknowledged: the end of the process, or of the machine as well."""

_Sync = Literal["as-opened", "now"]

_FLAGS = os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_MODE = 0o666
# The file at a path may be replaced between opening and locking it; this often in a row is no accident.
_OPEN_ATTEMPTS = 100

_open_files: dict[int, weakref.ref[AppendFile]] = {}
_fork_hook_is_set = False


class _FileError(ToyspecError, OSError):
    def __str__(self) -> str:
        return f"{printable(self.filename)}: {self.strerror}"


class StreamRefusedError(_FileError):
    """The file cannot be written, although the system would allow it; nothing was changed."""

    def __init__(self, path: str, reason: Literal["locked", "irregular", "damaged", "complete"], fact: str) -> None:
        OSError.__init__(self, errno.EBUSY if reason == "locked" else errno.EINVAL, fact, path)
        self.reason = reason
        """Locked: another writer has it. Irregular: a pipe, device or directory. Others: what its lines say."""


class StreamClosedError(_FileError):
    """The file was closed: by its owner, for good after a failure, or because the process was forked."""

    def __init__(self, path: str, fact: str) -> None:
        OSError.__init__(self, errno.EBADF, fact, path)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is written."""

    durability: Durability = "process"
    sync_seconds: float = 0.0
    """With durability fsync, a line is synced when the last sync is so long ago, or at close; 0 syncs every line."""
    calls: SystemCalls = SYSTEM_CALLS


_DEFAULT = Options()


class AppendFile:
    """One file of lines, open for appending, and the only writer of it where the platform has locks.

    Threads may share it. A signal handler may append while it interrupts ``append``: its line is written right
    after the interrupted one. After a fork the child's handle is dead.
    """

    _descriptor = -1

    def __init__(self, path: str, descriptor: int, *, size: int, options: Options = _DEFAULT) -> None:
        self.path = path
        self.committed = size
        """Number of bytes that are known to be whole lines."""
        self.appended = 0
        """Number of lines that this handle has committed."""
        self.lock = threading.RLock()
        """Held while a line is written; hold it to keep several calls together."""
        self.closed_because: str | None = None
        """Why nothing can be written any more; None while the file is open."""
        self.has_said_why = False
        """True once standard error has been told that the file is closed for good."""
        self._descriptor = descriptor
        self.calls = options.calls
        self._write = options.calls.write
        self._sync_seconds = options.sync_seconds if options.durability == "fsync" else None
        self._synced_at = time.monotonic()
        self._is_synced = True
        self._pid = os.getpid()
        self._is_writing = False
        self._closes_next = False
        self._in_flight = 0
        self._deferred: deque[tuple[bytes, _Sync]] = deque()
        _remember(self)

    @classmethod
    def create(cls, path: str, *, options: Options = _DEFAULT) -> AppendFile:
        """Create the file *path*; raise FileExistsError when there is one."""
        descriptor = options.calls.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE)
        _lock_or_close(path, descriptor, options.calls)
        return cls(path, descriptor, size=0, options=options)

    @classmethod
    def reopen(
        cls, path: str, *, create: Literal["if-missing", "never"] = "if-missing", options: Options = _DEFAULT
    ) -> AppendFile:
        """Open the file *path* and lock it; raise StreamRefusedError when another writer has it.

        The content is not looked at: ``committed`` is the size, which may end in a fragment; see ``fragments``.
        """
        for _ in range(_OPEN_ATTEMPTS):
            try:
                descriptor = options.calls.open(path, os.O_RDWR | _FLAGS, _MODE)
            except FileNotFoundError:
                if create == "never":
                    raise
                with contextlib.suppress(FileExistsError):
                    return cls.create(path, options=options)
                continue
            _lock_or_close(path, descriptor, options.calls)
            if is_at(path, descriptor):
                return cls(path, descriptor, size=os.fstat(descriptor).st_size, options=options)
            options.calls.close(descriptor)
        raise StreamRefusedError(path, "locked", "other writers replace it again and again")

    @classmethod
    def replace(cls, path: str, *, options: Options = _DEFAULT) -> AppendFile:
        """Create the file *path*; an older one moves to ``<path>.prev``, over one that is there already.

        An empty older file is used as it is. Raise StreamRefusedError when another writer has the older one.
        """
        for _ in range(_OPEN_ATTEMPTS):
            old = cls.reopen(path, options=options)
            if old.committed == 0:
                return old
            try:
                if os.name == "nt":  # An open file cannot be moved there.
                    old.close()
                options.calls.replace(path, f"{path}.prev")
                return cls._create_or_restore(path, options)
            except FileExistsError:
                continue
            finally:
                old.close()
        raise StreamRefusedError(path, "locked", "other writers replace it again and again")

    @classmethod
    def _create_or_restore(cls, path: str, options: Options) -> AppendFile:
        try:
            return cls.create(path, options=options)
        except OSError:
            with contextlib.suppress(OSError):
                # A link, unlike a move, cannot cover a file that someone else has created meanwhile.
                os.link(f"{path}.prev", path)
                os.unlink(f"{path}.prev")
            raise

    @property
    def is_foreign(self) -> bool:
        """True in a process that was forked off the one that opened the file."""
        return self._pid != os.getpid()

    def append(self, line: bytes, *, sync: _Sync = "as-opened") -> None:
        """Write *line*, which must hold no LF, and its LF.

        When this returns, the line is committed. When it raises OSError, the line is not in the file, or the file
        is closed for good and says so. ``sync="now"`` forces the file and its directory to the device.
        """
        with self.lock:
            if self._is_writing:
                self._deferred.append((line, sync))
                return
            self.commit(line + b"\n", sync)
            if self._deferred or self._closes_next:
                self._do_deferred()

    def settle(self) -> None:
        """Find out whether a line is committed whose ``append`` an exception interrupted, else take its part back.

        ``appended`` tells which. The next ``append`` does the same first.
        """
        with self.lock:
            expected = self.committed + self._in_flight
            if not self._in_flight or self.closed_because is not None or self.is_foreign:
                return
            if self.size >= expected:
                self.committed, self._in_flight = expected, 0
                self.appended += 1
            else:
                self._roll_back(0, InterruptedError(errno.EINTR, "interrupted"))

    def sync(self, *, directory: Literal["too", "not"] = "not") -> None:
        """Force what is committed to the device. A failure closes the file for good: it may not be asked twice."""
        with self.lock:
            self._check_open()
            self._is_synced = True
            try:
                sync_file(self.calls, self._descriptor)
                if directory == "too":
                    sync_directory(self.calls, os.path.dirname(self.path))
            except OSError as error:
                self._give_up(f"fsync failed ({cause_of(error)}), lines that were written may be lost")
                raise
            self._synced_at = time.monotonic()

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
        with self.lock:
            if self.closed_because is not None or self.is_foreign:
                return
            if self._is_writing:
                self._closes_next = True
                return
            if self._sync_seconds is not None and not self._is_synced:
                self.sync()
            self.closed_because = "it was closed"
            self._close_descriptor()

    def _do_deferred(self) -> None:
        """Do what signal handlers wanted while a line was being written."""
        while self._deferred:
            line, sync = self._deferred.popleft()
            self.commit(line + b"\n", sync)
        if self._closes_next:
            self.close()

    def commit(self, data: bytes, sync: _Sync = "as-opened") -> None:
        """Append *data*, a line with its LF, for a caller that holds ``lock`` and is not called while it writes."""
        self._is_writing = True
        try:
            if self._in_flight or self.closed_because is not None or self._pid != os.getpid():
                self.settle()
                self._check_open()
            self._in_flight = length = len(data)
            try:
                written = self._write(self._descriptor, data)
            except OSError as error:
                self._roll_back(0, error)
                raise
            if written != length:
                self._complete(data, written)
            # An exception from a signal cannot come between these three.
            self.committed += length
            self.appended += 1
            self._in_flight = 0
            self._is_synced = False
        finally:
            self._is_writing = False
        if sync == "now":
            self.sync(directory="too")
        elif self._sync_seconds is not None and time.monotonic() - self._synced_at >= self._sync_seconds:
            self.sync()

    def _complete(self, data: bytes, written: int) -> None:
        """Write the rest of a line of which the system took only a part."""
        rest = memoryview(data)
        while written < len(data):
            try:
                written += self._write_some(rest[written:])
            except OSError as error:
                self._roll_back(written, error)
                raise

    def _write_some(self, data: memoryview) -> int:
        written = self._write(self._descriptor, data)
        if written <= 0:
            raise OSError(errno.EIO, "the system took no byte", self.path)
        return written

    def _roll_back(self, written: int, cause: OSError) -> None:
        """Remove the part of a line that could not be written whole; close the file for good when that fails."""
        try:
            self._remove_part(written)
        except OSError as error:
            self._give_up(f"a line could not be written ({cause_of(cause)}) nor removed ({cause_of(error)})")

    def _remove_part(self, written: int) -> None:
        size = self.size
        excess = size - self.committed
        if excess > self._in_flight:
            # Lines of another writer lie there: cutting would lose them.
            raise OSError(errno.ESTALE, "another process writes the file", self.path)
        # Someone may have emptied the file under the writer; then only what this call wrote may go.
        target = self.committed if excess >= 0 else max(size - written, 0)
        if target != size:
            self.calls.ftruncate(self._descriptor, target)
        self.committed, self._in_flight = target, 0

    def _check_open(self) -> None:
        if self.closed_because is None and self.is_foreign:
            self._abandon()
        if self.closed_because is not None:
            raise StreamClosedError(self.path, f"cannot write: {self.closed_because}")

    def _give_up(self, why: str) -> None:
        self.closed_because = f"closed for good: {why}"
        with contextlib.suppress(OSError):
            self._close_descriptor()
        self.has_said_why = True
        say(f"{self.path}: {self.closed_because}")

    def _close_descriptor(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        _open_files.pop(id(self), None)
        if descriptor >= 0:
            self.calls.close(descriptor)

    def _abandon(self) -> None:
        """Let go of the file in a forked child, without a word to the device or to the lock of the parent."""
        self.lock = threading.RLock()
        self._is_writing = False
        self._deferred.clear()
        if self.closed_because is None:
            self.closed_because = "it was opened by the parent process; open one file in each process"
            self._let_go()

    def _let_go(self) -> None:
        # Only the descriptor is given back, and with the last one the lock; lines need no flush.
        descriptor, self._descriptor = self._descriptor, -1
        _open_files.pop(id(self), None)
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    __del__ = _let_go


def _remember(file: AppendFile) -> None:
    global _fork_hook_is_set  # noqa: PLW0603 - the interpreter offers no way to take a hook back
    _open_files[id(file)] = weakref.ref(file)
    if not _fork_hook_is_set and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_abandon_all)
        _fork_hook_is_set = True


def _abandon_all() -> None:
    for reference in list(_open_files.values()):
        file = reference()
        if file is not None:
            file._abandon()  # noqa: SLF001 - same module
    _open_files.clear()


def _lock_or_close(path: str, descriptor: int, calls: SystemCalls) -> None:
    try:
        _lock_regular(path, descriptor, calls)
    except BaseException:
        with contextlib.suppress(OSError):
            calls.close(descriptor)
        raise


def _lock_regular(path: str, descriptor: int, calls: SystemCalls) -> None:
    if not is_regular(descriptor):
        raise StreamRefusedError(path, "irregular", "not a regular file")
    try:
        try_lock(calls, descriptor)
    except BlockingIOError:
        raise StreamRefusedError(path, "locked", "another writer has it open") from None
