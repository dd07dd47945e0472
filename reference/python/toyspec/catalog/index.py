"""The index of a catalog: a record for each stream that was found, and what it was. An update compares it with a walk.

A record has the number of its root, whether the stream is hinted, its size, its identity and its path, separated by
tabs: it differs where a stream has changed. In the file of an index the letter of what it was precedes each record, and
a zero byte, which no path has, follows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from toyspec.core.directories import directory_of
from toyspec.core.errors import CatalogError
from toyspec.core.files import open_file
from toyspec.core.findings import PathError
from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.core.runs.discovery import Stream, find_records, is_counted
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Kind = Literal["r", "l", "o", "x", "h", "e"]
"""What a stream was: a run; a run that was live; of another format; such a one without an identity; hinted and not a
log; not readable. All but r, o and h are read again although the record is the same.
"""

_RUNS = ("r", "l")
_UNKNOWN = "?"
_UNREAD = (_UNKNOWN, "l", "x", "e")
# What has no identity is always read again.
_WITHOUT_IDENTITY: dict[Kind, Kind] = {"r": "l", "o": "x", "h": "e"}
# Streams of more bytes are read first: one at the end would keep one worker busy and the others idle.
_LARGE = 1 << 23
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


def records_below(roots: Sequence[str], hints: Sequence[str], refuse: Callable[[PathError], None]) -> Iterator[bytes]:
    """Yield the records below *roots*, without their ends; metrics beside events are not a run.

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
                yield from records


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


class IndexComparison:
    """What was found, compared with what was known of each record."""

    def __init__(
        self, known: Mapping[bytes, str], found: Iterable[bytes], unlisted: Callable[[], Sequence[str]]
    ) -> None:
        """Compare the records *found* with those *known*; what is below the paths that *unlisted* returns is kept."""
        kinds = {record: known.get(record, _UNKNOWN) for record in found}
        gone = {record: kind for record, kind in known.items() if record not in kinds}
        if places := unlisted():
            kept = {record: kind for record, kind in gone.items() if _is_below(path_of(record), places)}
            kinds |= kept
            gone = {record: kind for record, kind in gone.items() if record not in kept}
        unread = [record for record, kind in kinds.items() if kind in _UNREAD]
        self._live = {record for record in unread if kinds[record] == "l"}
        self._kinds = kinds | dict.fromkeys(unread, _UNKNOWN)
        self._unread = {os.fsdecode(path_of(record)): record for record in unread}
        self.has_changes = bool(gone or unread)
        """Whether anything has to be read, or is not there any more."""
        runs = {path_of(record).decode() for record, kind in gone.items() if kind in _RUNS}
        self.gone = len(runs - self._unread.keys())
        """Number of runs that are gone."""
        self.old_rows = runs | {path_of(record).decode() for record in self._live}
        """Paths of the runs whose rows do not count any more."""

    def size(self) -> int:
        """Return the number of bytes of the streams that have to be read."""
        return sum(map(size_of, self._unread.values()))

    def streams(self, roots: Sequence[str]) -> Iterator[Stream]:
        """Yield each stream that has to be read, large ones first."""
        sizes = {record: size_of(record) for record in self._unread.values()}
        for record in sorted(sizes, key=lambda record: -sizes[record] if sizes[record] > _LARGE else 0):
            yield stream_of(record, roots)

    def is_changed(self, path: str) -> bool:
        """Return whether the stream at *path* is not as it was when it was last read or kept."""
        return self._unread[path] not in self._live

    def note(self, path: str, kind: Kind, identity: str) -> None:
        """Note what the stream at *path* is."""
        self._kinds[self._unread[path]] = kind if identity else _WITHOUT_IDENTITY.get(kind, kind)

    @property
    def runs(self) -> int:
        """The number of streams that are known to be runs."""
        return self._count("r", "l")

    @property
    def skipped(self) -> int:
        """The number of files of other formats."""
        others = (record for record, kind in self._kinds.items() if kind == "h")
        named = sum(is_counted(os.fsdecode(path_of(record)), size_of(record)) for record in others)
        return self._count("o", "x") + named

    def _count(self, *kinds: Kind) -> int:
        return sum(kind in kinds for kind in self._kinds.values())

    def write(self, path: str) -> None:
        """Write the index into the file *path*."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with directory_of(path) as (directory, name):
            directory.write(name, [b"".join(kind.encode() + record + END for record, kind in self._kinds.items())])


def read_index(path: str) -> dict[bytes, str]:
    """Return what each stream was, by its record; raise CatalogError."""
    try:
        with open_file(path) as file:
            *lines, rest = file.read().split(END)
    except OSError as error:
        raise CatalogError(path, f"cannot be read: {cause_of(error)}; build the catalog again") from None
    if rest:
        raise CatalogError(path, "is cut within a record; build the catalog again")
    return {line[1:]: line[:1].decode() for line in lines}


def _is_below(path: bytes, places: Sequence[str]) -> bool:
    """Return whether a path is one of some places, or below one."""
    folders = tuple(place.rstrip("/" + os.sep).encode() for place in places)
    return path in folders or path.startswith(
        tuple(folder + sep for folder in folders for sep in (b"/", os.sep.encode()))
    )
