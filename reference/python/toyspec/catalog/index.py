"""The index of a catalog: a record for each stream that was found, and what it was. An update compares it with a walk.

It has two files: the records in the order in which they were found, and a letter for each.
"""

from __future__ import annotations

import os
from itertools import chain, compress, islice, repeat
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from toyspec.catalog.records import END, path_of, size_of, stream_of
from toyspec.core.errors import CatalogError
from toyspec.core.files import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toyspec.core.runs.discovery import Stream

Kind = Literal["r", "l", "o", "x", "h", "e"]
"""What a stream was: a run; a run that was live; of another format; such a one without an identity; hinted and not a
log; not readable. All but r, o and h are read again although the record is the same.
"""

_RUNS = b"rl"
_UNKNOWN = ord("?")
# What has no identity is always read again.
_WITHOUT_IDENTITY: dict[Kind, Kind] = {"r": "l", "o": "x", "h": "e"}
_IS_UNREAD = bytes(chr(letter) in "?lxe" for letter in range(256))
_IS_LIVE = bytes(chr(letter) == "l" for letter in range(256))
_AS_UNKNOWN = bytes.maketrans(b"lxe", b"???")
# Streams of more bytes are read first: one at the end would keep one worker busy and the others idle.
_LARGE = 1 << 23
_BLOCK = 1 << 20
_SEPARATORS = (b"/", os.sep.encode())


class Files(NamedTuple):
    """The paths of the files of an index."""

    records: str
    kinds: str


class IndexComparison:
    """What was found, compared with an index. Memory grows with the differences, and by a byte for each stream."""

    def __init__(self, known: Files | None, work: str) -> None:
        """Compare with the index *known*, None for a first build; *work* is a directory for temporary files."""
        self._records = os.path.join(work, "records")
        self._kinds = bytearray()
        # The records of the index that are not found, also where a stream has changed; and those that are not in it.
        self._gone: dict[bytes, int] = {}
        self._new: dict[bytes, int] = {}
        self._is_first = known is None
        self._known = iter(()) if known is None else _read(known)
        self._todo = self._live = bytearray()

    def take(self, found: Iterable[list[bytes]], unlisted: Callable[[], Sequence[str]]) -> None:
        """Take in all records that were *found*; what was below the paths that *unlisted* then returns is kept."""
        with open(self._records, "wb") as file:
            for records in filter(None, found):
                file.write(END.join(records) + END)
                self._compare(records)
            while self._next(_BLOCK):
                pass
            self._new.clear()
            self._todo, self._live = self._kinds.translate(_IS_UNREAD), self._kinds.translate(_IS_LIVE)
            self._kinds = self._kinds.translate(_AS_UNKNOWN)
            places = unlisted()
            for record in [record for record in self._gone if places and _is_below(path_of(record), places)]:
                file.write(record + END)
                self._kinds.append(self._gone.pop(record))

    def _compare(self, records: list[bytes]) -> None:
        """Note what each of *records* was. Both sides come in one order, so that most are found in the same place."""
        self._next(len(records))
        start, known = len(self._kinds), self._gone
        if self._is_first:
            self._kinds += b"?" * len(records)
            return
        was = list(map(known.pop, records, repeat(_UNKNOWN)))
        self._kinds += bytes(was)
        if _UNKNOWN in was:
            places = zip(records, range(start, len(self._kinds)), strict=True)
            self._new.update(compress(places, map(_UNKNOWN.__eq__, was)))

    def _next(self, number: int) -> bool:
        """Take in the next *number* records of the index; return whether there are more."""
        known = dict(islice(self._known, number))
        for record in self._new.keys() & known.keys():
            self._kinds[self._new.pop(record)] = known.pop(record)
        self._gone.update(known)
        return bool(known)

    @property
    def has_changes(self) -> bool:
        """Whether anything has to be read, or is not there any more."""
        return bool(self._gone) or 1 in self._todo

    def size(self) -> int:
        """Return the number of bytes of the streams that have to be read."""
        return sum(size_of(record) for _, record in self._unread())

    def streams(self, roots: Sequence[str], places: dict[str, int]) -> Iterator[Stream]:
        """Yield each stream that has to be read, large ones first; *places* gets its place by its path."""
        large = [(-size_of(record), place, record) for place, record in self._unread() if size_of(record) > _LARGE]
        others = ((place, record) for place, record in self._unread() if size_of(record) <= _LARGE)
        for place, record in chain(((place, record) for _, place, record in sorted(large)), others):
            stream = stream_of(record, roots)
            places[stream.path] = place
            yield stream

    def is_changed(self, place: int) -> bool:
        """Return whether the stream at *place* is not as it was when it was last read or kept."""
        return not self._live[place]

    def note(self, place: int, kind: Kind, identity: str) -> None:
        """Note what the stream at *place* is."""
        self._kinds[place] = ord(kind if identity else _WITHOUT_IDENTITY.get(kind, kind))

    @property
    def runs(self) -> int:
        """The number of streams that are known to be runs."""
        return sum(map(self._kinds.count, _RUNS))

    @property
    def skipped(self) -> int:
        """The number of streams of other formats."""
        return self._kinds.count(b"o") + self._kinds.count(b"x")

    def old_rows(self) -> tuple[set[str], int]:
        """Return the paths of the runs whose rows do not count any more, and the number of those that are gone."""
        old = {path_of(record) for record, kind in self._gone.items() if kind in _RUNS}
        gone = old - {path_of(record) for _, record in self._unread()} if old else old
        with open_file(self._records) as file:
            old = old.union(path_of(record) for record in compress(_split(file), self._live))
        return {path.decode() for path in old}, len(gone)

    def write(self, files: Files) -> None:
        """Make it the index in *files*."""
        os.makedirs(os.path.dirname(files.records), exist_ok=True)
        os.replace(self._records, files.records)
        with open(files.kinds, "wb") as file:
            file.write(self._kinds)

    def _unread(self) -> Iterator[tuple[int, bytes]]:
        """Yield the places and the records of the streams that have to be read."""
        with open_file(self._records) as file:
            yield from compress(enumerate(_split(file)), self._todo)


def _read(files: Files) -> Iterator[tuple[bytes, int]]:
    """Yield the records of an index with their kinds; raise CatalogError."""
    try:
        with open_file(files.records) as records, open_file(files.kinds) as kinds:
            yield from zip(_split(records), chain.from_iterable(iter(lambda: kinds.read(_BLOCK), b"")), strict=True)
    except OSError as error:
        raise CatalogError(error.filename, f"cannot be read: {error.strerror}; build the catalog again") from None
    except ValueError:
        raise CatalogError(files.kinds, "not of the records beside it; build the catalog again") from None


def _is_below(path: bytes, places: Sequence[str]) -> bool:
    """Return whether a path is one of some places, or below one."""
    folders = tuple(place.rstrip("/" + os.sep).encode() for place in places)
    return path in folders or path.startswith(
        tuple(folder + sep for folder in folders for sep in (b"/", os.sep.encode()))
    )


def _split(file: BinaryIO) -> Iterator[bytes]:
    """Yield the records of a file."""
    rest = b""
    for block in iter(lambda: file.read(_BLOCK), b""):
        *records, rest = (rest + block).split(END)
        yield from records
