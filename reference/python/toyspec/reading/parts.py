"""Reads and follows a log that a program writes as several files of one directory, as if they were one file.

Of parts that follow one another, a file is ended before the next one begins: they are in the order of their names, and
those of a run that other processes went on with in directories of their own follow in the order of their times. A part
without an LF at its end has one added, unless it is the last, so that no line goes on in the next file.

Of parts that are written together, each file is in the order of its lines. Where the log is opened, lines of different
files are in the order of their times, and of their steps within one time, so that what reads the log sees times and
steps that do not go back. While it is followed, what the files get is added at the end, in this order for each poll:
what was read before does not move. What follows the last LF of each file is at the end of all, as one fragment, since
the next LF may come to any of them. Each line of the shorter files takes memory: where they have very many, the files
follow one another.

The log's path is that of the directory.
"""

from __future__ import annotations

import io
import os
import re
import time
from bisect import bisect_right
from errno import ESTALE
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.errors import StreamMissingError
from toyspec.format.dialect_forms import form_of
from toyspec.format.dialect_mapping import count_of, time_of
from toyspec.format.dialects import dialect_named, dialects
from toyspec.format.line_validation import decode
from toyspec.format.lines import end_of_lines
from toyspec.format.recognition import recognize
from toyspec.reading.live_bytes import LiveBytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.format.dialects import Dialect
    from toyspec.reading.live_bytes import Content, Status

_HEAD_BYTES = 1 << 16
# The first part may have other records than those that the dialect is known by.
_MOST_HEADS = 4
_COUNTED_BYTES = 1 << 20
_DIGITS = re.compile(r"\d+", re.ASCII)
_MOST_DIGITS = 20
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
# Times of files have the resolution of the system's clock, some milliseconds.
_SETTLED_NANOSECONDS = 100_000_000
_MOST_FOLDERS = 10_000
_BLOCK_BYTES = 1 << 16
# A longer line has no place of its own: it stays with the line before.
_MOST_LINE_BYTES = 1 << 20
# They take 22 MB, and the places of their lines in the log 33 more; a trainer validates far less often.
_MOST_LINES = 100_000
_Key = tuple[float, float]
_FIRST: _Key = (-float("inf"), -float("inf"))


def part_names(names: Iterable[str]) -> list[str]:
    """Return which of *names* may be parts of one log, in their order; none if they are of no dialect with parts."""
    names = sorted(names, key=_place)
    patterns = [dialect.files for dialect in dialects() if dialect.parts]
    found = ([name for name in names if any(fnmatchcase(name, pattern) for pattern in files)] for files in patterns)
    return next(filter(None, found), [])


def written_together(names: Iterable[str]) -> Dialect | None:
    """Return the dialect of the log that *names* may be of if its files grow together; None without one."""
    parts = part_names(names)
    known = (each for each in dialects() if each.parts == "together") if parts else ()
    return next((each for each in known if any(fnmatchcase(parts[0], pattern) for pattern in each.files)), None)


def parts_among(directory: str, names: Iterable[str]) -> frozenset[str]:
    """Return which of *names* are files of the log in parts in *directory*; raise OSError."""
    names = list(names)
    dialect = written_together(names)
    if dialect is None:
        return frozenset(part_names(names))
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
        return _status(files_of(dialect, directory, os.listdir(directory)))
    folders = [os.path.join(directory, folder) for folder in folders_of_run(directory)]
    changes = tuple(map(settled_change, folders))
    return Parts(directory).status() if None in changes else _settled_status(directory, changes)


@lru_cache(maxsize=64)
def _settled_status(directory: str, changes: tuple[int | None, ...]) -> PartsStatus:  # noqa: ARG001 - a part of the key
    return Parts(directory).status()


def parts_in(directory: str) -> Parts:
    """Return the parts in *directory*, in their order; raise OSError if it cannot be listed."""
    dialect = written_together(os.listdir(directory))
    return Parts(directory) if dialect is None else MergedParts(directory, dialect)


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
        if changed is None or changed != self._searched:
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


class _Range(NamedTuple):
    """Whole lines of a file."""

    name: str
    start: int
    end: int


