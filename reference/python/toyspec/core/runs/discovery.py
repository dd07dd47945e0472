"""Finds the streams below a path or an address: see spec/bundle.md."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from toyspec.core.engine import native
from toyspec.core.errors import StreamError
from toyspec.core.files import refuse_special
from toyspec.core.findings import PathError
from toyspec.core.format.profiles import ANNOTATIONS_FILE, MANIFEST_FILE, SEAL_FILE
from toyspec.core.places.addresses import WEB, is_address, parts_of, public
from toyspec.core.places.place import place_of
from toyspec.core.reading.log_detection import LogNames, may_be_log
from toyspec.core.reading.run_files import MEDIA_FOLDER, RANKS_BEGIN, rank_of
from toyspec.core.reading.stream_files import STREAM_NAMES, entry_in_web
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from toyspec.core.places.place import Entry, Place


STANDARD_INPUT = "-"
# Each checkpoint of Hugging Face's Trainer has the whole log until then.
_CHECKPOINT = re.compile(r"checkpoint-\d{1,18}", re.ASCII)
_CHECKPOINTED = "trainer_state.json"
SIDECARS = (MANIFEST_FILE, "flow.json")
"""Names of the files beside a stream that belong to its run."""
OF_A_BUNDLE = frozenset([*SIDECARS, SEAL_FILE, ANNOTATIONS_FILE])
"""Names of all files of a run that are not streams."""
_PASSED_OVER = frozenset([".git", ".hg", ".svn", "node_modules", "site-packages", "__pycache__"])
ENVIRONMENT = "pyvenv.cfg"
"""The file by which a virtual environment of Python is known."""
_RANK_BESIDE = re.compile(rf" {re.escape(RANKS_BEGIN)}([1-9][0-9]{{0,8}})\.jsonl (\S*)", re.ASCII)


class Stream(msgspec.Struct, frozen=True):
    """A stream to check."""

    path: str
    size: int
    """Size in bytes when it was found; 0 where it is not known."""
    root: str | None = None
    """The directory that was named and searched; None where the stream itself was named."""
    is_hinted: bool = False
    """True for a file with a usual name of another program's log, which its content has to confirm."""
    identity: str = ""
    """A text that changes with the stream and with the files of its run beside it; empty where it is not known."""
    version: str = ""
    """A text that changes with the stream alone; empty where it is not known."""
    is_link: bool = False
    """True for a symbolic link that was found below a root."""

    @property
    def knows_beside(self) -> bool:
        """Whether a search has listed what is beside the stream: it has not where the stream itself was named."""
        return bool(self.identity) and self.root is not None

    @property
    def may_be_annotated(self) -> bool:
        """False where it is known that no annotations are beside the stream."""
        return not self.knows_beside or self.is_hinted or f" {ANNOTATIONS_FILE} " in self.identity

    @property
    def is_sealed(self) -> bool | None:
        """Whether a seal is beside the stream; None where it is not known."""
        return f" {SEAL_FILE} " in self.identity if self.knows_beside and not self.is_hinted else None

    @property
    def is_below(self) -> bool:
        """True where neither the stream nor the directory that it is in was named."""
        return self.root is not None and os.path.dirname(self.path) != self.root.rstrip(os.sep)


def ranks_in(identity: str) -> dict[int, str]:
    """Return the ranks from 1 on whose logs are beside the stream of *identity*, each with the version of its log."""
    return dict(sorted((int(rank), version) for rank, version in _RANK_BESIDE.findall(identity)))


class NoStream(msgspec.Struct, frozen=True):
    """A directory that was named and has no stream in it or below."""

    path: str
    is_bundle: bool = False
    """True where it has other files of a run."""


class NotALog(msgspec.Struct, frozen=True):
    """A file in a directory that was searched, which has the name of text and is not a log that is recognized."""

    path: str


class Listing(NamedTuple):
    """What a search for streams needs of a directory; both are sorted by name."""

    streams: list[Stream]
    """See ``listing_of``."""
    folders: dict[str, str]
    """The paths of the directories to search, by name."""


Found = Stream | NoStream | NotALog | PathError
Item = TypeVar("Item")
"""What a place gives for a file."""


