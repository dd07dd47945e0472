"""Does to a stream what kills, power cuts and second writers do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def kill_inside(stream: Path, line: int) -> None:
    """Leave half of line number *line*, counted from 1, and nothing after it."""
    lines = _lines(stream)
    half = lines[line - 1][: len(lines[line - 1]) // 2]
    stream.write_bytes(b"".join(lines[: line - 1]) + half)


def lose_power(stream: Path, line: int, *, length: int) -> None:
    """Leave *length* NUL bytes where line number *line* began: the file had grown, its data was not written yet."""
    stream.write_bytes(b"".join(_lines(stream)[: line - 1]) + bytes(length))


def append_behind_fragment(stream: Path, line: int) -> None:
    """Kill the writer inside *line*, and let a second one go on as if nothing had happened."""
    rest = _lines(stream)[line:]
    kill_inside(stream, line)
    stream.write_bytes(stream.read_bytes() + b"".join(rest))


def write_at_once(stream: Path, line: int) -> None:
    """Put line number *line* into the middle of the one before, as two processes without a lock do."""
    lines = _lines(stream)
    first, second = lines[line - 2], lines[line - 1]
    lines[line - 2 : line] = [first[:40] + second + first[40:]]
    stream.write_bytes(b"".join(lines))


def write_nan(stream: Path, line: int, key: bytes) -> None:
    """Write the number under *key* in line number *line* as Python's JSON library writes what is not finite."""
    lines = _lines(stream)
    before, mark, after = lines[line - 1].partition(b'"' + key + b'":')
    end = min(after.index(b","), len(after))
    lines[line - 1] = before + mark + b"NaN" + after[end:]
    stream.write_bytes(b"".join(lines))


def _lines(stream: Path) -> list[bytes]:
    return stream.read_bytes().splitlines(keepends=True)
