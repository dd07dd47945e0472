"""Runs named on the command line: a directory with runs stands for those below it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.errors import StreamError, StreamMissingError
from toyspec.reading.stream_files import locate_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.reading.log_detection import DialectChoice


def runs_at(paths: Iterable[str], choice: DialectChoice) -> list[str]:
    """Return *paths*; in place of a directory that is not a run, the runs below it in the order of their names.

    A path where nothing is, and a directory without runs, stay. Raises StreamError where one
    cannot be listed.
    """
    return [run for path in paths for run in _runs_at(path, choice)]


def _runs_at(path: str, choice: DialectChoice) -> list[str]:
    try:
        locate_stream(path, choice.stream_files)
    except StreamMissingError:
        return _below(path, choice) or [path]
    except StreamError:
        # Who opens it reports it.
        return [path]
    return [path]


def _below(path: str, choice: DialectChoice) -> list[str]:
    from toyspec.format.profiles import EVENTS_FILE
    from toyspec.reading.log_detection import usual_names
    from toyspec.runs.listing import streams_below

    errors, streams = streams_below([path], usual_names(choice))
    for error in errors:
        raise StreamError(error.path, error.message)
    return [stream.path.removesuffix(f"{os.sep}{EVENTS_FILE}") for stream in streams]
