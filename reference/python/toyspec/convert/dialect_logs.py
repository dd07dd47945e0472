"""Imports the logs that toyspec reads as dialects: JSON Lines, CSV, JSON documents and console lines."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from toyspec.convert.dialect_import import DialectImport, choice_of
from toyspec.convert.formats import ForeignRun
from toyspec.convert.logs_in_parts import LogInParts, logs_in_parts
from toyspec.convert.sources import files_below, identity_of, is_file, name_below, size_of
from toyspec.core.errors import SourceError, StreamError
from toyspec.core.reading.gzip_data import GzipDataError
from toyspec.core.reading.log_detection import HEAD_BYTES, DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import unpacked_head
from toyspec.core.runs.walking import is_older_checkpoint
from toyspec.logs.dialects import dialect_named, dialects
from toyspec.logs.reader import DialectLog
from toyspec.logs.recognition import has_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.finding import FileOwners
    from toyspec.convert.intake import Intake
    from toyspec.logs.dialects import Dialect
    from toyspec.logs.mapping import ReadAs


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
        return next(self._logs(path), None) is not None

    def find_runs(self, path: str) -> Iterator[ForeignRun]:
        """Yield a run for each log at *path* and below."""
        found = False
        for log, read_as, name in self._logs(path):
            found = True
            yield from _runs(log, read_as, name)
        if not found:
            wanted = f"a log of the dialect {self._name}" if self._name else "a log of a known dialect"
            raise SourceError(path, f"there is not {wanted}")

    def _logs(self, path: str) -> Iterator[tuple[str | LogInParts, ReadAs, str]]:
        if not os.path.isdir(path):
            chosen = self._read_as(path)
            if chosen is not None:
                yield path, chosen, _stem(path)
            return
        folders = {
            directory: [file for file in files if self._others is None or self._others.owner_of(file) is None]
            for directory, files in files_below(path, _may_be_log)
        }
        in_parts = logs_in_parts([file for files in folders.values() for file in files])
        parts = {file for log in in_parts for file in log.files}
        for directory, files in folders.items():
            alone = [file for file in files if file not in parts and not is_older_checkpoint(file)]
            logs: list[str | LogInParts] = [*(log for log in in_parts if log.directory == directory), *alone]
            chosen_of = [(log, chosen) for log in logs if (chosen := self._recognised(log)) is not None]
            name = name_below(path, directory)
            for log, chosen in chosen_of:
                stem = f"-{_stem(log)}" if isinstance(log, str) and len(chosen_of) > 1 else ""
                yield log, chosen, name + stem

    def _dialect(self, name: str) -> Dialect:
        return next((each for each in self._choice.own if each.name == name), None) or dialect_named(name)

    def _read_as(self, path: str) -> ReadAs | None:
        """Return how the file *path* is read, in the dialect that the user named if there is one."""
        return _chosen(path, self._name or self._choice.name, self._choice)

    def _recognised(self, log: str | LogInParts) -> ReadAs | None:
        """Return how *log* is read if its content is of the dialect."""
        if self._name and not has_text(_head_of(log), self._dialect(self._name)):
            return None
        found = _chosen(log, "auto" if self._name else self._choice.name, self._choice)
        return found if found is None or self._name in (None, found.dialect.name) else None


def _chosen(log: str | LogInParts, name: str | None, choice: DialectChoice) -> ReadAs | None:
    head = _head_of(log)
    path = log if isinstance(log, str) else log.files[0]
    found = DialectChoice(name, keys=choice.keys, own=choice.own).choose(head, path=path) if head else None
    return found if isinstance(found, DialectLog) else None


def _head_of(log: str | LogInParts) -> bytes:
    """Return the first bytes of *log*, unpacked; none of what is not one, and of damaged gzip data."""
    if isinstance(log, LogInParts):
        return log.head
    try:
        return unpacked_head(log, HEAD_BYTES)[0] if is_file(log) else b""
    except (StreamError, GzipDataError):
        return b""


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0]


def _may_be_log(name: str) -> bool:
    return not name.endswith(_SKIPPED)


def _runs(log: str | LogInParts, read_as: ReadAs, name: str) -> Iterator[ForeignRun]:
    attempts = 1
    source, files = (log, [log]) if isinstance(log, str) else (log.directory, log.files)
    # No dialect in parts has attempts.
    if isinstance(log, str) and read_as.dialect.restart is not None:
        with read(log, mode="salvage", dialect=choice_of(read_as)) as reading:
            attempts = max((row.attempt for row in reading), default=1)
    for attempt in range(1, attempts + 1):
        yield ForeignRun(
            name=name if attempt == 1 else f"{name}-attempt-{attempt}",
            source=source if attempt == 1 else f"{source}#{attempt}",
            identity=identity_of(files, f"{read_as.dialect.name} {read_as.step} {attempt}"),
            size=size_of(files) // attempts,
            records=partial(_records, log, read_as, name, attempt),
            dialect=read_as.dialect.name,
            parts=tuple(files),
        )


def _records(log: str | LogInParts, read_as: ReadAs, name: str, attempt: int, intake: Intake) -> Iterator[bytes]:
    if isinstance(log, str):
        yield from DialectImport(log, read_as, attempt, intake).lines(name)
        return
    with log.merged() as path:
        yield from DialectImport(path, read_as, attempt, intake).lines(name)
    intake.ledger.note(f"lines are counted through its {len(log.files)} files, as they are read")
