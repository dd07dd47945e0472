"""The lock of a stream, in both kinds: see spec/writing.md."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys

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


def flock(descriptor: int) -> None:
    """Take the lock that belongs to an open file; raise HeldError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        _raise_if_held(error)


def record_lock(descriptor: int, command: int = fcntl.F_SETLK) -> None:
    """Take a record lock on the whole file, by default one of the process; raise HeldError."""
    whole = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
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
