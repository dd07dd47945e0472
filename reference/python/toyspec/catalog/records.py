"""What is below the roots of a catalog as records, one for each stream: text that differs where a stream has changed.

A record has the number of its root, whether the stream is hinted, its size, its identity and its path, separated by
tabs; it ends in a zero byte, which no path has.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.core.errors import CatalogError
from toyspec.core.findings import PathError
from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.core.runs.discovery import Stream, find_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

END = b"\0"
_NOT_TEXT = "its name is not text in UTF-8, which a catalog cannot hold"
_METRICS = METRICS_FILE.encode()
_EVENTS = EVENTS_FILE.encode()
# So many streams of one directory may be in the block before.
_MOST_BESIDE = 8


def record_of(stream: Stream, number: int) -> bytes:
    """Return the record of a stream below the root *number*; raise UnicodeEncodeError if its path is not text."""
    identity = stream.identity.replace("\0", " ").replace("\t", " ")
    return f"{number}\t{stream.is_hinted:d}\t{stream.size}\t{identity}\t{stream.path}\0".encode()


def stream_of(record: bytes, roots: Sequence[str]) -> Stream:
    """Return the stream of a record without its end."""
    number, hinted, size, identity, path = record.decode().split("\t", 4)
    return Stream(path, int(size), roots[int(number)], hinted == "1", identity)


def path_of(record: bytes) -> bytes:
    """Return the path of a record without its end."""
    return record.split(b"\t", 4)[4]


def size_of(record: bytes) -> int:
    """Return the number of bytes of the stream of a record."""
    return int(record.split(b"\t", 3)[2])


def records_below(
    roots: Sequence[str], hints: Sequence[str], refuse: Callable[[PathError], None]
) -> Iterator[list[bytes]]:
    """Yield the records below *roots*, some at a time and without their ends; metrics beside events are not a run.

    What cannot be listed or named is given to *refuse*. Raises CatalogError if a root cannot be listed.
    """
    for number, root in enumerate(roots):
        before: list[bytes] = []
        for found in find_records(root, number, hints=hints):
            if isinstance(found, PathError):
                if found.path == root:
                    raise CatalogError(root, f"{found.message}; the catalog was not changed")
                refuse(found)
            elif isinstance(found, bytes | Stream):
                records = list(_named_in_text(found, number, refuse))
                if isinstance(found, Stream) or _METRICS in found:
                    records = _without_metrics(records, before)
                before = [*before, *records][-_MOST_BESIDE:]
                yield records


def _named_in_text(found: bytes | Stream, number: int, refuse: Callable[[PathError], None]) -> Iterator[bytes]:
    """Yield the records of what was *found* whose paths are text."""
    if isinstance(found, Stream):
        if is_text(found.path):
            yield record_of(found, number).removesuffix(END)
        else:
            refuse(PathError(found.path, _NOT_TEXT))
        return
    try:
        found.decode()
    except UnicodeDecodeError:
        for record in found.split(END)[:-1]:
            path = os.fsdecode(path_of(record))
            if is_text(path):
                yield record
            else:
                refuse(PathError(path, _NOT_TEXT))
    else:
        yield from found.split(END)[:-1]


def _without_metrics(records: list[bytes], before: list[bytes]) -> list[bytes]:
    """Return *records* without metrics in the directory of events, which may be among those *before*."""
    events = {_directory(record) for record in (*before, *records) if record.endswith(_EVENTS)}
    return [each for each in records if not each.endswith(_METRICS) or _directory(each) not in events]


def _directory(record: bytes) -> bytes:
    return os.path.dirname(path_of(record))


def is_text(path: str) -> bool:
    """Return whether the path *path* is text that a table can hold."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in path
