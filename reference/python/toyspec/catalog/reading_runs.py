"""Reads runs for a catalog, a batch at a time: the work that is given to workers."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.catalog.tables import LARGEST_LINE
from toyspec.core.checker.checking import iter_reports
from toyspec.core.checker.collecting import CheckOptions
from toyspec.core.engine import native
from toyspec.core.errors import StreamError, UnknownFormatError
from toyspec.core.findings import FileReport
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.attempts import is_listed
from toyspec.core.reading.log_detection import LogNames, usual_names
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.runs.columns import ALERT_FIELDS
from toyspec.core.runs.discovery import each_result
from toyspec.core.runs.summary import RunSummary, summarize_ends, summarize_run
from toyspec.health.checking import incidents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import toyspec_engine

    from toyspec.catalog.index import Kind
    from toyspec.core.findings import Severity
    from toyspec.health.rules import Incidents

    Findings = Mapping[str, tuple[Severity, int]]
    """The severity of each rule that a run breaks, and the number of its findings."""
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
            summary.take(each for each in feed.feed(part) if isinstance(each, Record))
        else:
            summary.take_numbers(part, profile)
    if summary.needs_second:
        return None
    summary.describe(profile, state, records, size)
    return Digested(summary, {rule: (severity, number) for rule, severity, number in findings})


# What is left out of a row that is too large.
_OF_ANY_SIZE = (
    "tags", "notes", "said", "config", "model", "run_start", "run_end", "metrics", "findings", "settings",
)  # fmt: skip
_LONGEST, _LONGEST_PLAIN = 1 << 27, 1 << 24

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Plan(NamedTuple):
    """How runs are read."""

    choice: DialectChoice
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
        known = digested(streams, plan.choice)
        reports = _reports([stream.path for stream in streams if stream.path not in known], plan.choice)
        others = (
            _kept(stream, plan, known[stream.path]) if stream.path in known else _read(stream, plan, next(reports))
            for stream in streams
        )
    return [kept.get(job.stream.path) or next(others) for job in jobs]


def _is_long_and_open(job: Job) -> bool:
    """Return whether a run takes more than a second to read, and has not ended."""
    if job.stream.size <= longest(job.stream.path):
        return False
    try:
        return summarize_ends(job.stream.path).state == "torn"
    except StreamError:
        return False


def longest(path: str) -> int:
    """Return the number of bytes of the stream at *path* that are read in about a second."""
    return _LONGEST if native() is not None and not is_address(path) else _LONGEST_PLAIN


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
    summary.found = stream
    incidents = None if plan.rules is None else incidents_of(stream.path, plan.rules, plan.choice)
    row = row_of(summary, digest.findings, incidents) | {"stream": stream.path, "identity": stream.identity}
    if summary.state == "torn" and summary.size > longest(stream.path):
        row["as_of"] = summary.size
    line, error = _encode(row) + b"\n", None
    if len(line) >= LARGEST_LINE:
        line = _encode({**row, **dict.fromkeys(_OF_ANY_SIZE)}) + b"\n"
        error = (
            f"its settings, metrics and tags are more than {LARGEST_LINE >> 20} MiB of JSON; the row is without them"
        )
    is_live = summary.facts.state == "running" or any(each.state == "running" for each in summary.other_ranks)
    return ReadRun("l" if is_live else "r", line, error)


def _is_log(stream: Stream, choice: DialectChoice) -> bool:
    """Return whether lists have a file with a name of its own: not a stream of toyspec, which has another name."""
    names = usual_names(choice)
    if is_address(stream.path) or not isinstance(names, LogNames):
        return True
    return names.has_log(stream.path, stream.version)


def _reports(paths: list[str], choice: DialectChoice) -> Iterator[Any]:
    return iter(iter_reports(paths, options=CheckOptions(dialect=choice)))


def row_of(summary: RunSummary, findings: Findings, incidents: Incidents | None = None) -> dict[str, Any]:
    """Return the row of a run from its *summary*, its *findings*, and its *incidents* by health rules, where known."""
    facts, start, by_rule = summary.facts, summary.start, {} if incidents is None else incidents.by_rule
    metrics = facts.metrics or {}
    severities = Counter(dict.fromkeys(("error", "warning", "info"), 0))
    for severity, number in findings.values():
        severities[severity] += number
    return {
        **{name: getattr(facts, name) for name in facts.__struct_fields__},
        # A database has integers of 64 bits.
        **{name: None for name in ("first_step", "last_step") if not is_listed(getattr(facts, name))},
        "said": facts.said or None,
        "unended_ranks": facts.unended_ranks or None,
        "day": day_of(facts.started_at),
        **(dict.fromkeys(ALERT_FIELDS) if incidents is None else incidents.counts),
        **{f"{severity}s": number for severity, number in severities.items()},
        "config": _object(start.get("config")),
        "model": _object(start.get("model")),
        "run_start": {name: value for name, value in start.items() if name not in ("config", "model")},
        "run_end": summary.end,
        # The order in which they are found depends on how many lines are read at once.
        "metrics": {name: metrics[name] for name in sorted(metrics)},
        "findings": {rule: findings[rule][1] for rule in sorted(findings)}
        | {f"health-{rule}": number for rule, number in sorted(by_rule.items())},
    }


def day_of(started_at: str | None) -> str | None:
    """Return the day in UTC of a time in RFC 3339; None if it is not one."""
    try:
        return datetime.fromisoformat(started_at or "").astimezone(UTC).date().isoformat()
    except (ValueError, OverflowError):
        return None


def findings_of(report: FileReport | None) -> Findings:
    """Return the findings of a *report*; none of a run that cannot be checked."""
    if report is None:
        return {}
    counts = Counter(finding.rule for finding in report.findings)
    severities = {finding.rule: finding.severity for finding in report.findings}
    counts.update(report.suppressed)
    return {rule: (severities[rule], number) for rule, number in counts.items()}


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None