class _Line(NamedTuple):
    """A line, and what orders it."""

    key: _Key
    name: str
    start: int
    size: int


def files_of(dialect: Dialect, directory: str, names: Iterable[str]) -> dict[str, os.stat_result]:
    """Return the status of those *names* in *directory* that are files of a log of *dialect*, in their order.

    Their names fit, and so do their first records; a file without a whole line may get one. Raises OSError.
    """
    found: dict[str, os.stat_result] = {}
    sorted_names = sorted(names)
    for pattern in dialect.files:
        for name in sorted_names:
            if name in found or not fnmatchcase(name, pattern) or not os.path.isfile(os.path.join(directory, name)):
                continue
            path = os.path.join(directory, name)
            status = os.stat(path)
            if _has_records(path, status.st_ino, min(status.st_size, _HEAD_BYTES), dialect.name):
                found[name] = status
    return found


@lru_cache(maxsize=256)
def _has_records(path: str, inode: int, size: int, dialect: str) -> bool:  # noqa: ARG001 - a part of the key
    with open(path, "rb") as file:
        head = file.read(size)
    return b"\n" not in head or recognize(head, [dialect_named(dialect)]) is not None


def _status(files: dict[str, os.stat_result]) -> PartsStatus:
    filled = [status for status in files.values() if status.st_size]
    changed = max((status.st_mtime_ns for status in filled), default=0)
    return PartsStatus(sum(status.st_size for status in filled), changed, len(filled))


