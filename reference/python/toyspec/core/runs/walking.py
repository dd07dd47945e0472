"""What a search for streams finds, and how it goes down a tree of directories, on a disk or in a store."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from toyspec.core.findings import PathError
from toyspec.core.format.profiles import ANNOTATIONS_FILE, MANIFEST_FILE, SEAL_FILE
from toyspec.core.reading.run_files import MEDIA_FOLDER, RANKS_BEGIN, rank_of
from toyspec.core.reading.stream_files import STREAM_NAMES
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


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
    is_sealed: bool | None = None
    """Whether a seal is beside it; None where it is not known."""

    @property
    def may_be_annotated(self) -> bool:
        """False where it is known that no annotations are beside the stream."""
        return not self.identity or self.is_hinted or f" {ANNOTATIONS_FILE} " in self.identity

    @property
    def is_regular(self) -> bool:
        """False for a FIFO or a device, which only a user can name."""
        return self.root is not None or os.path.isfile(self.path)

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
    candidates: tuple[str, ...] = ()
    """Some of the files in it that may be logs, though no dialect fits."""


class NotALog(msgspec.Struct, frozen=True):
    """A file in a directory that was searched, which has the name of text and is not a log that is recognized."""

    path: str


class Listed(NamedTuple):
    """A file or a directory in a directory."""

    name: str
    path: str
    size: int = 0
    """Number of bytes of a file; 0 where it is not known."""
    version: str = ""
    """See Stream."""
    beside: str = ""
    """A text that changes with the files of the run beside a stream."""
    is_link: bool = False
    is_sealed: bool | None = None
    """See Stream."""


class Listing(NamedTuple):
    """What a search for streams needs of a directory; both are sorted by name."""

    files: list[Listed]
    """See ``listing_of``."""
    folders: list[Listed]


Found = Stream | NoStream | NotALog | PathError
Item = TypeVar("Item")
"""What a place gives for a file."""


def listing_of(
    files: Mapping[str, Item], folders: Mapping[str, str], hints: Sequence[str], listed: Callable[[Item], Listed]
) -> Listing:
    """Return what a search goes on with, of all *files* and *folders* in a directory, by their names.

    Without a stream, these are the files that *hints* name. Media of a run are not searched, since what it shows,
    tables among it, is not a log; nor is installed software. *listed* is called for the files that are needed.
    """
    if ENVIRONMENT in files:
        return Listing([], [])
    names = sorted(files)
    streams = [name for name in names if name in STREAM_NAMES]
    beside = "".join(f" {name} {listed(files[name]).version}" for name in names if is_beside(name))
    return Listing(
        [
            listed(files[name])._replace(beside=beside, is_sealed=SEAL_FILE in files)
            for name in streams or [name for name in names if is_hinted(name, hints)]
        ],
        [
            Listed(name, folders[name])
            for name in sorted(folders)
            if not is_passed_over(name) and not (streams and name == MEDIA_FOLDER)
        ],
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
            files, folders = listed(directory, hints)
        except OSError as error:
            yield PathError(directory, cause_of(error))
            continue
        for file in files:
            yield Stream(
                file.path,
                file.size,
                root,
                is_hinted=file.name not in STREAM_NAMES,
                identity=file.version + file.beside,
                version=file.version,
                is_link=file.is_link,
                is_sealed=file.is_sealed,
            )
        older = {folder.name for folder in folders if _CHECKPOINT.fullmatch(folder.name)}
        if older and not any(file.name == _CHECKPOINTED for file in files):
            older.remove(max(older, key=_step_of))
        pending += [(folder.path, () if folder.name in older else hints) for folder in reversed(folders)]


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
