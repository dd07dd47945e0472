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
    from collections.abc import Collection, Iterator

_F_OFD_SETLK = 37
_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})
_NOT_HERE = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class HeldError(Exception):
    """Another writer holds the file."""


KINDS = ("flock", "record") if sys.platform == "linux" else ("flock",)
"""The kinds of locks that do not conflict with each other on this system."""


def take(descriptor: int, kinds: Collection[str] = KINDS) -> None:
    """Lock the file of *descriptor* for writing, in each of *kinds* that the system has; raise HeldError."""
    if "flock" in kinds:
        flock(descriptor)
    if "record" in kinds and "record" in KINDS:
        record_lock(descriptor, _F_OFD_SETLK)


@contextlib.contextmanager
def holding(path: str, kinds: Collection[str] = KINDS) -> Iterator[None]:
    """Hold the file at *path* for a while, as a writer in another process does; raise HeldError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        take(descriptor, kinds)
        yield
        # Closing is not sufficient: a program that starts at this moment has a copy of the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        if "record" in KINDS:
            record_lock(descriptor, _F_OFD_SETLK, fcntl.F_UNLCK)
    finally:
        os.close(descriptor)


def not_held(path: str, kinds: Collection[str] = KINDS) -> list[str]:
    """Return those of *kinds* of which no writer holds the file at *path*, although the file system has them."""
    return [kind for kind in KINDS if kind in kinds and not _is_held(path, kind) and _is_there(path, kind)]


def _is_held(path: str, kind: str) -> bool:
    try:
        with holding(path, (kind,)):
            return False
    except HeldError:
        return True


def _is_there(path: str, kind: str) -> bool:
    """Return whether the file system of *path* has locks of a kind: it refuses the second one."""
    with holding(path, (kind,)):
        return _is_held(path, kind)


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
