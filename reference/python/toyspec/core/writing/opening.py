"""Opens regular files for appending, locks them, checks that their paths still name them, and keeps replaced files.

No earlier file is ever overwritten or deleted: it gets a free name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING, Literal, TypeVar

from toyspec.core.directories import NO_LINK
from toyspec.core.errors import StreamRefusedError
from toyspec.core.format.profiles import ANNOTATIONS_FILE, SEAL_FILE
from toyspec.core.system_calls import SystemCalls, is_at, is_regular, say, try_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")
_FLAGS = (
    os.O_RDWR
    | os.O_APPEND
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)  # does not wait for the other end of a FIFO
    | NO_LINK
)
_MODE = 0o666
# The file at a path may be replaced between opening and locking it; this many times in a row is not an accident.
_ATTEMPTS = 100
_POLL_SECONDS = 0.02
# Writers of a line each, such as `toyspec annotate`, hold a file for less.
_SILENT_SECONDS = 0.1


class Opened:
    """An open and locked file, and what opening it changed on the disk."""

    def __init__(self, path: str, descriptor: int, *, is_new: bool) -> None:
        self.descriptor = descriptor
        found = os.fstat(descriptor)
        self.identity = (found.st_dev, found.st_ino)
        """Numbers of the device and of the file."""
        self.path = path
        self.is_new = is_new
        """True if there was no file before."""
        self.moves: list[tuple[str, str]] = []
        """Old and new path of every file that was moved to make room, in order."""

    def take_back(self) -> None:
        """Remove the new file, which must be empty, and restore the names of moved ones if these are free."""
        with contextlib.suppress(OSError):
            if self.is_new:
                os.unlink(self.path)
            restore(self.moves)


def in_time(open_file: Callable[[], _T], seconds: float) -> _T:
    """Return what *open_file* does; wait up to *seconds* while another writer has the file, then raise its error."""
    began, has_said = time.monotonic(), False
    while True:
        try:
            return open_file()
        except StreamRefusedError as error:
            waited = time.monotonic() - began
            if error.reason != "locked" or not seconds:
                raise
            if waited >= seconds:
                fact = f"another writer has had it open for {seconds:g} s; end that process, or wait longer"
                raise StreamRefusedError(error.filename, "locked", f"{fact}; else write to another directory") from None
            if waited >= _SILENT_SECONDS and not has_said:
                has_said = True
                say(f"{error.filename}: another writer has it open; waiting up to {seconds:g} s until it ends")
        time.sleep(min(_POLL_SECONDS, seconds - waited))


def create(path: str, calls: SystemCalls) -> Opened:
    """Create the file *path* and lock it; raise FileExistsError when there is one."""
    descriptor = _opened(path, _FLAGS | os.O_CREAT | os.O_EXCL, calls)
    try:
        _lock_or_close(path, descriptor, calls)
    except StreamRefusedError:
        raise  # another process has opened it already, and writes it
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    opened = Opened(path, descriptor, is_new=True)
    try:
        opened.moves = lift_seal(path, calls)
    except OSError:
        opened.take_back()
        with contextlib.suppress(OSError):
            calls.close(descriptor)
        raise
    return opened


def reopen(path: str, calls: SystemCalls, *, missing: Literal["create", "fail"] = "create") -> Opened:
    """Open and lock the file that *path* names when this returns; raise StreamRefusedError if that is not allowed."""
    for _ in range(_ATTEMPTS):
        try:
            descriptor = _opened(path, _FLAGS, calls)
        except FileNotFoundError:
            if missing == "fail":
                raise
            with contextlib.suppress(FileExistsError):
                return create(path, calls)
            continue
        _lock_or_close(path, descriptor, calls)
        if is_at(path, descriptor):
            return Opened(path, descriptor, is_new=False)
        calls.close(descriptor)
    raise _ever_replaced(path)


def replace(path: str, calls: SystemCalls) -> Opened:
    """Create the file *path*; an existing file moves to ``<path>.prev``, and an older one from there to ``.prev-N``.

    N is the smallest free number from 1. An empty file is used, and nothing moves.
    """
    moves: list[tuple[str, str]] = []
    for _ in range(_ATTEMPTS):
        old = reopen(path, calls)
        if os.fstat(old.descriptor).st_size == 0:
            old.moves = moves
            return old
        try:
            if os.name == "nt":  # An open file cannot be moved there.
                calls.close(old.descriptor)
            moves += keep(path, calls)
            new = create(path, calls)
        except FileExistsError:
            continue
        except OSError:
            with contextlib.suppress(OSError):
                restore(moves)
            raise
        finally:
            if os.name != "nt":
                with contextlib.suppress(OSError):
                    calls.close(old.descriptor)
        new.moves += moves
        return new
    raise _ever_replaced(path)


def move(path: str, calls: SystemCalls) -> None:
    """Move the file *path* to ``<path>.prev`` as ``replace`` does; raise StreamRefusedError if a writer holds it."""
    old = reopen(path, calls, missing="fail")
    try:
        has_bytes = os.fstat(old.descriptor).st_size > 0
        # Locked, so that no writer which replaces it too finds it gone.
        if has_bytes and os.name != "nt":
            keep(path, calls)
    finally:
        calls.close(old.descriptor)
    if has_bytes and os.name == "nt":  # An open file cannot be moved there.
        keep(path, calls)


def restore(moves: list[tuple[str, str]]) -> None:
    """Restore the names of moved files, the last first; raise OSError if one is taken."""
    for source, target in reversed(moves):
        try:
            # A link, unlike a move, cannot replace a file that another process has created meanwhile.
            os.link(target, source)
            os.unlink(target)
        except OSError:
            if os.path.lexists(source):
                raise
            os.rename(target, source)  # the file system has no links


def free_names(path: str, *, first: int) -> Iterator[str]:
    """Yield ``<path>-N`` for every N from *first* on, where no file has that name."""
    number = first
    while True:
        name = f"{path}-{number}"
        if not os.path.lexists(name):
            yield name
        number += 1


def keep(path: str, calls: SystemCalls) -> list[tuple[str, str]]:
    """Move *path* to ``<path>.prev``, an older file there first to ``<path>.prev-N``; return old and new paths."""
    previous = f"{path}.prev"
    moves = [(previous, next(free_names(previous, first=1)))] if os.path.lexists(previous) else []
    moves.append((path, previous))
    done: list[tuple[str, str]] = []
    try:
        for move in moves:
            calls.replace(*move)
            done.append(move)
    except OSError:
        with contextlib.suppress(OSError):
            restore(done)
        raise
    return moves


def lift_seal(path: str, calls: SystemCalls) -> list[tuple[str, str]]:
    """Keep the seal beside the stream *path* under another name, since the stream changes; return old and new paths."""
    if os.path.basename(path) == ANNOTATIONS_FILE:
        return []  # no seal covers it
    seal = os.path.join(os.path.dirname(path), SEAL_FILE)
    return keep(seal, calls) if os.path.lexists(seal) else []


def _opened(path: str, flags: int, calls: SystemCalls) -> int:
    is_link = not NO_LINK and os.path.islink(path)
    try:
        if not is_link:
            return calls.open(path, flags, _MODE)
    except OSError as error:
        if error.errno != errno.ELOOP or not os.path.islink(path):
            raise
    fact = "a symbolic link, not a regular file; nothing is written through one: name the file that it leads to"
    raise StreamRefusedError(path, "irregular", fact)


def _ever_replaced(path: str) -> StreamRefusedError:
    return StreamRefusedError(
        path, "locked", "other writers keep replacing it; stop them, or write to another directory"
    )


def _lock_or_close(path: str, descriptor: int, calls: SystemCalls) -> None:
    try:
        _lock_regular(path, descriptor, calls)
    except BaseException:
        with contextlib.suppress(OSError):
            calls.close(descriptor)
        raise


def _lock_regular(path: str, descriptor: int, calls: SystemCalls) -> None:
    if not is_regular(descriptor):
        raise StreamRefusedError(path, "irregular", "not a regular file; a log must be one")
    try:
        try_lock(calls, descriptor)
    except BlockingIOError:
        raise StreamRefusedError(
            path, "locked", "another writer has it open; wait until it closes the file, or write to another directory"
        ) from None