class MergedParts(Parts):
    """The files of a log that grow at the same time, as they were when they were listed last."""

    is_merged = True

    def __init__(self, directory: str, dialect: Dialect) -> None:
        """List the files of the log of *dialect* in *directory*; raise OSError if it cannot be listed."""
        self._dialect = dialect
        self._form = form_of(dialect)
        self._files: dict[str, os.stat_result] = {}
        self._taken: dict[str, int] = {}
        """Where the whole lines of each file end that have their place in the log."""
        super().__init__(directory)

    def update(self) -> None:
        """Take in what the files have got."""
        files = files_of(self._dialect, self.path, os.listdir(self.path))
        if _signature(files) == _signature(self._files):
            return
        # Another file may be at the name of the one that is open.
        self.close()
        is_cut = any(name not in files or files[name].st_size < taken for name, taken in self._taken.items())
        if is_cut:
            self._taken = {}
            self._counted = {}
        self._files = files
        self.parts = [part for part in self.parts if not is_cut and part.inner < self._taken.get(part.name, 0)]
        self.size = self.parts[-1].start + self.parts[-1].size if self.parts else 0
        starts = {name: self._taken.get(name, 0) for name in files}
        grown = [_Range(name, start, self._end_of_lines(name, start)) for name, start in starts.items()]
        for lines in self._merged([each for each in grown if each.end > each.start]):
            self._append(lines)
        self._taken = {each.name: each.end for each in grown}
        for name, status in files.items():
            self._append(_Range(name, self._taken[name], status.st_size), is_fragment=True)

    def status(self) -> PartsStatus:
        """Return the status of the files."""
        return _status(self._files)

    def _append(self, found: _Range, *, is_fragment: bool = False) -> None:
        size = found.end - found.start
        last = self.parts[-1] if self.parts else None
        if last is not None and not is_fragment and (last.name, last.inner + last.size) == found[:2]:
            self.parts[-1] = last._replace(size=last.size + size)
        elif size:
            self.parts.append(Part(found.name, self.size, size, 0, found.start))
        self.size += size

    def _end_of_lines(self, name: str, start: int) -> int:
        """Return where the last whole line of the file *name* ends, *start* if there is none after it."""
        return end_of_lines(partial(self._exactly, name), self._files[name].st_size, start=start)

    def _exactly(self, name: str, offset: int, size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += self.read_part(name, offset + len(found), size - len(found))
        return found

    def _merged(self, grown: list[_Range]) -> Iterator[_Range]:
        """Yield the lines of *grown* in the order of their times; the first is the one with the most lines."""
        if not grown:
            return
        longest, *others = grown
        lines = list(islice((line for each in others for line in self._lines(each)), _MOST_LINES + 1))
        if len(lines) > _MOST_LINES:
            yield from grown
            return
        at = longest.start
        # Sorting keeps the order of files where keys are equal.
        for line in sorted(lines, key=lambda line: line.key):
            place = self._place(_Range(longest.name, at, longest.end), line.key)
            yield _Range(longest.name, at, place)
            yield _Range(line.name, line.start, line.start + line.size)
            at = place
        yield _Range(longest.name, at, longest.end)

    def _lines(self, lines: _Range) -> Iterator[_Line]:
        """Yield each of *lines*; one without a time, or with an earlier one, stays after the line before."""
        key, at = _FIRST, lines.start
        while at < lines.end:
            end = self._line_end(lines.name, at, lines.end)
            key = max(key, self._key(lines.name, at, end) or _FIRST)
            yield _Line(key, lines.name, at, end - at)
            at = end

    def _place(self, lines: _Range, key: _Key) -> int:
        """Return where the first of *lines* begins that comes after *key*, by bisection."""
        name, low, high = lines
        while low < high:
            middle = (low + high) // 2
            start = self._line_start(name, low, middle)
            end = self._line_end(name, middle, high)
            if (self._key(name, start, end) or _FIRST) <= key:
                low = end
            else:
                high = start
        return low

    def _line_start(self, name: str, low: int, offset: int) -> int:
        """Return where the line begins that the byte at *offset* is in, *low* at the least."""
        return end_of_lines(partial(self._exactly, name), offset, start=low, first=1 << 10)

    def _line_end(self, name: str, offset: int, high: int) -> int:
        """Return where the line ends that the byte at *offset* is in, with its LF, *high* at the most."""
        size = 1 << 10
        while offset < high:
            data = self._exactly(name, offset, min(size, high - offset))
            at = data.find(b"\n")
            if at >= 0:
                return offset + at + 1
            offset, size = offset + len(data), _BLOCK_BYTES
        return high

    def _key(self, name: str, start: int, end: int) -> _Key | None:
        """Return time and step of a line; None for one without a time."""
        if end - start > _MOST_LINE_BYTES:
            return None
        data = self._exactly(name, start, end - start).rstrip(b"\r\n")
        value = self._form.read(data, first=False) or self._form.validate(data, first=False).value
        if value is None:
            return None
        times = (time_of(value.get(key.key), key.unit) for key in self._dialect.time)
        time = next((found[0] for found in times if found is not None), None)
        step = next((found for key in self._dialect.step if (found := count_of(value.get(key))) is not None), None)
        return None if time is None else (time, -float("inf") if step is None else float(step))


def _signature(files: dict[str, os.stat_result]) -> dict[str, tuple[int, int, int]]:
    return {name: (status.st_size, status.st_mtime_ns, status.st_ino) for name, status in files.items()}


class _Beginning(NamedTuple):
    """What the first record of a directory says."""

    run: str
    time: str
    folder: str


def settled_change(directory: str) -> int | None:
    """Return when a file was added to or removed from *directory*; None if that may happen again at the same time."""
    changed = os.stat(directory).st_mtime_ns
    return changed if time.time_ns() - changed > _SETTLED_NANOSECONDS else None


def folders_of_run(directory: str) -> list[str]:
    """Return the directories of the run that the parts in *directory* are of, as paths relative to it, oldest first.

    ``.`` alone if no other directory beside it is of that run.
    """
    place, name = os.path.split(os.path.abspath(directory))
    own = _beginning(place, name)
    if own is None:
        return [os.curdir]
    try:
        changed = settled_change(place)
        found = _beginnings(place, None) if changed is None else _settled_beginnings(place, changed)
    except OSError:
        found = ()
    same = {each.folder: each for each in (*found, own) if each.run == own.run}
    ordered = sorted(same.values(), key=lambda each: (each.time, each.folder))
    return [os.curdir if each.folder == name else os.path.join(os.pardir, each.folder) for each in ordered]


def is_first_of_run(directory: str) -> bool:
    """Return whether the parts in *directory* are the oldest ones of their run."""
    return folders_of_run(directory)[0] == os.curdir


@lru_cache(maxsize=16)
def _settled_beginnings(place: str, changed: int) -> tuple[_Beginning, ...]:
    return _beginnings(place, changed)


def _beginnings(place: str, changed: int | None) -> tuple[_Beginning, ...]:  # noqa: ARG001 - it is a part of a key
    with os.scandir(place) as listing:
        names = [entry.name for entry in listing if entry.is_dir(follow_symlinks=False)]
    found = (_beginning(place, name) for name in sorted(names)[:_MOST_FOLDERS])
    return tuple(each for each in found if each is not None)


def _beginning(place: str, folder: str) -> _Beginning | None:
    """Return what the first record of the parts in *folder*, a directory in *place*, says about its run."""
    known = [dialect for dialect in dialects() if dialect.parts and dialect.run_id]
    try:
        names = part_names(os.listdir(os.path.join(place, folder)))
        record = _first_record(os.path.join(place, folder, names[0])) if names else None
    except OSError:
        return None
    if record is None:
        return None
    for dialect in known:
        run = record.get(dialect.run_id)
        if all(key in record for key in dialect.recognize.keys) and isinstance(run, str):
            return _Beginning(run, _time(record, (key.key for key in dialect.time)), folder)
    return None


def _time(record: dict[str, Any], keys: Iterable[str]) -> str:
    return next((str(record[key]) for key in keys if key in record), "")


def _first_record(path: str) -> dict[str, Any] | None:
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return decode(file.readline(_HEAD_BYTES).rstrip(b"\r\n"))


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


class LiveParts(LiveBytes):
    """The parts in a directory, to which others are added while they are read at one position.

    Parts that were read may be removed: their program has taken them into its database. Opening raises
    StreamMissingError; everything else raises OSError.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._parts = parts_in(path)
        except (FileNotFoundError, NotADirectoryError):
            raise StreamMissingError(path, "No such file or directory") from None
        if not self._parts.parts:
            # A run directory whose stream is being made looks so.
            raise StreamMissingError(path, "the directory has no log")
        super().restart()

    @property
    def lost_fragment(self) -> bool:
        """True when bytes after the last committed line were read, and have changed since."""
        return self.position > self.committed and not self._has_fragment(self.read)

    def peek(self, size: int) -> bytes:
        """Return at most *size* bytes from the position; none at the end, and where a part is gone."""
        return self._read(self.position, size)

    def read(self, offset: int, size: int) -> bytes:
        """Return at most *size* bytes from *offset* on; the position does not change."""
        found = b""
        while len(found) < size and (data := self._read(offset + len(found), size - len(found))):
            found += data
        return found

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return self._parts.read(offset, size)
        except OSError as error:
            if error.errno != ESTALE:
                raise
            return b""

    def content(self) -> Content:
        """Compare the parts with what was read of them."""
        first_unread = next((part for part in self._parts.parts if part.start + part.size > self.position), None)
        if first_unread is not None and not os.path.exists(os.path.join(self.path, first_unread.name)):
            return "truncated"
        if self._parts.size < self.committed:
            return "truncated"
        if self._parts.is_merged and not self._has_committed(self.read):
            return "replaced"
        return "same" if self._has_fragment(self.read) else "uncommitted-changed"

    def located(self, line: int, offset: int) -> tuple[str, int]:
        """Return the path of the part that the *line* at *offset* is in, and its number there."""
        try:
            name, number, _ = self._parts.located(offset)
        except (OSError, ValueError):
            return self.path, line
        return os.path.normpath(os.path.join(self.path, name)), number

    def restart(self) -> None:
        """Go back to the first byte of the parts that are there now."""
        super().restart()
        self._parts.close()
        self._parts = parts_in(self.path)

    def status(self) -> PartsStatus:
        """Return the status of the parts that were listed last."""
        return self._parts.status()

    def status_at_path(self) -> PartsStatus:
        """Return the status of the parts now, which are then read; raise FileNotFoundError or NotADirectoryError."""
        self._parts.update()
        return self.status()

    def is_at_path(self, status: Status) -> bool:
        """Return True: what is in the directory is followed."""
        return status == self.status()

    def reopen(self) -> None:
        """Do nothing: a part is opened when it is read."""

    def close(self) -> None:
        """Close the part that is open; further calls do nothing."""
        self._parts.close()
