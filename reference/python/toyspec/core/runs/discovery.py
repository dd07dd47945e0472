"""Finds the streams below a path: see spec/bundle.md."""

from __future__ import annotations

import os
import re
import stat
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.engine import native
from toyspec.core.files import open_file
from toyspec.core.findings import PathError
from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.log_detection import LogNames, may_be_log
from toyspec.core.runs.walking import (
    OF_A_BUNDLE,
    SIDECARS,
    STANDARD_INPUT,
    Found,
    Listed,
    Listing,
    NoStream,
    NotALog,
    Stream,
    listing_of,
    version_of,
    walk,
)
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Few enough for little memory, enough that a call costs nothing.
_BATCH = 1024
_EVERY = ("*",)
_MOST_CANDIDATES = 5
_NUMBERED_BYTES = 4096
_NUMBERS = re.compile(rb"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?!\w)", re.ASCII)
MAY_BE_LOGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".log", ".txt", ".out", ".err", ".dat")
"""Ends of the names of text that may be a log."""


def find_streams(path: str, *, hints: Sequence[str] = ()) -> Iterator[Found]:
    """Yield the stream at *path*, or every stream in the directory and below it, in the order of their names.

    *hints* are patterns of file names of other programs' logs; such a file is found in directories without a stream. Of
    directories ``checkpoint-<step>`` next to each other only the one with the largest step is searched for them. Where
    *hints* are LogNames, content decides, and text that is not a log is yielded too, to be counted.

    A directory that cannot be listed is a PathError and does not stop the rest. Symbolic links to
    directories are followed only where they are named; below a directory only regular files are streams.
    """
    if path == STANDARD_INPUT:
        yield Stream(path, 0)
        return
    if is_address(path):
        # Imported with the first address: start-up time counts.
        from toyspec.core.runs.remote_discovery import find_remote

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
    candidates: list[str] = []
    for found in _walked(path, _EVERY if isinstance(hints, LogNames) else hints):
        if isinstance(hints, LogNames) and not _is_taken(found, hints, candidates):
            if isinstance(found, Stream) and _may_be_counted(found):
                yield NotALog(found.path)
            continue
        anything = True
        yield found
    if not anything:
        is_bundle = any(os.path.lexists(os.path.join(path, name)) for name in (*SIDECARS, SEAL_FILE))
        yield NoStream(path, is_bundle, tuple(candidates))


class LogsIn(NamedTuple):
    """What a directory has that may be shown as a run."""

    logs: list[str]
    """The streams and recognized logs in the directory itself."""
    candidates: tuple[str, ...]
    """Up to five files in it or below that may be logs, where there is no log."""


def logs_in(directory: str, hints: Sequence[str]) -> LogsIn:
    """Return what *directory*, a place on this machine, has; *hints* are as for ``find_streams``."""
    logs: list[str] = []
    candidates: tuple[str, ...] = ()
    for found in find_streams(directory, hints=hints):
        if isinstance(found, Stream) and os.path.dirname(found.path) == directory.rstrip(os.sep):
            logs.append(found.path)
        elif isinstance(found, NoStream):
            candidates = found.candidates
    return LogsIn(logs, candidates)


def _is_taken(found: Stream | PathError, names: LogNames, candidates: list[str]) -> bool:
    """Return whether *found* is not a file that only its content could show to be a log, and does not.

    Some of those that have the name of a log are added to *candidates*.
    """
    if not isinstance(found, Stream) or not found.is_hinted or os.path.isdir(found.path):
        return True
    if found.size and names.has_log(found.path, found.version):
        return True
    if len(candidates) < _MOST_CANDIDATES and found.path.endswith(MAY_BE_LOGS) and _has_numbers(found.path):
        candidates.append(found.path)
    return False


def _may_be_counted(found: Stream) -> bool:
    return found.size > 0 and found.path.endswith(MAY_BE_LOGS) and os.path.basename(found.path) not in OF_A_BUNDLE


def _has_numbers(path: str) -> bool:
    """Return whether the file *path*, which is not a part of a run, begins with text that has several numbers."""
    if os.path.basename(path) in OF_A_BUNDLE:
        return False
    try:
        with open_file(path) as file:
            head = file.read(_NUMBERED_BYTES)
    except OSError:
        return False
    return b"\0" not in head and len(_NUMBERS.findall(head)) > 1


def _walked(root: str, hints: Sequence[str]) -> Iterator[Stream | PathError]:
    """Yield what ``walk`` yields for a directory on this machine, by the compiled engine if there is one."""
    engine = native()
    if engine is None or os.name == "nt":
        yield from walk(root, hints, _listed)
        return
    steps = engine.Walk(root, list(hints))
    for found in _steps(iter(lambda: steps.next(_BATCH), []), root):
        if not isinstance(found, bytes):
            yield found


def find_records(root: str, number: int, *, hints: Sequence[str] = ()) -> Iterator[bytes | Found]:
    """Yield the streams that ``find_streams`` yields; the compiled engine has those that are not hinted as records.

    See ``toyspec.catalog.records``: *number* is that of the root in them.
    """
    engine = native()
    if engine is None or os.name == "nt" or is_address(root) or not os.path.isdir(root):
        yield from find_streams(root, hints=hints)
        return
    # What is not a log is found out when it is read, and remembered.
    steps = engine.Walk(root, list(_EVERY if isinstance(hints, LogNames) else hints))
    for found in _steps(iter(lambda: steps.records(_BATCH, number), []), root):
        is_other = isinstance(hints, LogNames) and isinstance(found, Stream) and found.is_hinted
        if not is_other or (isinstance(found, Stream) and _may_have_log(found)):
            yield found


def _may_have_log(found: Stream) -> bool:
    return found.size > 0 and may_be_log(found.path)


def _steps(batches: Iterable[list[Any]], root: str) -> Iterator[bytes | Stream | PathError]:
    """Yield the steps of a walk of the compiled engine."""
    for found in chain.from_iterable(batches):
        if isinstance(found, bytes):
            yield found
        elif len(found) > 2:
            path, size, identity, is_hinted, is_link, is_sealed = found
            version = identity.partition(" ")[0]
            yield Stream(path, size, root, is_hinted, identity, version, is_link, is_sealed)
        else:
            path, (number, words) = found
            yield PathError(path, words if number is None else os.strerror(number))


def _listed(directory: str, hints: Sequence[str]) -> Listing:
    with os.scandir(directory) as listing:
        entries = list(listing)
    files = {entry.name: entry for entry in entries if entry.is_file()}
    folders = {entry.name: entry.path for entry in entries if entry.is_dir(follow_symlinks=False)}
    return listing_of(files, folders, hints, _listed_file)


def _listed_file(entry: os.DirEntry[str]) -> Listed:
    try:
        status = entry.stat()
    except OSError:
        return Listed(entry.name, entry.path)
    return Listed(entry.name, entry.path, status.st_size, version_of(status), is_link=entry.is_symlink())
