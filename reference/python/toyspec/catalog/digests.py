"""Summaries and findings of many runs at once, by the compiled engine; each stream is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toyspec.engine import native
from toyspec.reading.records import Record, RecordFeed
from toyspec.runs.engine_totals import take_extremes
from toyspec.runs.extents import Extent
from toyspec.runs.summary import RunSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    import toyspec_engine

    from toyspec.catalog.rows import Findings
    from toyspec.reading.log_detection import DialectChoice
    from toyspec.runs.discovery import Stream

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
