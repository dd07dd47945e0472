"""The operating system as writers use it, in one table that a test can replace call by call."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable

import msgspec

from toyspec.escaping import printable

try:
    import fcntl
except ImportError:  # Windows has no lock that readers do not feel.
    fcntl = None  # type: ignore[assignment]

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# What a file system answers that cannot do this at all, as opposed to failing at it.
_NO_LOCKS = frozenset([errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL])
_NO_SYNC = frozenset([errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EROFS])


def lock_exclusively(descriptor: int) -> None:
    """Lock an open file against other writers; raise BlockingIOError when one has it.

    The lock ends with the last descriptor of this opening. Without locks on this platform, do nothing.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class SystemCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a writer makes. Replace one to see what happens when it fails."""

    open: Callable[[str, int, int], int] = os.open
    read: Callable[[int, int], bytes] = os.read
    write: Callable[[int, bytes | memoryview], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    ftruncate: Callable[[int, int], None] = os.ftruncate
    close: Callable[[int], None] = os.close
    replace: Callable[[str, str], None] = os.replace
    lock: Callable[[int], None] = lock_exclusively

    def __repr__(self) -> str:
        """Return a text that is short in a signature: which calls are replaced."""
        replaced = [name for name in self.__struct_fields__ if getattr(self, name) is not getattr(SYSTEM_CALLS, name)]
        return f"SystemCalls({', '.join(f'{name}=...' for name in replaced)})"


SYSTEM_CALLS = SystemCalls()
"""The real ones."""


def try_lock(calls: SystemCalls, descriptor: int) -> None:
    """Lock an open file exclusively, unless its file system has no locks; raise BlockingIOError when it is locked."""
    try:
        calls.lock(descriptor)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def sync_file(calls: SystemCalls, descriptor: int) -> None:
    """Force a file or directory to its device; do nothing where its file system cannot. A failure is final."""
    try:
        calls.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def sync_directory(calls: SystemCalls, path: str) -> None:
    """Force the names in the directory *path* to its device; do nothing on Windows, which needs none.

    A directory that may be searched but not read cannot be synced either, which is no failure.
    """
    if os.name == "nt":
        return
    try:
        descriptor = calls.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0)
    except PermissionError:
        return
    try:
        sync_file(calls, descriptor)
    finally:
        calls.close(descriptor)


def write_new_file(calls: SystemCalls, path: str, blocks: Iterable[bytes]) -> None:
    """Write the file *path* anew from *blocks* and force it to its device."""
    descriptor = calls.open(path, _NEW_FILE, 0o666)
    try:
        for block in blocks:
            rest = memoryview(block)
            while rest:
                written = calls.write(descriptor, rest)
                if written <= 0:
                    raise OSError(errno.EIO, "the system took no byte", path)
                rest = rest[written:]
        sync_file(calls, descriptor)
    finally:
        calls.close(descriptor)


def is_regular(descriptor: int) -> bool:
    """Return whether an open file is a regular one, not a pipe, a device or a directory."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def is_at(path: str, descriptor: int) -> bool:
    """Return whether an open file is the one that *path* names now."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def say(message: str) -> None:
    """Write one line to standard error; never raise, since training must not die of a log."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"toyspec: {printable(message)}\n")
        sys.stderr.flush()


def cause_of(error: BaseException) -> str:
    """Return why *error* happened, without the path that the message around it names."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
