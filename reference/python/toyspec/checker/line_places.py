"""The lines of a block with their places, which are computed only when needed."""

from __future__ import annotations

from functools import cached_property
from io import BytesIO
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from toyspec.checker.collecting import Location
from toyspec.format.lines import Line
from toyspec.generated import rules

if TYPE_CHECKING:
    from collections.abc import Iterable


class Lines:
    """Whole lines that follow each other in a stream: the first is *number* at *offset*."""

    def __init__(self, together: bytes, *, number: int, offset: int) -> None:
        self.together = together
        """The bytes of all lines, with their LFs."""
        self.number = number
        self._offset = offset

    @cached_property
    def data(self) -> list[bytes]:
        """The bytes of each line, with its LF."""
        # Splitting compares byte by byte; reading lines searches for LF as fast as the machine can.
        return BytesIO(self.together).readlines()

    @cached_property
    def hold_null(self) -> bool:
        """False where no line has a null."""
        return b"null" in self.together

    def last_place(self, number: int) -> Location:
        """Return the place of the last of *number* lines, which are all that there are."""
        return Location(self.number + number - 1, self._offset + self.together.rfind(b"\n", 0, -1) + 1)

    def place(self, index: int) -> Location:
        """Return the place of a line's first byte."""
        return Location(self.number + index, self._starts[index])

    def line(self, index: int) -> Line:
        """Return a line in the form that the exact path takes."""
        data = self.data[index][:-1]
        return Line(self.number + index, self._starts[index], len(data), data, b"")

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self.data), initial=self._offset))


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
