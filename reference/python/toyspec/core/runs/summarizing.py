"""Reads a whole run and summarizes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core.errors import StreamError
from toyspec.core.reading.log_detection import HEAD_BYTES, DialectChoice
from toyspec.core.reading.number_blocks import latest
from toyspec.core.reading.reader import is_other_document, read, unknown_format
from toyspec.core.reading.stream_files import locate_stream, stream_size, unpacked_head
from toyspec.core.runs.summary import Extent, RunSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toyspec.core.runs.summary import Taken

    Watch = Callable[[Iterable[Taken], int], Iterable[Taken]]


def summarize_run(
    path: str, *, metric: str | None = None, watch: Watch | None = None, dialect: DialectChoice | None = None
) -> RunSummary:
    """Return the summary of the run at *path*, a run directory or a stream; *metric* is what it keeps whole.

    *watch* is given the records and the size of the stream, and passes the records on. The log of another program is
    read by a *dialect*, by default the one that is recognized.
    Raises StreamMissingError, StreamUnreadableError, and UnknownFormatError for what is not a run; damage is skipped
    and is in the summary's report.
    """
    choice = dialect or DialectChoice()
    stream = locate_stream(path, choice.stream_files)
    summary = RunSummary(stream, metric)
    reading = read(stream, mode="salvage", dialect=choice)
    reading.give_numbers()
    summary.take(reading if watch is None else watch(reading, _size(stream)), learn="attempts")
    report = reading.report
    if report.dialect is None and (report.profile is None or (not report.records and _is_other(stream))):
        raise unknown_format(stream)
    if summary.attempts or summary.starts_late:
        again = RunSummary(stream, metric, attempts=summary.attempts)
        with read(stream, mode="salvage", profile=report.profile, dialect=choice) as reading:
            if report.dialect is None:
                reading.give_numbers("steps")
            again.take(latest(reading, summary.attempts))
        summary = again
    summary.report, summary.choice = report, choice
    summary.dialect = report.dialect
    summary.describe(report.profile, Extent(report.state, report.records, report.size))
    return summary


def _is_other(stream: str) -> bool:
    """Return whether the file *stream*, which has no record, is a document of another program."""
    try:
        return is_other_document(stream, unpacked_head(stream, HEAD_BYTES)[0])
    except (OSError, StreamError):
        return False


def _size(stream: str) -> int:
    try:
        return stream_size(stream)
    except OSError:
        return 0
