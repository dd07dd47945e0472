"""Reads a long run for a catalog so that the next update reads only what was appended to it.

A row is made of a summary, which is additive, and of the number of findings by rule. The findings in what is new depend
on what is before it through its gist alone: see ``gists``. So an update keeps the summary, the gist and the number of
findings, and continues if the stream has the same last bytes before the place that was reached. Nothing is kept of a
run that is short, complete, damaged, resumed, sealed or compressed, of a run of Kaun, of a log of another program, of
one unfinished line, and of what has more findings than are listed: the next update reads it whole.
"""

from __future__ import annotations

import os
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.catalog.gists import Gist, GistError, is_reducible
from toyspec.catalog.tails import Tail, decoded, encoded
from toyspec.checker.engines import open_checker
from toyspec.checker.options import CheckOptions
from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.places.addresses import is_address
from toyspec.read_reports import Gap
from toyspec.reading.attempts import Attempts
from toyspec.reading.log_detection import HEAD_BYTES, DialectChoice
from toyspec.reading.number_blocks import NumberFeed
from toyspec.reading.profile_detection import detect_profile_at
from toyspec.reading.sealed_files import has_seal
from toyspec.reading.stream_files import GZIP_MAGIC
from toyspec.runs.curves import Curve
from toyspec.runs.extents import Extent
from toyspec.runs.summary import RunSummary

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from toyspec.catalog.rows import Findings
    from toyspec.findings import FileReport, Severity
    from toyspec.reading.records import RecordFeed

SHORTEST = 1 << 20
"""Number of bytes of the shortest stream of which something is kept: to read a shorter one costs little."""

RESUMED = b"resumed"
"""What is kept of a run that is read twice, which begins at the start."""

_BEFORE = 1 << 16
_BLOCK = 1 << 20
_MOST_UNCOMMITTED = 1 << 22
_PROFILES = ("toy/v1", "metrics/v1")
_PLAIN = ("start", "kinds", "goals", "first_step", "last_step", "first_time", "last_time")
_OF_A_CURVE = ("last", "last_finite", "lowest", "highest", "count", "not_finite")


class Grown(NamedTuple):
    """What a catalog needs of a run, and what is kept for the next update; nothing if that is empty."""

    summary: RunSummary
    findings: Findings
    tail: bytes


class _CannotError(Exception):
    """The stream has to be read whole, by the usual way."""


def grown(path: str, known: bytes) -> Grown | None:
    """Return the run at *path*, of which *known* was kept before; None if it has to be read in the usual way."""
    if known == RESUMED or os.path.basename(path) not in (EVENTS_FILE, METRICS_FILE):
        return None
    tail = decoded(known) if known else None
    for start in (tail, None) if tail is not None else (None,):
        try:
            if not has_seal(os.path.dirname(path)):
                return _Reading(path, start).run()
        except (_CannotError, OSError):
            continue
    return None


