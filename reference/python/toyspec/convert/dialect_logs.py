"""Imports the logs that toyspec reads as dialects: JSON Lines, CSV, JSON documents and console lines."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from toyspec.convert.dialect_import import choice_of, events_of
from toyspec.convert.formats import ForeignRun
from toyspec.convert.sources import files_below, identity_of, is_file, name_below
from toyspec.errors import SourceError, StreamError
from toyspec.format.dialects import dialect_named, dialects
from toyspec.format.recognition import has_text
from toyspec.reading.gzip_data import GzipDataError
from toyspec.reading.log_detection import HEAD_BYTES, DialectChoice
from toyspec.reading.parts import is_in_parts, parts_among
from toyspec.reading.reader import read
from toyspec.reading.stream_files import parts_file, stream_size, unpacked_head
from toyspec.runs.walking import is_older_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.finding import FileOwners
    from toyspec.format.dialect_mapping import ReadAs
    from toyspec.format.dialects import Dialect


_SKIPPED = (".py", ".md", ".png", ".pt", ".bin", ".safetensors", ".yaml", ".toml", ".npy", ".npz")


def names() -> list[str]:
    """Return the names of all dialects."""
    return [dialect.name for dialect in dialects()]


class DialectImporter:
    """Imports one dialect, or any."""

    def __init__(
        self, name: str | None = None, others: FileOwners | None = None, dialect: DialectChoice | None = None
    ) -> None:
        """Import the dialect *name*; any without. The files of *others* are left out.

        *dialect* has the dialects of the user, and the key of the step.
        """
        self._choice = dialect or DialectChoice()
        self._name = name
        self._others = others

    def recognise(self, path: str) -> bool:
        """Return whether the file *path* is of the dialect, or a directory with such files."""
        if not os.path.isdir(path):
            return self._recognised(path) is not None
        return next(self._files(path), None) is not None

    def find_runs(self, path: str) -> Iterator[ForeignRun]:
        """Yield a run for each log at *path* and below."""
        found = False
        for file, read_as, name in self._files(path):
            found = True
            yield from _runs(file, read_as, name)
        if not found:
            wanted = f"a log of the dialect {self._name}" if self._name else "a log of a known dialect"
            raise SourceError(path, f"there is not {wanted}")

    def _files(self, path: str) -> Iterator[tuple[str, ReadAs, str]]:
        if not os.path.isdir(path):
            chosen = self._read_as(path)
            if chosen is not None:
                yield path, chosen, _stem(path)
            return
        for directory, files in files_below(path, _may_be_log):
            free = [file for file in files if self._others is None or self._others.owner_of(file) is None]
            logs = [(file, chosen) for file in _united(directory, free) if (chosen := self._recognised(file))]
            logs = [(file, chosen) for file, chosen in logs if not is_older_checkpoint(file)]
            for file, chosen in logs:
                name = name_below(path, directory)
                yield file, chosen, name if len(logs) == 1 or file == directory else f"{name}-{_stem(file)}"

    def _dialect(self, name: str) -> Dialect:
        return next((each for each in self._choice.own if each.name == name), None) or dialect_named(name)

    def _read_as(self, path: str) -> ReadAs | None:
        """Return how the file *path* is read, in the dialect that the user named if there is one."""
        return _chosen(path, self._name or self._choice.name, self._choice)

    def _recognised(self, path: str) -> ReadAs | None:
        """Return how the file *path* is read if its content is of the dialect."""
        if self._name and not has_text(_head_of(path), self._dialect(self._name)):
            return None
        found = _chosen(path, "auto" if self._name else self._choice.name, self._choice)
        return found if found is None or self._name in (None, found.dialect.name) else None


def _chosen(path: str, name: str | None, choice: DialectChoice) -> ReadAs | None:
    head = _head_of(path)
    return DialectChoice(name, keys=choice.keys, own=choice.own).choose(head, path=path) if head else None


def _head_of(path: str) -> bytes:
    """Return the first bytes of the log *path*, unpacked; none of what is not one, and of damaged gzip data."""
    if os.path.isdir(path):
        parts = parts_file(path)
        return b"" if parts is None else parts.read(HEAD_BYTES)
    try:
        return unpacked_head(path, HEAD_BYTES)[0] if is_file(path) else b""
    except (StreamError, GzipDataError):
        return b""


def _united(directory: str, files: list[str]) -> list[str]:
    """Return the logs that *files* in *directory* may be: the directory itself for those that are parts of one log."""
    names = [os.path.basename(file) for file in files]
    if not is_in_parts(directory, names):
        return files
    parts = parts_among(directory, names)
    return [directory, *(file for file, name in zip(files, names, strict=True) if name not in parts)]


def _parts_of(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in sorted(parts_among(directory, os.listdir(directory)))]


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0]


def _may_be_log(name: str) -> bool:
    return not name.endswith(_SKIPPED)


def _runs(path: str, read_as: ReadAs, name: str) -> Iterator[ForeignRun]:
    attempts = 1
    files = _parts_of(path) if os.path.isdir(path) else [path]
    if read_as.dialect.restart is not None:
        with read(path, mode="salvage", dialect=choice_of(read_as)) as reading:
            attempts = max((row.attempt for row in reading), default=1)
    for attempt in range(1, attempts + 1):
        yield ForeignRun(
            name=name if attempt == 1 else f"{name}-attempt-{attempt}",
            source=path if attempt == 1 else f"{path}#{attempt}",
            identity=identity_of(files, f"{read_as.dialect.name} {read_as.step} {attempt}"),
            size=stream_size(path) // attempts,
            events=partial(events_of, path, read_as, name, attempt),
            dialect=read_as.dialect.name,
            parts=tuple(files),
        )
