"""Summarizes a run from the first and the last lines of its stream; of a long one, without reading the rest."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from toyspec.core.engine import native
from toyspec.core.errors import StreamError
from toyspec.core.files import open_file
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.run_files import is_of_latest_attempt, ranks_beside
from toyspec.core.runs.rank_states import states_of_other_ranks
from toyspec.core.runs.run_facts import unended
from toyspec.core.runs.stream_ends import WHOLE_BYTES, Ends, ends_at, records_among
from toyspec.core.runs.summarizing import summarize_run
from toyspec.core.runs.summary import Extent, RunSummary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.walking import Stream

_RESUMPTION = b"run_resume"
_PIECE_BYTES = 1 << 20


def summarize_ends(path: str, *, dialect: DialectChoice | None = None, checked_bytes: int | None = None) -> RunSummary:
    """Return the summary of the run whose stream is at *path*, from the ends of the stream.

    A stream up to *checked_bytes* (by default 1 MiB) is read completely. Of a larger one, more of an end is read, up to
    a limit, if it has no step with a loss; damage between the ends is not found, as ``extent`` says. Settings that a
    resumption between them changed are searched for when settings are asked for, unless the stream is in an object
    store. Streams that cannot be read from the end are passed to ``summarize_run``; raises as that does.
    """
    return _summary_of(path, ends_at(path, WHOLE_BYTES if checked_bytes is None else checked_bytes), dialect)


def _summary_of(path: str, found: tuple[Ends, int] | None, dialect: DialectChoice | None) -> RunSummary:
    ends, size = found or (None, 0)
    # What follows no profile is the log of another program, or not a run, which the other one says.
    if (
        ends is None
        or ends.profile is None
        or (not ends.head and path.endswith(".json"))
        or ends.is_doubtful
        or (dialect is not None and ends.may_be_of(dialect))
    ):
        return summarize_run(path, dialect=dialect)
    summary = RunSummary(path, parts=0)
    summary.knows_metrics = False
    if ends.is_resumed():
        summary.take(ends.latest(summary.attempts))
    else:
        summary.take(ends.telling([*ends.head, *ends.tail]), learn="attempts")
    summary.describe(ends.profile, Extent(ends.state, ends.count, size, ends.count is not None))
    if not summary.extent.is_checked and ends.profile == "toy/v1" and not is_address(path):
        summary.find_resumptions = partial(_resumptions, path)
    return summary


def _resumptions(path: str) -> Iterator[Record]:
    """Yield the resumptions in the stream at *path*; none if it cannot be read any more."""
    rest = b""
    with suppress(OSError), open_file(path).detach() as file:
        while piece := file.read(_PIECE_BYTES):
            block = rest + piece
            end = block.rfind(b"\n") + 1
            rest = block[end:] if len(block) - end <= MAX_LINE_BYTES else b""
            at = block.find(_RESUMPTION, 0, end)
            while at >= 0:
                after = block.find(b"\n", at) + 1
                line = block[block.rfind(b"\n", 0, at) + 1 : after]
                yield from (each for each in records_among(RecordFeed(profile="toy/v1").feed(line)) if each.goes_on)
                at = block.find(_RESUMPTION, after, end)


def engine_ends(streams: Sequence[Stream]) -> dict[str, RunSummary]:
    """Return the summaries of runs with short streams that the compiled engine reads, by path; others are left out."""
    engine = native()
    if engine is None:
        return {}
    found = engine.ends([stream.path for stream in streams], WHOLE_BYTES)
    runs = {}
    for stream, each in zip(streams, found, strict=True):
        if each is not None:
            profile, state, count, size, lines = each[:5]
            run = RunSummary(stream.path, parts=0)
            run.knows_metrics = False
            run.take(RecordFeed(profile=profile).feed(lines), learn="attempts")
            run.describe(profile, Extent(state, count, size))
            runs[stream.path] = run
    return runs


def latest_ranks(stream: str) -> dict[int, str]:
    """Return the paths of the logs of other ranks of the run with *stream*, without torn ones of an earlier attempt."""
    paths = ranks_beside(stream)
    broken = unended(states_of_other_ranks(stream), None)
    if not broken:
        return paths
    try:
        summary = summarize_ends(stream)
        summary.settle()
    except StreamError:
        return paths
    gone = {each.rank for each in broken if not is_of_latest_attempt(each.rank, summary.world_size)}
    return {rank: path for rank, path in paths.items() if rank not in gone}
