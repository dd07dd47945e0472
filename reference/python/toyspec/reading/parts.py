"""Reads a log that a program writes as several files of one directory, as if they were one file.

The files are the parts, in the order of their names; those of a run that other processes went on with in directories of
their own follow in the order of their times. A part without an LF at its end has one added, unless it is the
last, so that no line goes on in the next file. The log's path is that of the directory. Parts that grow at the same
time are in another order: see ``merged_parts``.
"""

from __future__ import annotations

import io
import os
import re
from bisect import bisect_right
from errno import ESTALE
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from toyspec.reading.resumed_parts import folders_of_run, settled_change

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.format.dialects import Dialect

_HEAD_BYTES = 1 << 16
# The first part may have other records than those that the dialect is known by.
_MOST_HEADS = 4
_COUNTED_BYTES = 1 << 20
_DIGITS = re.compile(r"\d+", re.ASCII)
_MOST_DIGITS = 20
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def part_names(names: Iterable[str]) -> list[str]:
    """Return which of *names* may be parts of one log, in their order; none if they are of no dialect with parts."""
    # Imported here: most directories have a stream of toyspec.
    from toyspec.format.dialects import dialects

    names = sorted(names, key=_place)
    patterns = [dialect.files for dialect in dialects() if dialect.parts]
    found = ([name for name in names if any(fnmatchcase(name, pattern) for pattern in files)] for files in patterns)
    return next(filter(None, found), [])


def written_together(names: Iterable[str]) -> Dialect | None:
    """Return the dialect of the log that *names* may be of if its files grow together; None without one."""
    # Imported here: most directories have a stream of toyspec.
    from toyspec.format.dialects import dialects

    parts = part_names(names)
    known = (each for each in dialects() if each.parts == "together") if parts else ()
    return next((each for each in known if any(fnmatchcase(parts[0], pattern) for pattern in each.files)), None)


def parts_among(directory: str, names: Iterable[str]) -> frozenset[str]:
    """Return which of *names* are files of the log in parts in *directory*; raise OSError."""
    names = list(names)
    dialect = written_together(names)
    if dialect is None:
        return frozenset(part_names(names))
    from toyspec.reading.merged_parts import files_of

    return frozenset(files_of(dialect, directory, names))


