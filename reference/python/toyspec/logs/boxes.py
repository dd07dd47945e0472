"""Cuts the tables that reinforcement learning programs print: a record is a box of names and values between two rules.

The interface is that of ``LineSplitter``: a box takes the place of a line. Other output is passed over::

    ---------------------------------
    | rollout/           |          |
    |    ep_rew_mean     | -21.5    |
    | time/              |          |
    |    total_timesteps | 2048     |
    ---------------------------------
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from toyspec.core.format.lines import Line, LineSplitter
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.read_reports import HEAD_BYTES, Fragment
from toyspec.logs.forms import distinct

if TYPE_CHECKING:
    from collections.abc import Iterable

_RULE = re.compile(rb"-{10,}\s*")
_ROW = re.compile(rb"\|( *)([^|]*?) *\|\s*([^|]*?)\s*\|\s*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
# The names in a group are indented by three blanks.
_INDENT = 3
# A longer box is a table of another kind.
_MOST_ROWS = 1000


class BoxCutter:
    """Yields each box as a JSON object: a name within a group follows the name of the group and a slash."""

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.max_line_bytes = max_line_bytes
        self._lines = LineSplitter(max_line_bytes=max_line_bytes)
        self._start: tuple[int, int] | None = None
        """Line number and byte offset of the rule above the rows; None outside of a box."""
        self._rows: list[bytes] = []

    @property
    def _open(self) -> tuple[int, int] | None:
        return self._start if self._rows else None

    @property
    def committed(self) -> int:
        """Byte offset after what is read: the start of a box whose end has not come, else the end of the last line."""
        return self._lines.committed if self._open is None else self._open[1]

    @property
    def size(self) -> int:
        """Number of bytes fed so far."""
        return self._lines.size

    @property
    def position(self) -> tuple[int, int]:
        """Number of the line and byte offset at ``committed``."""
        return self._lines.position if self._open is None else self._open

    @property
    def next_number(self) -> int:
        """Number of the line at ``committed``, counted from 1."""
        return self.position[0]

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the boxes that *chunk* completes, in order."""
        return [box for line in self._lines.feed(chunk) if (box := self._take(line)) is not None]

    def fragment(self) -> Fragment | None:
        """Return the bytes of a box whose end has not come, else those after the last LF; None if there are none."""
        if self._open is None:
            return self._lines.fragment()
        number, offset = self._open
        return Fragment(number, offset, self.size - offset, False, b"\n".join(self._rows)[:HEAD_BYTES])

    def pending(self) -> bytes | None:
        """Return None: a box without its end is not read."""
        return None

    def drop_fragment(self) -> None:
        """Drop the bytes of a box whose end has not come, and those after the last LF."""
        self._start, self._rows = None, []
        self._lines.drop_fragment()

    def _take(self, line: Line) -> Line | None:
        data = line.data or b""
        if _RULE.fullmatch(data):
            box = self._boxed(line)
            self._start, self._rows = (line.number, line.offset), []
            return box
        if self._start is not None and len(self._rows) < _MOST_ROWS and _ROW.fullmatch(data):
            self._rows.append(data)
        else:
            self._start, self._rows = None, []
        return None

    def _boxed(self, end: Line) -> Line | None:
        if self._open is None:
            return None
        number, offset = self._open
        data = json.dumps(_members(self._rows), separators=(",", ":")).encode()
        return Line(number, offset, end.end - offset, data, b"")


def _members(rows: Iterable[bytes]) -> dict[str, int | float | str]:
    names, values = [], []
    group = ""
    for row in rows:
        match = _ROW.fullmatch(row)
        assert match is not None
        name, value = (match[at].decode("utf-8", "replace") for at in (2, 3))
        if not value and name.endswith("/"):
            group = name
        elif name:
            names.append(group + name if len(match[1]) > _INDENT else name)
            values.append(json.loads(value) if _NUMBER.fullmatch(value) else value)
    # Long names are cut, and may be alike then.
    return dict(zip(distinct(names), values, strict=True))