def listing_of(
    files: Mapping[str, Item], folders: Mapping[str, str], hints: Sequence[str], stream_of: Callable[[Item], Stream]
) -> Listing:
    """Return what a search goes on with, of all *files* and *folders* in a directory, by their names.

    Without a stream, these are the files that *hints* name. Media of a run are not searched, since what it shows,
    tables among it, is not a log; nor is installed software. *stream_of* is called for the files that are needed.
    """
    if ENVIRONMENT in files:
        return Listing([], {})
    names = sorted(files)
    known = [name for name in names if name in STREAM_NAMES]
    beside = "".join(f" {name} {stream_of(files[name]).version}" for name in names if is_beside(name))
    found = map(stream_of, (files[name] for name in known or names if known or is_hinted(name, hints)))
    return Listing(
        [msgspec.structs.replace(each, is_hinted=not known, identity=each.version + beside) for each in found],
        {
            name: folders[name]
            for name in sorted(folders)
            if not is_passed_over(name) and not (known and name == MEDIA_FOLDER)
        },
    )


def is_beside(name: str) -> bool:
    """Return whether the file *name* belongs to the run whose stream is beside it."""
    return name in OF_A_BUNDLE or bool(rank_of(name))


def is_passed_over(name: str) -> bool:
    """Return whether directories of *name*, below one that was named, have no runs: they hold installed software."""
    return name in _PASSED_OVER


def walk(
    root: str, hints: Sequence[str], listed: Callable[[str, Sequence[str]], Listing]
) -> Iterator[Stream | PathError]:
    """Yield the streams at or below *root*; *listed* returns what is in a directory, by hints, or raises OSError."""
    pending = [(root, hints)]
    while pending:
        directory, hints = pending.pop()
        try:
            streams, folders = listed(directory, hints)
        except OSError as error:
            yield PathError(directory, cause_of(error))
            continue
        yield from streams
        older = set(filter(_CHECKPOINT.fullmatch, folders))
        if older and not any(os.path.basename(each.path) == _CHECKPOINTED for each in streams):
            older.remove(max(older, key=_step_of))
        pending += [(path, () if name in older else hints) for name, path in reversed(folders.items())]


def is_older_checkpoint(path: str) -> bool:
    """Return whether a later ``trainer_state.json`` has everything that the one at *path* has."""
    directory, name = os.path.split(os.path.abspath(path))
    place, folder = os.path.split(directory)
    if name != _CHECKPOINTED or not _CHECKPOINT.fullmatch(folder):
        return False
    others = [os.path.join(place, each) for each in os.listdir(place) if _CHECKPOINT.fullmatch(each)]
    later = [each for each in others if _step_of(each) > _step_of(folder)]
    return any(os.path.isfile(os.path.join(each, _CHECKPOINTED)) for each in (place, *later))


def _step_of(checkpoint: str) -> int:
    return int(checkpoint.rpartition("-")[2])


def is_hinted(name: str, hints: Sequence[str]) -> bool:
    """Return whether one of the patterns *hints* fits the file name *name*, which is not that of annotations."""
    return name != ANNOTATIONS_FILE and any(fnmatchcase(name, pattern) for pattern in hints)


