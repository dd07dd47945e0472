"""Runs named on the command line: a directory with runs stands for those below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toyspec.core.errors import StreamError, StreamMissingError
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.run_files import run_of
from toyspec.core.reading.stream_files import locate_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.expressions import Expression
    from toyspec.core.runs.walking import Stream


def run_filter(text: str) -> Expression:
    """Return the filter in *text*; raise ArgumentTypeError."""
    # Imported here: most commands take none.
    from argparse import ArgumentTypeError

    from toyspec.core.errors import ExpressionError
    from toyspec.core.runs.expressions import expression

    try:
        return expression(text)
    except ExpressionError as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from None


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
    stream, below = (_located_at if is_address(path) else _located)(path, choice)
    return [NamedRun(path, stream)] if stream is not None else list(map(_named, below)) or [NamedRun(path)]


def _named(stream: Stream) -> NamedRun:
    return NamedRun(run_of(stream.path), stream.path)


def _located(path: str, choice: DialectChoice) -> tuple[str | None, list[Stream]]:
    """Return the stream at *path*; for a directory that is not a run, the streams below. Raises StreamError."""
    try:
        return locate_stream(path, choice.stream_files), []
    except StreamMissingError:
        from toyspec.core.reading.log_detection import usual_names
        from toyspec.core.runs.listing import streams_below

        errors, streams = streams_below([path], usual_names(choice))
    for error in errors:
        raise StreamError(error.path, error.message)
    return None, streams


def _located_at(address: str, choice: DialectChoice) -> tuple[str | None, list[Stream]]:
    """Return what ``_located`` does; a store is listed once."""
    from toyspec.core.reading.log_detection import usual_names
    from toyspec.core.runs.listing import one_of_each_run
    from toyspec.core.runs.remote_discovery import locate_all

    stream, below = locate_all(public(address), choice.stream_files, usual_names(choice))
    return stream, one_of_each_run({each.path: each for each in below})
