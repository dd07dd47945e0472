"""Writes a stream whose events are all known, in large blocks: for conversions, not for a run that may die."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.format.canonical import encode
from toyspec.writing.append_file import AppendFile
from toyspec.writing.event_checks import check_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BLOCK_BYTES = 1 << 20


def write_finished_stream(path: str, events: Iterable[dict[str, Any] | bytes]) -> int:
    """Create the toy/v1 stream *path* with *events*, force it to the device, and return its size in bytes.

    An event in bytes is one line or several, in canonical form, each with its LF. Raise FileExistsError where there is
    a file, and InvalidEventError for an event that its schema forbids. What was written before an exception stays.
    """
    file = AppendFile.create(path)
    try:
        with file.lock:
            for block in _blocks(events):
                file.commit(block)
            file.sync(directory="too")
        return file.committed
    finally:
        file.close()


def _blocks(events: Iterable[dict[str, Any] | bytes]) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for event in events:
        if isinstance(event, bytes):
            line = event
        else:
            line = encode(event)
            check_record(line, event.get("kind"))
            line += b"\n"
        lines.append(line)
        size += len(line)
        if size >= _BLOCK_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)