def version_of(status: os.stat_result) -> str:
    """Return the version of a stream whose file has *status*; see Stream."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


# Few enough for little memory, enough that a call costs nothing.
_BATCH = 1024
_EVERY = ("*",)
MAY_BE_LOGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".log", ".txt", ".out", ".err", ".dat")
"""Ends of the names of text that may be a log."""


def find_streams(path: str, *, hints: Sequence[str] = ()) -> Iterator[Found]:
    """Yield the stream at *path*, or every stream in the directory and below it, in the order of their names.

    *hints* are patterns of file names of other programs' logs; such a file is found in directories without a stream. Of
    directories ``checkpoint-<step>`` next to each other only the one with the largest step is searched for them. Where
    *hints* are LogNames, content decides, and text that is not a log is yielded too, to be counted.

    A directory that cannot be listed is a PathError and does not stop the rest. Symbolic links to
    directories are followed only where they are named; below a directory, a FIFO or a device that has the name of a
    stream is a PathError.
    """
    if path == STANDARD_INPUT:
        yield Stream(path, 0)
        return
    if is_address(path):
        yield from find_remote(public(path), hints)
        return
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        yield PathError(path, cause_of(error))
        return
    if not stat.S_ISDIR(status.st_mode):
        version = version_of(status)
        yield Stream(path, status.st_size, identity=version, version=version)
        return
    anything = False
    for found in _walked(path, _EVERY if isinstance(hints, LogNames) else hints):
        if isinstance(hints, LogNames) and not _is_taken(found, hints):
            if isinstance(found, Stream) and is_counted(found.path, found.size):
                yield NotALog(found.path)
            continue
        anything = True
        yield found
    if not anything:
        is_bundle = any(os.path.lexists(os.path.join(path, name)) for name in (*SIDECARS, SEAL_FILE))
        yield NoStream(path, is_bundle)


def logs_in(directory: str, hints: Sequence[str]) -> list[str]:
    """Return the streams and recognized logs in *directory* itself, a place on this machine; see ``find_streams``."""
    found = (each.path for each in find_streams(directory, hints=hints) if isinstance(each, Stream))
    return [path for path in found if os.path.dirname(path) == directory.rstrip(os.sep)]


def _is_taken(found: Stream | PathError, names: LogNames) -> bool:
    """Return whether *found* is not a file that only its content could show to be a log, and does not."""
    if not isinstance(found, Stream) or not found.is_hinted or os.path.isdir(found.path):
        return True
    return found.size > 0 and names.has_log(found.path, found.version)


def is_counted(path: str, size: int) -> bool:
    """Return whether lists count the file *path* of *size* bytes where it is not a log: its name is that of text."""
    is_text = path.endswith(MAY_BE_LOGS) and os.path.basename(path) not in OF_A_BUNDLE
    return size > 0 and is_text and may_be_log(path)


def _walked(root: str, hints: Sequence[str]) -> Iterator[Stream | PathError]:
    """Yield what ``walk`` yields for a directory on this machine, by the compiled engine if there is one."""
    engine = native()
    if engine is None or os.name == "nt":
        yield from map(_refused_or_itself, walk(root, hints, partial(_listed_directory, root)))
        return
    steps = engine.Walk(root, list(hints))
    for found in _steps(iter(lambda: steps.next(_BATCH), []), root):
        if not isinstance(found, bytes):
            yield found


def find_records(root: str, number: int, *, hints: Sequence[str] = ()) -> Iterator[bytes | Found]:
    """Yield the streams that ``find_streams`` yields; the compiled engine has those that are not hinted as records.

    See ``toyspec.catalog.index``: *number* is that of the root in them.
    """
    engine = native()
    if engine is None or os.name == "nt" or is_address(root) or not os.path.isdir(root):
        yield from find_streams(root, hints=hints)
        return
    # What is not a log is found out when it is read, and remembered.
    steps = engine.Walk(root, list(_EVERY if isinstance(hints, LogNames) else hints))
    for found in _steps(iter(lambda: steps.records(_BATCH, number), []), root):
        is_other = isinstance(hints, LogNames) and isinstance(found, Stream) and found.is_hinted
        if not (is_other and isinstance(found, Stream)) or (found.size > 0 and may_be_log(found.path)):
            yield found


def _steps(batches: Iterable[list[Any]], root: str) -> Iterator[bytes | Stream | PathError]:
    """Yield the steps of a walk of the compiled engine."""
    for found in chain.from_iterable(batches):
        if isinstance(found, bytes):
            yield found
        elif len(found) > 2:
            path, size, identity, is_hinted, is_link = found
            version = identity.partition(" ")[0]
            yield _refused_or_itself(Stream(path, size, root, is_hinted, identity, version, is_link))
        else:
            path, (number, words) = found
            yield PathError(path, words if number is None else os.strerror(number))


def _refused_or_itself(found: Stream | PathError) -> Stream | PathError:
    """Return *found*, or why what a walk found is not a file: a FIFO, a socket and a device have no bytes."""
    if isinstance(found, Stream) and not found.size:
        try:
            refuse_special(found.path)
        except OSError as error:
            return PathError(found.path, cause_of(error))
    return found


def _listed_directory(root: str, directory: str, hints: Sequence[str]) -> Listing:
    with os.scandir(directory) as listing:
        entries = list(listing)
    files = {entry.name: entry for entry in entries if _is_given(entry)}
    folders = {entry.name: entry.path for entry in entries if entry.is_dir(follow_symlinks=False)}
    return listing_of(files, folders, hints, partial(_stream_at, root))


def _is_given(entry: os.DirEntry[str]) -> bool:
    """Return whether *entry* is a regular file or a link to one, or has the name of a stream and is not a directory."""
    # DirEntry would raise OSError for links in a circle.
    if entry.name in STREAM_NAMES:
        return not os.path.isdir(entry.path)
    return os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()


def _stream_at(root: str, entry: os.DirEntry[str]) -> Stream:
    try:
        status = entry.stat()
    except OSError:
        return Stream(entry.path, 0, root)
    return Stream(entry.path, status.st_size, root, version=version_of(status), is_link=entry.is_symlink())


def find_remote(address: str, hints: Sequence[str]) -> Iterator[Found]:
    """Yield what ``find_streams`` yields, for an address; memory does not grow with the number of other objects."""
    try:
        place = place_of(address)
        if parts_of(address).scheme in WEB:
            yield _only(entry_in_web(place, address), address)
            return
        if address.rpartition("/")[2] in STREAM_NAMES:
            yield _only(place.status(address), address)
            return
        tree = _Tree(place, address, hints)
        if tree.is_empty:
            yield _only(place.status(address), address)
            return
    except StreamError as error:
        yield PathError(address, error.fact)
    except FileNotFoundError:
        yield PathError(address, "No such object, and none below it")
    except OSError as error:
        yield PathError(address, cause_of(error))
    else:
        anything = False
        for found in walk(address, hints, tree.listed):
            anything = True
            yield found
        if not anything:
            yield NoStream(address, not OF_A_BUNDLE.isdisjoint(tree.names))


def _only(entry: Entry, named: str) -> Stream:
    """Return the one stream that is *named*, itself or by its directory."""
    root = None if entry.address == named else named
    return Stream(entry.address, entry.size, root, identity=entry.identity, version=entry.identity)


class _Tree:
    """The directories below *root* that have something to read, from one listing."""

    def __init__(self, place: Place, root: str, hints: Sequence[str]) -> None:
        self._root = root
        self._files: dict[str, dict[str, Entry]] = {root: {}}
        self._folders: dict[str, dict[str, str]] = {root: {}}
        self.is_empty = True
        """True if nothing is below the root: it is an object, or nothing."""
        for entry in place.entries(root):
            if entry.address == root:
                continue
            self.is_empty = False
            directory, _, name = entry.address.rpartition("/")
            if name in STREAM_NAMES or name == ENVIRONMENT or is_beside(name) or is_hinted(name, hints):
                self._directory(directory)[name] = entry

    @property
    def names(self) -> list[str]:
        """Names of the files in the root that are of a run, or may be read."""
        return list(self._files[self._root])

    def listed(self, directory: str, hints: Sequence[str]) -> Listing:
        """Return what a search needs of *directory*."""
        return listing_of(self._files[directory], self._folders[directory], hints, self._stream_of)

    def _stream_of(self, entry: Entry) -> Stream:
        return Stream(entry.address, entry.size, self._root, version=entry.identity)

    def _directory(self, directory: str) -> dict[str, Entry]:
        """Return what was found in *directory* so far, which is a folder of the one above from now on."""
        if directory not in self._files:
            self._files[directory], self._folders[directory] = {}, {}
            above, _, name = directory.rpartition("/")
            self._directory(above)
            self._folders[above][name] = directory
        return self._files[directory]


Result = TypeVar("Result")

# A request takes much longer than the work on its answer.
_REQUESTS = 16
# So many results wait at most, however many runs a store has.
_AHEAD = 4 * _REQUESTS


def each_result(
    streams: Iterable[Stream], work: Callable[[Stream], Result]
) -> Iterator[tuple[Stream, Callable[[], Result]]]:
    """Yield each of *streams*, in order, and a function that returns the result of *work* on it, or raises as that.

    From the first remote one on, several threads do the work, ahead of what is asked for.
    """
    others = iter(streams)
    for stream in others:
        if is_address(stream.path):
            # Imported with the first address: start-up time counts.
            from concurrent.futures import ThreadPoolExecutor

            pool = ThreadPoolExecutor(_REQUESTS)
            ahead: deque[tuple[Stream, Callable[[], Result]]] = deque()
            try:
                for each in chain([stream], others):
                    ahead.append((each, pool.submit(work, each).result))
                    if len(ahead) > _AHEAD:
                        yield ahead.popleft()
                while ahead:
                    yield ahead.popleft()
            finally:
                pool.shutdown(cancel_futures=True)
        else:
            yield stream, partial(work, stream)
