"""Cuts the objects of an array out of one JSON document, in pieces of any size.

The interface is that of ``LineSplitter``: an object takes the place of a line. Nothing else of the document is checked;
what lies between the objects is committed with the next one.
"""

from __future__ import annotations

import re

from toyspec.format.lines import Line
from toyspec.generated.limits import MAX_LINE_BYTES
from toyspec.read_reports import HEAD_BYTES, Fragment

# A string, or a character that changes the depth. A string that does not end yet matches to the end of the input.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*("?)|[{}\[\]]', re.DOTALL)
_STRING_END = re.compile(rb'(?:[^"\\]|\\.)*"', re.DOTALL)
_LONG_STRING = 1 << 12


class DocumentCutter:
    """Yields each object of the array under *key*, or of the array that the document is if *key* is empty.

    An object longer than *max_line_bytes* is counted, not kept: memory is bounded for any input.
    """

    def __init__(self, key: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.max_line_bytes = max_line_bytes
        self._key = key.encode()
        self._level = 2 if key else 1
        self._buffer = b""
        self._offset = 0
        self._number = 1
        self._depth = 0
        self._last = b""
        self._is_inside = not key
        self._is_closed = False
        self._is_in_string = False
        self._start: tuple[int, int] | None = None
        self._kept = bytearray()
        self._length = 0
        self._committed = 0
        self._next_number = 1

    @property
    def committed(self) -> int:
        """Byte offset after the last object; the size once the document is closed."""
        return self.size if self._is_closed else self._committed

    @property
    def size(self) -> int:
        """Number of bytes fed so far."""
        return self._offset + len(self._buffer)

    @property
    def position(self) -> tuple[int, int]:
        """Number of the line and byte offset after the last object."""
        return self._next_number, self.committed

    @property
    def next_number(self) -> int:
        """Number of the line after the last object, counted from 1."""
        return self._next_number

    @property
    def is_closed(self) -> bool:
        """True once the document has ended."""
        return self._is_closed

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the objects that *chunk* completes, in order."""
        data = self._buffer + chunk
        found: list[Line] = []
        at = self._leave_string(data) if self._is_in_string else 0
        end = len(data)
        for token in _TOKEN.finditer(data, at):
            if self._is_in_string:
                break
            self._pass(data[at : token.start()])
            at = token.start()
            if token[0][:1] == b'"' and not token[1]:
                # The string goes on in the next chunk; a long one is not kept, since no key is long.
                self._is_in_string = end - at > _LONG_STRING
                end = end if self._is_in_string else at
                break
            self._take(token, found)
            at = token.end()
        if self._is_in_string and (end - len(data[:end].rstrip(b"\\"))) % 2:
            # The backslash escapes the first byte of the next chunk.
            end -= 1
        self._pass(data[at:end])
        self._buffer = data[end:]
        self._offset += end
        return found

    def _leave_string(self, data: bytes) -> int:
        """Return the offset after the end of the string that *data* begins in; take in what belongs to it."""
        match = _STRING_END.match(data)
        if match is None:
            return 0
        self._is_in_string = False
        self._pass(match[0])
        return match.end()

    def fragment(self) -> Fragment | None:
        """Return the bytes after the last object if the document does not end; None if it does, or is empty."""
        if self._is_closed or self.size == self.committed:
            return None
        head = bytes(self._kept[:HEAD_BYTES]) or self._buffer[:HEAD_BYTES]
        return Fragment(self._next_number, self.committed, self.size - self.committed, False, head)

    def pending(self) -> bytes | None:
        """Return None: an object without its end is not read."""
        return None

    def drop_fragment(self) -> None:
        """Do nothing: a document is written as a whole, and a rewritten one is read again from its start."""

    def _take(self, token: re.Match[bytes], found: list[Line]) -> None:
        text = token[0]
        if text in (b"{", b"["):
            if self._start is None and self._depth == 1 and self._level == 2:
                self._is_inside = text == b"[" and self._last == self._key
            if text == b"{" and self._is_inside and self._depth == self._level and self._start is None:
                self._start = (self._number, self._offset + token.start())
                self._kept, self._length = bytearray(), 0
            self._depth += 1
            self._keep(text)
        elif text in (b"}", b"]"):
            self._depth -= 1
            self._keep(text)
            if self._start is not None and self._depth == self._level:
                found.append(self._commit())
            self._is_closed = self._is_closed or self._depth <= 0
            self._is_inside = self._is_inside and self._depth >= self._level
        else:
            self._last = text[1:-1]
            self._keep(text)
            self._number += text.count(b"\n")

    def _commit(self) -> Line:
        assert self._start is not None
        number, offset = self._start
        fits = self._length <= self.max_line_bytes
        data = bytes(self._kept) if fits else None
        line = Line(number, offset, self._length, data, b"" if fits else bytes(self._kept[:HEAD_BYTES]))
        self._start = None
        self._kept = bytearray()
        self._committed = offset + self._length
        self._next_number = self._number
        return line

    def _pass(self, part: bytes) -> None:
        """Take in the bytes between tokens."""
        if part:
            self._number += part.count(b"\n")
            self._keep(part)

    def _keep(self, part: bytes) -> None:
        if self._start is not None:
            self._length += len(part)
            if self._length <= self.max_line_bytes or len(self._kept) < HEAD_BYTES:
                self._kept += part[: self.max_line_bytes + HEAD_BYTES]
