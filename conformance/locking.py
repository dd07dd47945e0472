"""The lock of a stream, in both kinds: see spec/writing.md."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_F_OFD_SETLK = 37
_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})
_NOT_HERE = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class HeldError(Exception):
    """Another writer holds the file."""


def take(descriptor: int) -> None:
    """Lock the file of *descriptor* for writing, in each kind that the system has; raise HeldError."""
    flock(descriptor)
    if sys.platform == "linux":
        record_lock(descriptor, _F_OFD_SETLK)


@contextlib.contextmanager
def holding(path: str) -> Iterator[None]:
    """Hold the file at *path* for a while, as a writer in another process does; raise HeldError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        take(descriptor)
        yield
        # Closing is not sufficient: a program that starts at this moment has a copy of the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        if sys.platform == "linux":
            record_lock(descriptor, _F_OFD_SETLK, fcntl.F_UNLCK)
    finally:
        os.close(descriptor)


def flock(descriptor: int) -> None:
    """Take the lock that belongs to an open file; raise HeldError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        _raise_if_held(error)


def record_lock(descriptor: int, command: int = fcntl.F_SETLK, kind: int = fcntl.F_WRLCK) -> None:
    """Take a record lock on the whole file, by default one of the process, or release it; raise HeldError."""
    whole = struct.pack("hhqqi", kind, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(descriptor, command, whole)
    except OSError as error:
        _raise_if_held(error)


def _raise_if_held(error: OSError) -> None:
    """Raise HeldError if *error* means that; ignore an error that means that such locks are not available."""
    if error.errno in _HELD:
        raise HeldError from None
    if error.errno not in _NOT_HERE:
        raise error
