"""Merges a log that a program writes as several files, so that they are imported as one run.

Successive files of a directory follow one another in the order of the numbers in their names. Lines of files that grow
together are in the order of their times, and of their steps within one time. A file without an LF at its end has one
added, unless it is the last, so that no line goes on in the next file.
"""

from __future__ import annotations

import heapq
import os
import re
import tempfile
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from toyspec.convert.sources import head_of
from toyspec.core.files import open_file
from toyspec.core.reading.log_detection import HEAD_BYTES
from toyspec.logs.dialects import dialects
from toyspec.logs.forms import form_of
from toyspec.logs.mapping import count_of, time_of
from toyspec.logs.recognition import recognize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.logs.dialects import Dialect

_DIGITS = re.compile(r"\d+", re.ASCII)
# The first file may have other records than those that the dialect is known by.
_MOST_HEADS = 4
_PIECE_BYTES = 1 << 20
_Key = tuple[float, float]
_FIRST: _Key = (-float("inf"), -float("inf"))


class LogInParts(NamedTuple):
    """A log in several files."""

    dialect: Dialect
    files: list[str]
    """Their paths, in order."""

    @property
    def directory(self) -> str:
        """The directory of the first file."""
        return os.path.dirname(self.files[0])

    @property
    def head(self) -> bytes:
        """The first bytes of the merged log."""
        found = b""
        for piece in self._pieces():
            found += piece
            if len(found) >= HEAD_BYTES:
                break
        return found[:HEAD_BYTES]

    @contextmanager
    def merged(self) -> Iterator[str]:
        """Return the path of a temporary file with the whole log; raise OSError."""
        with tempfile.TemporaryDirectory(prefix="toyspec-") as directory:
            path = os.path.join(directory, os.path.basename(self.files[0]))
            with open(path, "xb") as file:
                file.writelines(self._pieces())
            yield path

    def _pieces(self) -> Iterator[bytes]:
        if self.dialect.parts == "together":
            yield from (piece for _, piece in heapq.merge(*map(self._keyed, self.files), key=lambda each: each[0]))
            return
        for path in self.files:
            yield from _pieces_of(path, is_last=path == self.files[-1])

    def _keyed(self, path: str) -> Iterator[tuple[_Key, bytes]]:
        """Yield the lines of a file in pieces, each with what orders it; times do not go back."""
        form, key, is_start = form_of(self.dialect), _FIRST, True
        for piece in _pieces_of(path, is_last=False):
            line = piece.rstrip(b"\r\n") if is_start else b""
            record = form.read(line, first=False) or form.validate(line, first=False).value
            times = (time_of((record or {}).get(each.key), each.unit) for each in self.dialect.time)
            time = next((found[0] for found in times if found is not None), None)
            if record is not None and time is not None:
                steps = (count_of(record.get(name)) for name in self.dialect.step)
                key = max(key, (time, next((float(step) for step in steps if step is not None), _FIRST[1])))
            yield key, piece
            is_start = piece.endswith(b"\n")


def logs_in_parts(files: Sequence[str]) -> list[LogInParts]:
    """Return the logs that some of the paths *files* are parts of, by the names and the first records of these."""
    found: list[LogInParts] = []
    for dialect in dialects():
        folders: dict[str, list[str]] = {}
        for path in files if dialect.parts else ():
            if any(fnmatchcase(os.path.basename(path), pattern) for pattern in dialect.files):
                folders.setdefault(os.path.dirname(path), []).append(path)
        found += [LogInParts(dialect, parts) for named in folders.values() if (parts := _parts_of(dialect, named))]
    return found


def _parts_of(dialect: Dialect, named: Sequence[str]) -> list[str]:
    """Return which of the paths *named* are parts of one log of *dialect*, in order; none if they are one file."""
    if dialect.parts == "successive":
        ordered = sorted(named, key=_place)
        heads = islice(filter(None, (head_of(path, HEAD_BYTES) for path in ordered)), _MOST_HEADS)
        return ordered if any(recognize(head, [dialect]) for head in heads) else []
    order = [path for each in dialect.files for path in sorted(named) if fnmatchcase(os.path.basename(path), each)]
    heads_of = {path: head_of(path, HEAD_BYTES) for path in order}
    fits = [path for path, head in heads_of.items() if b"\n" not in head or recognize(head, [dialect])]
    return fits if any(heads_of[path] for path in fits) else []


def _place(path: str) -> str:
    """Return what orders *path* by the numbers in its name, however many digits each has."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(20), os.path.basename(path))


def _pieces_of(path: str, *, is_last: bool) -> Iterator[bytes]:
    """Yield the lines of a file, long ones in pieces."""
    piece = b"\n"
    with open_file(path) as file:
        while read := file.readline(_PIECE_BYTES):
            yield (piece := read)
    if not (is_last or piece.endswith(b"\n")):
        yield b"\n"
