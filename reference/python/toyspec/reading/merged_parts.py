"""Reads a log that a program writes as several files which grow at the same time, as if they were one file.

Each file is in the order of its lines. Where the log is opened, lines of different files are in the order of their
times, and of their steps within one time, so that what reads the log sees times and steps that do not go back. While it
is followed, what the files get is added at the end, in this order for each poll: what was read before does not move.
What follows the last LF of each file is at the end of all, as one fragment, since the next LF may come to any of them.
Each line of the shorter files takes memory: where they have very many, the files follow one another.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from toyspec.format.dialect_forms import form_of
from toyspec.format.dialect_mapping import count_of, time_of
from toyspec.format.dialects import dialect_named
from toyspec.format.recognition import recognize
from toyspec.reading.parts import Part, Parts, PartsStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.format.dialects import Dialect

_HEAD_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 16
# A longer line has no place of its own: it stays with the line before.
_MOST_LINE_BYTES = 1 << 20
# They take 22 MB, and the places of their lines in the log 33 more; a trainer validates far less often.
_MOST_LINES = 100_000

_Key = tuple[float, float]
_FIRST: _Key = (-float("inf"), -float("inf"))


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


def merged_status(dialect: Dialect, directory: str) -> PartsStatus:
    """Return the status of the log of *dialect* in *directory*; raise OSError."""
    return _status(files_of(dialect, directory, os.listdir(directory)))


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
        end = self._files[name].st_size
        while end > start:
            block = max(start, end - _BLOCK_BYTES)
            at = self._exactly(name, block, end - block).rfind(b"\n")
            if at >= 0:
                return block + at + 1
            end = block
        return start

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
        size = 1 << 10
        while low < offset:
            block = max(low, offset - size)
            at = self._exactly(name, block, offset - block).rfind(b"\n")
            if at >= 0:
                return block + at + 1
            offset, size = block, _BLOCK_BYTES
        return low

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