class _Reading:
    """One reading, from the start of a stream or from where a tail ends."""

    def __init__(self, path: str, tail: Tail | None) -> None:
        self._path, self._tail = path, tail
        self._summary = RunSummary(path, parts=0)
        self._checker = open_checker(path, CheckOptions(dialect=None))
        self._gist: Gist | None = Gist()
        self._size = 0 if tail is None else tail.offset
        self._committed = self._size
        self._before = b""
        self._feed: RecordFeed = NumberFeed(detect=partial(detect_profile_at, path))
        if tail is not None:
            self._feed = NumberFeed(profile=tail.profile)  # type: ignore[arg-type]  # it was kept by this module
            _restore(self._summary, tail.summary)
            self._check(tail.gist, tail.profile)

    def run(self) -> Grown:
        """Read what there is; raise _CannotError or OSError."""
        rest, place = b"", list[int]()
        for block in self._blocks(place):
            if not self._size and self._is_other(block):
                raise _CannotError
            self._size += len(block)
            lines, end, after = block.rpartition(b"\n")
            if not end:
                rest += block
            else:
                self._take(rest + lines + end)
                rest = after
            if len(rest) > _MOST_UNCOMMITTED:
                raise _CannotError
        return self._grown(rest, place)

    def _is_other(self, head: bytes) -> bool:
        """Return whether a stream that begins with *head* is not one of toyspec."""
        detect = partial(detect_profile_at, self._path)
        is_other = DialectChoice().choose(head[:HEAD_BYTES], detect, path=self._path) is not None
        return is_other or head.startswith(GZIP_MAGIC)

    def _take(self, lines: bytes) -> None:
        """Take in whole *lines*."""
        found = self._feed.feed(lines)
        if not self._feed.is_by_lines or self._feed.profile not in _PROFILES:
            raise _CannotError
        if self._feed.gap_bytes:
            self._gist = None
            found = [item for item in found if not isinstance(item, Gap)]
        self._summary.take(found, learn="attempts")
        if self._summary.attempts or self._summary.starts_late:
            raise _CannotError
        self._check(lines, self._feed.profile)
        self._committed += len(lines)
        self._before = (self._before + lines)[-_BEFORE:]

    def _check(self, lines: bytes, profile: Any) -> None:
        self._checker.feed(lines)
        if self._gist is not None:
            try:
                self._gist.take(lines, self._checker.take(), profile)
            except GistError:
                self._gist = None

    def _grown(self, fragment: bytes, place: list[int]) -> Grown:
        self._checker.feed(fragment)
        report = self._checker.finish()
        records, findings = report.records, _counted(report)
        if self._tail is not None:
            records += self._tail.records
            findings = _sum(findings, self._tail.findings, 1)
        self._summary.describe(self._feed.profile, Extent(report.state or "torn", records, self._size))
        kept = b""
        # The first line decides what the stream is.
        if self._committed and self._gist is not None and is_reducible(report.suppressed):
            gist = self._gist.text()
            again = open_checker(self._path, CheckOptions(dialect=None))
            # What is not committed has findings in both.
            again.feed(gist + fragment)
            short = again.finish()
            others = _sum(findings, _counted(short), -1)
            tail = Tail(
                place, self._committed, len(self._before), blake2b(self._before).digest(), str(self._feed.profile),
                gist, records - short.records, others, _state(self._summary),
            )  # fmt: skip
            kept = encoded(tail)
        return Grown(self._summary, findings, kept)

    def _blocks(self, place: list[int]) -> Generator[bytes]:
        """Yield what was not read before; *place* is given what the file is. Raises _CannotError and OSError."""
        before = 0 if self._tail is None else self._tail.before
        blocks = (_blocks_at if is_address(self._path) else _blocks_of)(self._path, self._size - before, place)
        if self._tail is not None:
            head = b""
            while len(head) < before and (block := next(blocks, b"")):
                head += block
            self._before = head[:before]
            if place != self._tail.place or blake2b(self._before).digest() != self._tail.digest:
                raise _CannotError
            yield head[before:]
        yield from blocks


def _blocks_of(path: str, start: int, place: list[int]) -> Iterator[bytes]:
    """Yield the bytes of a file from *start* up to where it ends now."""
    with open(path, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        place[:] = status.st_dev, status.st_ino
        file.seek(start)
        while start < status.st_size and (block := file.read(min(_BLOCK, status.st_size - start))):
            start += len(block)
            yield block


def _blocks_at(address: str, start: int, _: list[int]) -> Iterator[bytes]:
    """Yield the bytes of one version of an object from *start* on."""
    # Imported with the first address: start-up time counts.
    from toyspec.places.opening import place_of

    place = place_of(address)
    part = place.read_range(address, start, _BLOCK, None)
    while part.data:
        yield part.data
        start += len(part.data)
        if start >= part.entry.size:
            return
        part = place.read_range(address, start, 8 * _BLOCK, part.entry.identity)


def _counted(report: FileReport) -> dict[str, tuple[Severity, int]]:
    from toyspec.catalog.rows import findings_of

    return dict(findings_of(report))


def _sum(findings: Findings, others: Findings, sign: int) -> dict[str, tuple[Severity, int]]:
    """Return the number of *findings* by rule with *sign* times those of *others*."""
    found = dict(findings)
    for rule, (severity, number) in others.items():
        found[rule] = severity, found.get(rule, (severity, 0))[1] + sign * number
    return {rule: each for rule, each in found.items() if each[1]}


def _state(summary: RunSummary) -> dict[str, Any]:
    """Return what a row has of *summary*, as plain values."""
    series = {name: [getattr(curve, part) for part in _OF_A_CURVE] for name, curve in summary.series.items()}
    plain = {name: getattr(summary, name) for name in _PLAIN}
    return {**plain, "series": series, "attempts": summary.attempts.state()}


def _restore(summary: RunSummary, state: dict[str, Any]) -> None:
    for name in _PLAIN:
        setattr(summary, name, state[name])
    for name, parts in state["series"].items():
        curve = summary.series[name] = Curve(0)
        for part, value in zip(_OF_A_CURVE, parts, strict=True):
            setattr(curve, part, tuple(value) if isinstance(value, list) else value)
    summary.attempts = Attempts.of(*state["attempts"])
