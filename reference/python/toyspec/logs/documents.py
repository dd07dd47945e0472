"""Cuts the objects of an array out of one JSON document, or the objects of a file, in pieces of any size.

The interface is that of ``LineSplitter``: an object takes the place of a line. Nothing else of the document is checked;
what lies between the objects is committed with the next one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from toyspec.core.findings import HEAD_BYTES, Fragment
from toyspec.core.format.flattening import flattened
from toyspec.core.format.line_validation import decode_lenient
from toyspec.core.format.lines import Line
from toyspec.core.generated.limits import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.logs.dialects import Dialect


# A string, or a character that changes the depth. A string that does not end yet matches to the end of the input.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*("?)|[{}\[\]]', re.DOTALL)
_STRING_END = re.compile(rb'(?:[^"\\]|\\.)*"', re.DOTALL)
_LONG_STRING = 1 << 12
_MOST_NAMED = 5
_MEMBER = re.compile(rb"\s*:\s*(\d{1,18})\s*[,\s]")


def listed(names: Iterable[str], most: int) -> str:
    """Return the first *most* of *names*, and a mark if there are more."""
    found = list(names)
    return ", ".join([*found[:most], *["…"] * (len(found) > most)])


class DocumentCutter:
    """Yields each object of the array under *key*, or of the array that the document is if *key* is empty.

    With None, it yields each object that is not in another one. *beside* are keys of numbers next to the array. An
    object longer than *max_line_bytes* is counted, not kept: memory is bounded for any input.
    """

    def __init__(self, key: str | None, *, max_line_bytes: int = MAX_LINE_BYTES, beside: tuple[str, ...] = ()) -> None:
        self.max_line_bytes = max_line_bytes
        self._key = (key or "").encode()
        self._level = 0 if key is None else 2 if key else 1
        self._beside = {name.encode(): name for name in beside} if key else {}
        self._between = b""
        self.numbers: dict[str, int] = {}
        """The integers under the keys beside the array so far."""
        self._buffer = b""
        self._offset = 0
        self._number = 1
        self._depth = 0
        self._last = b""
        self._is_inside = not key
        self.is_closed = False
        """True once the document has ended."""
        self._is_in_string = False
        self._start: tuple[int, int] | None = None
        self._kept = bytearray()
        self._length = 0
        self._committed = 0
        self.next_number = 1
        """Number of the line after the last object, counted from 1."""

    @property
    def committed(self) -> int:
        """Byte offset after the last object; the size once the document is closed."""
        return self.size if self.is_closed else self._committed

    @property
    def size(self) -> int:
        """Number of bytes fed so far."""
        return self._offset + len(self._buffer)

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
        if self.is_closed or self.size == self.committed:
            return None
        head = bytes(self._kept[:HEAD_BYTES]) or self._buffer[:HEAD_BYTES]
        return Fragment(self.next_number, self.committed, self.size - self.committed, False, head)

    def pending(self) -> bytes | None:
        """Return None: an object without its end is not read."""
        return None

    def drop_fragment(self) -> None:
        """Do nothing: a document is written as a whole, and a rewritten one is read again from its start."""

    def _take(self, token: re.Match[bytes], found: list[Line]) -> None:
        text = token[0]
        if self._between:
            match, self._between = _MEMBER.match(self._between), b""
            if match is not None:
                self.numbers[self._beside[self._last]] = int(match[1])
        if text in (b"{", b"["):
            if self._start is None and self._depth == 1 and self._level == 2:
                self._is_inside = text == b"[" and self._last == self._key
            if text == b"{" and self._is_inside and self._depth == self._level and self._start is None:
                self._start = (self._number, self._offset + token.start())
                self.is_closed = False
                self._kept, self._length = bytearray(), 0
            self._depth += 1
            self._keep(text)
        elif text in (b"}", b"]"):
            self._depth -= 1
            self._keep(text)
            if self._start is not None and self._depth == self._level:
                found.append(self._commit())
            # After one object of a file, another may come.
            self.is_closed = self._depth <= 0 if self._level == 0 else self.is_closed or self._depth <= 0
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
        self.next_number = self._number
        return line

    def _pass(self, part: bytes) -> None:
        """Take in the bytes between tokens."""
        if part:
            self._number += part.count(b"\n")
            self._keep(part)
            if self._depth == 1 and self._last in self._beside and len(self._between) < _LONG_STRING:
                self._between += part

    def _keep(self, part: bytes) -> None:
        if self._start is not None:
            self._length += len(part)
            if self._length <= self.max_line_bytes or len(self._kept) < HEAD_BYTES:
                self._kept += part[: self.max_line_bytes + HEAD_BYTES]


class ListsCutter(DocumentCutter):
    """Yields an object for each place in the lists of the one object that a document is.

    The lists may be in inner objects, whose keys and a slash are before theirs. Other members are in no object, nor are
    lists of objects and lists. Each object has its place under the key *index*, unless a list has that name or one of
    *steps*. Lists that are shorter than the longest one, and members that no object has, are in ``notes``.

    With *series*, the names of two lists, each inner object that has both is a series: an object for each place has its
    name, the ``step`` and the ``value``.
    """

    def __init__(
        self,
        index: str,
        *,
        series: tuple[str, ...] = (),
        steps: tuple[str, ...] = (),
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        super().__init__(None, max_line_bytes=max_line_bytes)
        self._index = index
        self._series = series
        self._steps = frozenset(steps)
        self.notes: list[str] = []

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the objects of the document once *chunk* completes it."""
        return [line for whole in super().feed(chunk) for line in self._lines(whole)]

    def _lines(self, whole: Line) -> list[Line]:
        document = None if whole.data is None else decode_lenient(whole.data)
        if document is None:
            return [whole]
        lists = {
            name: member
            for name, member in flattened(document).items()
            if type(member) is list and member and not {dict, list} & set(map(type, member))
        }
        self._note_others(document, lists)
        records = self._long(lists) if self._series else self._wide(lists)
        dumped = (json.dumps(record, separators=(",", ":")).encode() for record in records)
        return [Line(whole.number, whole.offset, whole.length, data, b"") for data in dumped]

    def _note_others(self, document: dict[str, Any], lists: dict[str, list[Any]]) -> None:
        """Note the members that no record has: numbers alone, and lists of lists and of objects."""
        others = [
            name
            for name, member in flattened(document).items()
            if name not in lists and member not in ([], {}, None) and not isinstance(member, str | bool)
        ]
        if others:
            named = listed(map(repr, others), _MOST_NAMED)
            self.notes.append(f"left out, since they are not lists of numbers ({len(others)}): {named}")

    def _long(self, lists: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
        steps, values = (f"/{name}" for name in self._series[:2])
        for name, places in lists.items():
            series = name.removesuffix(steps)
            found = lists.get(series + values)
            if series != name and found is not None:
                for step, value in zip(places, found, strict=False):
                    yield {"name": series, "step": step, "value": value}

    def _wide(self, lists: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
        longest = max(map(len, lists.values()), default=0)
        short = [f"{name!r} ({len(member)})" for name, member in lists.items() if len(member) < longest]
        if short:
            named = listed(short, _MOST_NAMED)
            self.notes.append(f"shorter than the longest list ({longest}), and placed from its start: {named}")
        has_step = not ({self._index} | self._steps).isdisjoint(lists)
        for place in range(longest):
            members = {self._index: place} if self._index and not has_step else {}
            members |= {name: member[place] for name, member in lists.items() if place < len(member)}
            yield members


def cutter_of(dialect: Dialect, *, max_line_bytes: int = MAX_LINE_BYTES) -> DocumentCutter | None:
    """Return the cutter of a file of *dialect*; None where its records are lines."""
    form = dialect.form
    if form.type == "document":
        return DocumentCutter(form.rows, max_line_bytes=max_line_bytes, beside=dialect.planned)
    if form.type == "lists":
        return ListsCutter(form.index, series=form.columns, steps=dialect.step, max_line_bytes=max_line_bytes)
    return DocumentCutter(None, max_line_bytes=max_line_bytes) if form.type == "objects" else None
