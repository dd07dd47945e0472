"""The operating system as writers use it, in one table that a test can replace call by call."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable

import msgspec

from toyspec.core.escaping import printable

try:
    import fcntl
except ImportError:  # Windows has no lock that readers do not feel.
    fcntl = None  # type: ignore[assignment]

PASSING_ERRORS = frozenset(
    [errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG, errno.EINTR, errno.EAGAIN]
)
"""Failures of a write that may pass, such as a full disk."""

# What a file system answers that cannot do this at all, as opposed to failing at it.
_NO_LOCKS = frozenset([errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL])
_LOCK_IS_HELD = frozenset([errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES])
# struct flock on Linux: type, whence, start, length, process. A length of 0 reaches to the end, wherever that is.
_RECORD_LOCK = "hhqqi"
_NO_SYNC = frozenset([errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EROFS])


def lock_exclusively(descriptor: int) -> None:
    """Lock an open file against other writers; raise BlockingIOError when one has it.

    The lock ends with the last descriptor of this opening. Without locks on this platform, do nothing.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_record(descriptor: int) -> None:
    """Take a record lock on a whole open file as well; raise BlockingIOError when another process has one.

    Programs that know record locks only, such as those on the JVM, see this lock and not the other. On Linux it belongs
    to the opening of the file. Elsewhere, where one kind of lock sees the other, do nothing.
    """
    if fcntl is not None and sys.platform == "linux":
        wanted = struct.pack(_RECORD_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The system has no record locks of an opening: that of the process ends when any opening of it is closed.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(descriptor: int) -> None:
    """Give up both locks of an open file that is closed next.

    Closing it alone is not enough: a child of this process that has not yet executed its program has it open, too.
    """
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    if fcntl is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):
            given_up = struct.pack(_RECORD_LOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, given_up)


def is_locked(path: str) -> bool:
    """Return whether a writer holds the stream at *path*, without taking a lock; False where that cannot be asked."""
    if fcntl is None or sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        wanted = struct.pack(_RECORD_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, wanted)
        return bool(struct.unpack(_RECORD_LOCK, found)[0] != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(descriptor)


class SystemCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a writer makes. Replace one to see what happens when it fails."""

    open: Callable[..., int] = os.open
    read: Callable[[int, int], bytes] = os.read
    write: Callable[[int, bytes | memoryview], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    ftruncate: Callable[[int, int], None] = os.ftruncate
    close: Callable[[int], None] = os.close
    replace: Callable[..., None] = os.replace
    lock: Callable[[int], None] = lock_exclusively
    lock_record: Callable[[int], None] = lock_record

    def __repr__(self) -> str:
        """Return a text that is short in a signature: which calls are replaced."""
        replaced = [name for name in self.__struct_fields__ if getattr(self, name) is not getattr(SYSTEM_CALLS, name)]
        return f"SystemCalls({', '.join(f'{name}=...' for name in replaced)})"


SYSTEM_CALLS = SystemCalls()
"""The real ones."""


def try_lock(calls: SystemCalls, descriptor: int) -> None:
    """Take both kinds of lock on an open file; raise BlockingIOError when another process has one of them.

    A kind that its file system does not have is left out, and both where it has none.
    """
    for lock in (calls.lock, calls.lock_record):
        try:
            lock(descriptor)
        except OSError as error:
            if error.errno in _LOCK_IS_HELD:
                raise BlockingIOError(error.errno, "another process has the lock") from None
            if error.errno not in _NO_LOCKS:
                raise


def sync_file(calls: SystemCalls, descriptor: int) -> None:
    """Force a file or directory to its device; do nothing where its file system cannot. A failure is final."""
    try:
        calls.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def is_regular(descriptor: int) -> bool:
    """Return whether an open file is a regular one, not a pipe, a device or a directory."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def is_at(path: str, descriptor: int) -> bool:
    """Return whether an open file is the one that *path* names now."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def named(error: OSError, path: str) -> OSError:
    """Return *error*, with *path* in it where it names none."""
    if error.filename is None:
        error.filename = path
    return error


def say(message: str) -> None:
    """Write one line to standard error; never raise, since training must not die of a log."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"toyspec: {printable(message)}\n")
        sys.stderr.flush()


def cause_of(error: BaseException) -> str:
    """Return why *error* happened, without the path that the message around it names."""
    fact = getattr(error, "fact", None) or getattr(error, "strerror", None)
    return fact or str(error) or type(error).__name__
