"""Runs named on the command line: a directory with runs stands for those below it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from toyspec.errors import StreamError, StreamMissingError
from toyspec.reading.stream_files import locate_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.reading.log_detection import DialectChoice


class NamedRun(NamedTuple):
    """A run, or a path where one may appear."""

    path: str
    """The path by which it was named, or found below one."""
    stream: str | None = None
    """The path of its stream, None without one; to look for it once more costs a list at an address."""

    @property
    def place(self) -> str:
        """The stream, or the path where it may appear."""
        return self.stream or self.path


def runs_at(paths: Iterable[str], choice: DialectChoice) -> list[NamedRun]:
    """Return the runs at *paths*; in place of a directory that is not a run, those below it, sorted.

    A path where nothing is, and a directory without runs, stay. Raises StreamError where one cannot be listed or read.
    """
    return [run for path in paths for run in _runs_at(path, choice)]


def _runs_at(path: str, choice: DialectChoice) -> list[NamedRun]:
    try:
        stream, _ = locate_stream(path, choice.stream_files)
    except StreamMissingError:
        return _below(path, choice) or [NamedRun(path)]
    return [NamedRun(path, stream)]


def _below(path: str, choice: DialectChoice) -> list[NamedRun]:
    from toyspec.format.profiles import EVENTS_FILE
    from toyspec.reading.log_detection import usual_names
    from toyspec.runs.listing import streams_below

    errors, streams = streams_below([path], usual_names(choice))
    for error in errors:
        raise StreamError(error.path, error.message)
    return [NamedRun(stream.path.removesuffix(f"{os.sep}{EVENTS_FILE}"), stream.path) for stream in streams]
