"""Reads runs for a catalog, a batch at a time: the work that is given to workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.catalog.rows import findings_of, row_of
from toyspec.catalog.tables import LARGEST_LINE
from toyspec.core.checker.checking import iter_reports
from toyspec.core.checker.options import CheckOptions
from toyspec.core.engine import native
from toyspec.core.errors import StreamError, UnknownFormatError
from toyspec.core.findings import FileReport
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.attempts import Placing, is_listed
from toyspec.core.reading.log_detection import LogNames, usual_names
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.runs.discovery import each_result, ranks_in
from toyspec.core.runs.stream_ends import states_of_other_ranks
from toyspec.core.runs.summary import Extent, RunSummary, summarize_ends, summarize_run, take_extremes
from toyspec.health.checking import incidents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import toyspec_engine

    from toyspec.catalog.index import Kind
    from toyspec.catalog.rows import Findings
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.discovery import Stream
    from toyspec.health.rules import AnyRule


_MOST_BYTES = 1 << 25
"""Larger streams are read a piece at a time."""


class Digested(NamedTuple):
    """What a catalog needs of a run."""

    summary: RunSummary
    """It has the extremes of each metric, not the shape of its curve."""
    findings: Findings


def digested(streams: Sequence[Stream], choice: DialectChoice) -> dict[str, Digested]:
    """Return what the compiled engine knows of runs with plain records, by path; others are left out."""
    engine = native()
    if engine is None or choice.is_named or choice.may_be_own:
        return {}
    paths = [stream.path for stream in streams if stream.size <= _MOST_BYTES]
    found = {}
    for path, fields in zip(paths, engine.digests(paths, _MOST_BYTES), strict=True):
        digest = None if fields is None else _digested(path, fields)
        if digest is not None:
            found[path] = digest
    return found


def _digested(path: str, fields: toyspec_engine.DigestFields) -> Digested | None:
    """Return the digest of a run; None for one that has to be read twice."""
    profile, state, records, size, findings, parts = fields
    summary = RunSummary(path, parts=0)
    feed = RecordFeed(profile=profile)
    for part in parts:
        if isinstance(part, bytes):
            summary.take((each for each in feed.feed(part) if isinstance(each, Record)), learn="attempts")
        else:
            take_extremes(summary, part, profile)
    if summary.attempts or summary.starts_late:
        return None
    summary.describe(profile, Extent(state, records, size))
    return Digested(summary, {rule: (severity, number) for rule, severity, number in findings})


_MOST_VALUES = 10_000


def values_of(summary: RunSummary, choice: DialectChoice, day: str | None = None) -> Iterator[bytes]:
    """Yield the values of the run of *summary*, those of its latest attempts: null where one was not finite."""
    head = {"stream": summary.path, "path": summary.facts.path, "run": summary.facts.run, "day": day}
    held: dict[str, tuple[list[Any], list[Any], list[Any]]] = {}
    with read(summary.path, mode="salvage", dialect=choice) as reading:
        placing = Placing(summary.attempts)
        for record in reading:
            if summary.attempts.are_values_abandoned(record):
                continue
            step = placing.take(record)
            for name, value in summary.attempts.named_values(record).items():
                steps, times, values = held.setdefault(name, ([], [], []))
                steps.append(step if is_listed(step) else None)
                times.append(record.time)
                values.append(value)
                if len(values) >= _MOST_VALUES:
                    yield _values_line(head, name, held.pop(name))
    for name, lists in held.items():
        yield _values_line(head, name, lists)


def _values_line(head: dict[str, Any], name: str, lists: tuple[list[Any], list[Any], list[Any]]) -> bytes:
    steps, times, values = lists
    found = {**head, "metric": name, "step": steps, "time": times, "value": values}
    return msgspec.json.encode(found) + b"\n"


# What is left out of a row that is too large.
_OF_ANY_SIZE = (
    "tags",
    "notes",
    "said",
    "config",
    "model",
    "run_start",
    "run_end",
    "metrics",
    "findings",
    "settings",
)

_LONGEST, _LONGEST_PLAIN = 1 << 27, 1 << 24

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Plan(NamedTuple):
    """How runs are read."""

    choice: DialectChoice
    with_values: bool
    rules: tuple[AnyRule, ...] | None = None
    """The health rules whose incidents are counted; None if they are not."""


class Job(NamedTuple):
    """A stream that has to be read."""

    stream: Stream
    may_keep: bool = False
    """Whether the catalog has a row of it that may stay while it is written: it has changed since it was looked at."""


class ReadRun(NamedTuple):
    """What became of one stream."""

    kind: Kind
    line: bytes = b""
    """JSON: the row of a run."""
    values: bytes = b""
    """Lines of JSON: every value of every metric."""
    error: str | None = None
    is_kept: bool = False
    """Whether its row stays unchanged."""


def read_batch(jobs: list[Job], plan: Plan) -> list[ReadRun]:
    """Return what became of each of *jobs*, in order; what cannot be read does not stop the others."""
    kept = {job.stream.path: ReadRun("l", is_kept=True) for job in jobs if job.may_keep and _is_long_and_open(job)}
    streams = [job.stream for job in jobs if job.stream.path not in kept]
    if any(is_address(stream.path) for stream in streams):
        # A request takes much longer than the work on its answer.
        others = iter([result() for _, result in each_result(streams, lambda stream: _read(stream, plan))])
    else:
        others = iter(_read_whole(streams, plan))
    return [kept.get(job.stream.path) or next(others) for job in jobs]


def _is_long_and_open(job: Job) -> bool:
    """Return whether a run takes more than a second to read, and has not ended."""
    if job.stream.size <= longest(job.stream.path):
        return False
    try:
        return summarize_ends(job.stream.path).extent.state == "torn"
    except StreamError:
        return False


def longest(path: str) -> int:
    """Return the number of bytes of the stream at *path* that are read in about a second."""
    return _LONGEST if native() is not None and not is_address(path) else _LONGEST_PLAIN


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
    if stream.is_hinted and summary.profile is not None and not _is_log(stream, plan.choice):
        return ReadRun("h")
    summary.may_be_annotated = stream.may_be_annotated
    has_none = bool(stream.identity) and not ranks_in(stream.identity)
    summary.known_ranks = [] if has_none else states_of_other_ranks(stream.path, stream.identity)
    incidents = None if plan.rules is None else incidents_of(stream.path, plan.rules, plan.choice)
    row = row_of(summary, digest.findings, incidents) | {"stream": stream.path, "identity": stream.identity}
    if summary.extent.state == "torn" and summary.extent.size > longest(stream.path):
        row["as_of"] = summary.extent.size
    values = b"".join(values_of(summary, plan.choice, row["day"])) if plan.with_values else b""
    line, error = _line(row), None
    if len(line) >= LARGEST_LINE:
        line = _line({**row, **dict.fromkeys(_OF_ANY_SIZE)})
        error = (
            f"its settings, metrics and tags are more than {LARGEST_LINE >> 20} MiB of JSON; the row is without them"
        )
    is_live = summary.facts.state == "running" or any(each.state == "running" for each in summary.known_ranks or ())
    return ReadRun("l" if is_live else "r", line, values, error)


def _is_log(stream: Stream, choice: DialectChoice) -> bool:
    """Return whether lists have a file with a name of its own: not a stream of toyspec, which has another name."""
    names = usual_names(choice)
    if is_address(stream.path) or not isinstance(names, LogNames):
        return True
    return names.has_log(stream.path, stream.version)


def _reports(paths: list[str], choice: DialectChoice) -> Iterator[Any]:
    return iter(iter_reports(paths, options=CheckOptions.of(choice)))


def _line(row: dict[str, Any]) -> bytes:
    return _encode(row) + b"\n"
