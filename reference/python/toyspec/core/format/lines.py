"""Splits a stream of bytes into lines at LF, in pieces of any size.

A line is *committed* by its LF; bytes after the last LF are the *fragment*. A line longer than the limit is
counted and not kept, so memory is bounded by the limit for any input.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

import msgspec

from toyspec.core.findings import HEAD_BYTES, Fragment
from toyspec.core.generated.limits import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FEW_BYTES = 4096
_BLOCK_BYTES = 1 << 16


def end_of_lines(read: Callable[[int, int], bytes], end: int, *, start: int = 0, first: int = _BLOCK_BYTES) -> int:
    """Return the offset after the last LF before *end*, *start* without one; it is looked for from the end on.

    *read* returns the bytes at an offset, as many as it is asked for: *first* of them at first.
    """
    size = first
    while end > start:
        block = max(start, end - size)
        at = read(block, end - block).rfind(b"\n")
        if at >= 0:
            return block + at + 1
        end, size = block, _BLOCK_BYTES
    return start


class Line(msgspec.Struct, frozen=True, gc=False):
    """One committed line."""

    number: int
    """Line number, counted from 1; every LF ends a line, blank lines included."""
    offset: int
    """Byte offset of the line's first byte, counted from 0 at the start of the stream."""
    length: int
    """Number of bytes before the LF."""
    data: bytes | None
    """The bytes before the LF; None when there are more than the limit."""
    head: bytes
    """The first bytes of a line without ``data``, at most ``HEAD_BYTES``; empty for all others."""

    @property
    def end(self) -> int:
        """Byte offset after the line's LF."""
        return self.offset + self.length + 1


class Cutter(Protocol):
    """Cuts a stream into lines, or into other pieces that a record is read from."""

    max_line_bytes: int

    @property
    def committed(self) -> int:
        """Byte offset after the last piece."""

    @property
    def size(self) -> int:
        """Number of bytes fed so far."""

    @property
    def next_number(self) -> int:
        """Number of the line at ``committed``, counted from 1."""

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the pieces that *chunk* completes, in order."""

    def fragment(self) -> Fragment | None:
        """Return the bytes after the last piece; None if there are none."""

    def pending(self) -> bytes | None:
        """Return these bytes where they may be a whole record; None elsewhere."""

    def drop_fragment(self) -> None:
        """Drop these bytes, as if they had not been fed."""


class LineSplitter:
    """Cuts its input into committed lines; the cuts do not depend on the pieces of the input.

    Each byte is searched for LF once. *max_line_bytes* is the longest line that is kept, LF excluded.
    """

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        if max_line_bytes < 1:
            raise ValueError(f"max_line_bytes is {max_line_bytes}; it must be at least 1")
        self.max_line_bytes = max_line_bytes
        self._number = 1
        self._offset = 0
        self._length = 0
        self._held = bytearray()
        self._head = b""
        self._dropped = False
        self._dropped_all_nul = True

    @property
    def committed(self) -> int:
        """Byte offset after the last LF."""
        return self._offset

    @property
    def size(self) -> int:
        """Number of bytes fed so far."""
        return self._offset + self._length

    @property
    def position(self) -> tuple[int, int]:
        """Number and byte offset of the line that the next byte belongs to."""
        return self._number, self._offset

    def cut(self, chunk: bytes) -> list[bytes] | None:
        """Return the bytes of the lines that *chunk* commits, in order: a faster :meth:`feed`.

        Return None, and take in nothing, if a line of the chunk may be longer than the limit.
        """
        together = self.cut_together(chunk)
        if together is None:
            return None
        lines = together.split(b"\n")[:-1]
        self._number += len(lines)
        return lines

    def cut_together(self, chunk: bytes) -> bytes | None:
        """Return the bytes of the lines that *chunk* commits, with their LFs, in one piece; else like :meth:`cut`.

        The caller counts these lines, and passes their number to :meth:`skip`.
        """
        if self._dropped or self._length + len(chunk) > self.max_line_bytes:
            return None
        end = chunk.rfind(b"\n") + 1
        lines = bytes(self._held) + chunk[:end] if end else b""
        if end:
            self._restart(self._number, self._offset + len(lines))
        self._extend(chunk[end:])
        return lines

    def skip(self, lines: int, size: int) -> None:
        """Count *lines* whole lines of *size* bytes that were read elsewhere; call it after an LF."""
        self._number += lines
        self._offset += size

    @property
    def next_number(self) -> int:
        """Number of the line that the next LF ends, counted from 1."""
        return self._number

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines that *chunk* commits, in order."""
        first, *others = chunk.split(b"\n")
        self._extend(first)
        if not others:
            return []
        lines = [self._commit()]
        rest = others.pop()
        lines.extend(map(self._whole, others))
        self._extend(rest)
        return lines

    def fragment(self) -> Fragment | None:
        """Return the bytes after the last LF at this time; None if there are none."""
        if not self._length:
            return None
        if self._dropped:
            head, all_nul = self._head, self._dropped_all_nul
        else:
            head, all_nul = bytes(self._held[:HEAD_BYTES]), _all_nul(self._held)
        return Fragment(self._number, self._offset, self._length, all_nul, head)

    def holds(self, part: bytes) -> bool:
        """Return whether *part* is in the kept bytes of the fragment."""
        return part in self._held

    def pending(self) -> bytes | None:
        """Return the whole fragment, empty if there is none; None if it is longer than the limit."""
        return None if self._dropped else bytes(self._held)

    def drop_fragment(self) -> None:
        """Drop the bytes after the last LF, as if they had not been fed."""
        self._restart(self._number, self._offset)

    def _extend(self, piece: bytes) -> None:
        if not piece:
            return
        self._length += len(piece)
        if self._dropped:
            self._head += piece[: HEAD_BYTES - len(self._head)]
            self._dropped_all_nul = self._dropped_all_nul and _all_nul(piece)
        elif self._length > self.max_line_bytes:
            self._head = (bytes(self._held[:HEAD_BYTES]) + piece[:HEAD_BYTES])[:HEAD_BYTES]
            self._dropped_all_nul = _all_nul(self._held) and _all_nul(piece)
            self._dropped = True
            self._held = bytearray()
        else:
            self._held += piece

    def _commit(self) -> Line:
        data = None if self._dropped else bytes(self._held)
        line = Line(self._number, self._offset, self._length, data, self._head)
        self._restart(self._number + 1, line.end)
        return line

    def _whole(self, data: bytes) -> Line:
        length = len(data)
        if length <= self.max_line_bytes:
            line = Line(self._number, self._offset, length, data, b"")
        else:
            line = Line(self._number, self._offset, length, None, data[:HEAD_BYTES])
        self._number += 1
        self._offset += length + 1
        return line

    def _restart(self, number: int, offset: int) -> None:
        self._number = number
        self._offset = offset
        self._length = 0
        self._held = bytearray()
        self._head = b""
        self._dropped = False
        self._dropped_all_nul = True


def _all_nul(data: bytes | bytearray) -> bool:
    return data.count(0) == len(data)


OBJECT = re.compile(rb"\{\s*[\"}]")
"""What a line has that holds a JSON object."""


def first_lines(head: bytes) -> Iterator[Line]:
    """Yield the lines that *head* commits; of those that are not asked for, few are made."""
    splitter = LineSplitter()
    for start in range(0, len(head), _FEW_BYTES):
        yield from splitter.feed(head[start : start + _FEW_BYTES])
