"""The lines of a block with their places, which are computed only when needed."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from toyspec.checker.collecting import Place
from toyspec.format.lines import Line
from toyspec.generated import rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Lines:
    """Whole lines that follow each other in a stream: the first is *number* at *offset*, the last ends at *end*.

    *block* is the data that they were cut from; the first may begin before it, and bytes may follow the last.
    """

    __slots__ = ("_block", "_offset", "_size", "_starts", "data", "number")

    def __init__(self, data: Sequence[bytes], block: bytes, *, number: int, offset: int, end: int) -> None:
        self.data = data
        """The bytes of each line, with its LF."""
        self.number = number
        self._block = block
        self._offset = offset
        self._size = end
        self._starts: list[int] | None = None

    def after(self, index: int) -> Lines:
        """Return the lines after one of them."""
        data = self.data[index + 1 :]
        start = self._start(index + 1)
        return Lines(data, b"".join(data), number=self.number + index + 1, offset=start, end=self._size)

    def count(self, part: bytes) -> int:
        """Return how often the one byte *part* is in the lines."""
        block = self._block
        return self.data[0].count(part) + block.count(part, block.find(b"\n"), block.rfind(b"\n"))

    def hold(self, part: bytes) -> bool:
        """Return whether the one byte *part* is in one of the lines."""
        return part in self.data[0] or self._block.find(part, 0, self._block.rfind(b"\n")) >= 0

    def place(self, index: int) -> Place:
        """Return the place of a line's first byte."""
        return Place(self.number + index, self._start(index))

    def line(self, index: int) -> Line:
        """Return a line in the form that the exact path takes."""
        data = self.data[index][:-1]
        return Line(self.number + index, self._start(index), len(data), data, b"")

    def _start(self, index: int) -> int:
        if index == len(self.data) - 1:
            return self._size - len(self.data[index])
        if self._starts is None:
            self._starts = list(accumulate(map(len, self.data), initial=self._offset))
        return self._starts[index]


def pointer_to(path: Iterable[str | int]) -> str:
    """Return the RFC 6901 JSON Pointer of *path*."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def and_parent(pointer: str) -> tuple[str, str]:
    """Return *pointer* and that of the value around it."""
    return pointer, pointer.rpartition("/")[0]


def offset_at(pointer: str, places: dict[str, int]) -> int:
    """Return the byte offset of the value at *pointer*; if it is missing, of the object around it."""
    own, parent = and_parent(pointer)
    return places.get(own, places.get(parent, 0))


def by_place(finding: Any, places: dict[str, int]) -> tuple[int, int]:
    """Return the sort key of a finding in one line: its place, then the order of its rule."""
    return offset_at(finding.pointer, places), rules.ORDER[finding.rule]