def _place(name: str) -> str:
    """Return what orders *name* by the numbers in it, however many digits each has."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(_MOST_DIGITS), name)


def is_in_parts(directory: str, names: Iterable[str] | None = None) -> bool:
    """Return whether *directory* has the parts of one log; *names* are those of its files, where they are known.

    The names decide which files may be parts, and the first bytes of the first ones whether they are.
    """
    try:
        parts = part_names(os.listdir(directory) if names is None else names)
        heads = list(islice(filter(None, (_head(os.path.join(directory, name)) for name in parts)), _MOST_HEADS))
    except OSError:
        return False
    if not heads:
        return False
    from toyspec.format.dialects import dialects
    from toyspec.format.recognition import recognize

    known = [dialect for dialect in dialects() if dialect.parts]
    return any(recognize(head, known) is not None for head in heads)


def _head(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read(_HEAD_BYTES)


class PartsStatus(NamedTuple):
    """The status of the parts as if they were one file."""

    st_size: int
    st_mtime_ns: int
    """Of the part that was changed last."""
    st_nlink: int
    """Number of parts."""
    st_dev: int = 0
    st_ino: int = 0


class Part(NamedTuple):
    """One of the files."""

    name: str
    """Path of the file, relative to the directory of the log."""
    start: int
    """Byte offset of its first byte in the log."""
    size: int
    """Number of bytes of the file."""
    changed: int
    """Time of the last change, in nanoseconds."""
    inner: int = 0
    """Offset of its first byte in the file, which may be in several places of the log."""


def status_of(directory: str) -> PartsStatus:
    """Return the status of the parts in *directory*; raise OSError."""
    dialect = written_together(os.listdir(directory))
    if dialect is not None:
        from toyspec.reading.merged_parts import merged_status

        return merged_status(dialect, directory)
    folders = [os.path.join(directory, folder) for folder in folders_of_run(directory)]
    changes = tuple(map(settled_change, folders))
    return Parts(directory).status() if None in changes else _settled_status(directory, changes)


@lru_cache(maxsize=64)
def _settled_status(directory: str, changes: tuple[int | None, ...]) -> PartsStatus:  # noqa: ARG001 - a part of the key
    return Parts(directory).status()


def parts_in(directory: str) -> Parts:
    """Return the parts in *directory*, in their order; raise OSError if it cannot be listed."""
    dialect = written_together(os.listdir(directory))
    if dialect is None:
        return Parts(directory)
    # Imported here: of few logs, parts are written at the same time.
    from toyspec.reading.merged_parts import MergedParts

    return MergedParts(directory, dialect)


class Parts:
    """The parts in a directory, as they were when they were listed last."""

    is_merged = False
    """True if a file may be in several places of the log."""

    def __init__(self, directory: str) -> None:
        """List the parts in *directory*; raise OSError if it cannot be listed."""
        self.path = directory
        self.parts: list[Part] = []
        self.size = 0
        """Number of bytes of all, those that were added included."""
        self._descriptor, self._opened = -1, ""
        self._folders: dict[str, tuple[str, int | None]] = {}
        self._searched: int | None = None
        self._counted: dict[str, tuple[int, int]] = {}
        self.update()

    def update(self) -> None:
        """Take in what the last part has got, and the parts after it; those before are known."""
        changed = settled_change(os.path.dirname(os.path.abspath(self.path)))
        if not self._folders or changed is None or changed != self._searched:
            # Another process may have gone on with the run.
            found = ("" if folder == os.curdir else folder for folder in folders_of_run(self.path))
            self._folders = {folder: self._folders.get(folder, ("", None)) for folder in (*self._folders, *found)}
            self._searched = changed if self.parts else None
        for folder in self._folders:
            try:
                self._update_folder(folder)
            except FileNotFoundError:
                # Another process's directory is removed once its parts are in a database.
                if not folder:
                    raise

    def _update_folder(self, folder: str) -> None:
        place = os.path.join(self.path, folder)
        changed = settled_change(place)
        last, listed = self._folders[folder]
        # A long run has very many parts: they are listed again only if there may be more.
        names = [last] if last and changed is not None and changed == listed else os.listdir(place)
        is_end = not last or self.parts[-1].name == os.path.join(folder, last)
        found = part_names(name for name in names if _place(name) > _place(last) or (is_end and name == last))
        has_all = [self._add(os.path.join(folder, name)) for name in found]
        if found and self.parts and os.path.dirname(self.parts[-1].name) == folder:
            last = os.path.basename(self.parts[-1].name)
        self._folders[folder] = (last, changed if all(has_all) else None)

    def _add(self, name: str) -> bool:
        """Take in the part *name*, the last or one after it; return False if it has no bytes yet."""
        try:
            status = os.stat(os.path.join(self.path, name))
        except FileNotFoundError:
            return True
        if not status.st_size:
            return False
        if self.parts and self.parts[-1].name == name:
            # A part that got shorter is noticed by who has read it.
            self.size = self.parts.pop().start
        elif self.parts and self._byte_before(self.size) != b"\n":
            self.size += 1
        self.parts.append(Part(name, self.size, status.st_size, status.st_mtime_ns))
        self.size += status.st_size
        return True

    def _byte_before(self, offset: int) -> bytes:
        try:
            return self.read(offset - 1, 1)
        except OSError:
            return b"\n"

    def read(self, offset: int, size: int) -> bytes:
        """Return at least one and at most *size* bytes from *offset* on, none at the end.

        Raise OSError, which names the part if it was removed after it was listed.
        """
        if offset >= self.size or offset < 0 or size <= 0:
            return b""
        at = bisect_right(self.parts, offset, key=lambda part: part.start) - 1
        part = self.parts[at]
        inner = offset - part.start
        if inner >= part.size:
            return b"\n"
        return self.read_part(part.name, part.inner + inner, min(size, part.size - inner))

    def read_part(self, name: str, offset: int, size: int) -> bytes:
        """Return at least one and at most *size* bytes of the file *name* from *offset* on; raise OSError."""
        if self._opened != name:
            self._open(name)
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        data = os.read(self._descriptor, size)
        if not data:
            raise OSError(ESTALE, f"{name} is shorter than when it was listed")
        return data

    def _open(self, name: str) -> None:
        self.close()
        try:
            self._descriptor = os.open(os.path.join(self.path, name), _FLAGS)
        except FileNotFoundError:
            raise OSError(ESTALE, f"{name} has been removed, so reading stopped") from None
        self._opened = name

    def place(self, offset: int) -> Part | None:
        """Return the part that the byte at *offset* is in; the last for the end, None without any."""
        at = bisect_right(self.parts, offset, key=lambda part: part.start) - 1
        return self.parts[at] if self.parts else None

    def located(self, offset: int) -> tuple[str, int, int]:
        """Return the name of the file that the byte at *offset* is in, its line there and its offset there.

        Raise OSError, and ValueError without any file.
        """
        part = self.place(offset)
        if part is None:
            raise ValueError(f"{self.path} has no parts")
        inner = part.inner + offset - part.start
        # Findings come in order: what is before the last one is counted once.
        at, lines = self._counted.get(part.name, (0, 0))
        if at > inner:
            at = lines = 0
        end = min(inner, part.inner + part.size)
        while at < end:
            data = self.read_part(part.name, at, min(_COUNTED_BYTES, end - at))
            lines += data.count(b"\n")
            at += len(data)
        self._counted[part.name] = (at, lines)
        return part.name, lines + 1, inner

    def status(self) -> PartsStatus:
        """Return the status of the parts."""
        changed = max((part.changed for part in self.parts), default=0)
        return PartsStatus(self.size, changed, len(self.parts))

    def close(self) -> None:
        """Close the part that is open; further calls do nothing."""
        descriptor, self._descriptor, self._opened = self._descriptor, -1, ""
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()


class PartsFile(io.RawIOBase):
    """The parts in a directory as one binary file, as long as they were when it was opened."""

    def __init__(self, directory: str) -> None:
        """List the parts in *directory*; raise OSError."""
        self.name = directory
        self.parts = parts_in(directory)
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to *offset*, counted from the start, the position or the end; return the position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.parts.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill *buffer* from the position on; return how many bytes, 0 at the end."""
        taken = 0
        while taken < len(buffer) and (data := self.parts.read(self._position, len(buffer) - taken)):
            buffer[taken : taken + len(data)] = data
            taken += len(data)
            self._position += len(data)
        return taken

    def close(self) -> None:
        """Close the part that is open."""
        if hasattr(self, "parts"):
            self.parts.close()
        super().close()
