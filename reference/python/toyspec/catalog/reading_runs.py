"""Reads runs for a catalog, a batch at a time: the work that is given to workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.catalog.digests import Digested, digested
from toyspec.catalog.growing import RESUMED, grown
from toyspec.catalog.rows import findings_of, row_of
from toyspec.catalog.tables import LARGEST_LINE
from toyspec.catalog.values import values_of
from toyspec.checker.checking import iter_reports
from toyspec.checker.options import CheckOptions
from toyspec.errors import StreamError, UnknownFormatError
from toyspec.findings import FileReport
from toyspec.places.addresses import is_address
from toyspec.runs.each_result import each_result
from toyspec.runs.summarizing import summarize_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.catalog.index import Kind
    from toyspec.reading.log_detection import DialectChoice
    from toyspec.runs.discovery import Stream

# What is left out of a row that is too large.
_OF_ANY_SIZE = ("tags", "config", "model", "run_start", "run_end", "metrics", "findings", "named")

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Plan(NamedTuple):
    """How runs are read."""

    choice: DialectChoice
    with_values: bool


class Job(NamedTuple):
    """A stream that has to be read."""

    stream: Stream
    tail: bytes | None = None
    """What the last update has kept of it; None if nothing is to be kept of it: see ``growing``."""


class ReadRun(NamedTuple):
    """What became of one stream."""

    kind: Kind
    line: bytes = b""
    """JSON: the row of a run."""
    values: bytes = b""
    """Lines of JSON: every value of every metric."""
    error: str | None = None
    tail: bytes = b""
    """What is kept of it for the next update."""


def read_batch(jobs: list[Job], plan: Plan) -> list[ReadRun]:
    """Return what became of each of *jobs*, in order; what cannot be read does not stop the others."""
    if any(is_address(job.stream.path) for job in jobs):
        # A request takes much longer than the work on its answer.
        tails = {job.stream.path: job.tail for job in jobs}
        streams = [job.stream for job in jobs]

        def read(stream: Stream) -> ReadRun:
            return _grown(Job(stream, tails[stream.path]), plan) or _read(stream, plan)

        return [result() for _, result in each_result(streams, read)]
    found = [_grown(job, plan) for job in jobs]
    others = iter(_read_whole([job.stream for job, run in zip(jobs, found, strict=True) if run is None], plan))
    return [run or next(others) for run in found]


def _grown(job: Job, plan: Plan) -> ReadRun | None:
    """Return what became of a long stream that has grown; None if it has to be read whole."""
    if job.tail is None:
        return None
    found = grown(job.stream.path, job.tail)
    if found is None:
        return None
    return _kept(job.stream, plan, Digested(found.summary, found.findings))._replace(tail=found.tail)


def _read_whole(streams: list[Stream], plan: Plan) -> list[ReadRun]:
    known = digested(streams, plan.choice)
    reports = _reports([stream.path for stream in streams if stream.path not in known], plan.choice)
    return [
        _kept(stream, plan, known[stream.path]) if stream.path in known else _read(stream, plan, next(reports))
        for stream in streams
    ]


def not_read(_: Job, reason: str) -> ReadRun:
    """Return what is known of a stream that was not read."""
    return ReadRun("e", error=reason)


def _read(stream: Stream, plan: Plan, report: Any = None) -> ReadRun:
    try:
        summary = summarize_run(stream.path, dialect=plan.choice)
        if report is None:
            report = next(_reports([stream.path], plan.choice))
        findings = findings_of(report if isinstance(report, FileReport) else None)
        return _kept(stream, plan, Digested(summary, findings))
    except StreamError as error:
        if isinstance(error, UnknownFormatError) and (stream.is_below or stream.is_hinted):
            return ReadRun("h" if stream.is_hinted else "o")
        return ReadRun("e", error=error.fact)


def _kept(stream: Stream, plan: Plan, digest: Digested) -> ReadRun:
    summary = digest.summary
    row = row_of(summary, digest.findings) | {"stream": stream.path, "identity": stream.identity}
    values = b"".join(values_of(summary, plan.choice, row["day"])) if plan.with_values else b""
    tail = RESUMED if summary.attempts or summary.starts_late else b""
    return ReadRun("l" if summary.is_running else "r", _line(row), values, tail=tail)


def _reports(paths: list[str], choice: DialectChoice) -> Iterator[Any]:
    options = CheckOptions(dialect=choice.name, step_key=choice.step, dialects=choice.own, own_profiles=choice.profiles)
    return iter(iter_reports(paths, options=options))


def _line(row: dict[str, Any]) -> bytes:
    line = _encode(row)
    if len(line) >= LARGEST_LINE:
        line = _encode({**row, **dict.fromkeys(_OF_ANY_SIZE)})
    return line + b"\n"
