"""What a run does after another program has cut its stream short: what is left and what follows stays readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from toyspec.writing.fragments import move_fragment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.writing.append_file import AppendFile

_BLOCK_BYTES = 1 << 20


def remaining_lines(file: AppendFile, run_start: bytes) -> tuple[int, int, list[bytes]]:
    """Return how many lines are left as they were, where they end, and the whole lines after that.

    The writer went on at the cut, which may have joined two lines: of the lines from that place on, those that are JSON
    are returned. Where the stream does not begin with *run_start* any more, that place is its beginning.
    """
    count, end, after = 0, 0, []
    is_cut = False
    for number, (offset, line) in enumerate(_lines(file)):
        is_whole = _is_whole(line)
        is_cut = is_cut or not is_whole or (number == 0 and line.rstrip(b"\n") != run_start)
        if not is_cut:
            count, end = count + 1, offset + len(line)
        elif is_whole:
            after.append(line.rstrip(b"\n"))
    return count, end, after


def clear_from(file: AppendFile, offset: int) -> None:
    """Let *file* end at *offset*; what is after it moves to a side file, and the kept digest is void."""
    file.digest = None
    side_file = move_fragment(file, offset)
    file.torn_path = side_file or file.torn_path


def _lines(file: AppendFile) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each line; the last one may lack its LF."""
    offset, rest = 0, b""
    while block := file.read(offset + len(rest), _BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield offset, line + b"\n"
            offset += len(line) + 1
    if rest:
        yield offset, rest


def _is_whole(line: bytes) -> bool:
    if not line.endswith(b"\n"):
        return False
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except msgspec.DecodeError:
        return False
