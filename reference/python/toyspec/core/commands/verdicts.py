"""Runs the checker over paths, or over a live stream, passes its findings to a format, and decides the exit code."""

from __future__ import annotations

import io
import os
import stat
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from toyspec.core import rooms
from toyspec.core.checker import Summary, iter_runs, open_checker, summarize
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import tell
from toyspec.core.errors import StreamError, StreamUnreadableError
from toyspec.core.files import open_file
from toyspec.core.findings import Finding, PathError, Skipped, with_findings
from toyspec.core.generated import rules
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.run_files import MEDIA_FOLDER, media_file
from toyspec.core.reading.stream_files import Source, is_compressed, locate_stream, open_named
from toyspec.core.runs.discovery import STANDARD_INPUT
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toyspec.core.checker import CheckOptions
    from toyspec.core.commands.report_formats import ReportFormat
    from toyspec.core.findings import FileReport, Severity
    from toyspec.core.reading.live_stream import Change
    from toyspec.core.reading.records import Record
    from toyspec.core.workers.running import Workers
    from toyspec.health.checking import RecordHealth
    from toyspec.health.rules import AnyRule


class Verdict:
    """Passes reports to a format and adds up what the exit code depends on."""

    def __init__(self, output: ReportFormat) -> None:
        self.output = output
        self._files = self._errors = self._warnings = self._infos = 0
        self._incomplete = False
        self._unreadable = False

    def file(self, report: FileReport) -> None:
        """Add the report of one stream; its findings were shown before."""
        of_file = summarize([report])
        self._files += 1
        self._errors += of_file.errors
        self._warnings += of_file.warnings
        self._infos += of_file.infos
        is_cut = report.dialect is not None and report.dialect.ended == "no"
        self._incomplete = self._incomplete or is_cut or report.state != "complete"
        self.output.file(report)

    def error(self, error: PathError) -> None:
        """Add a path that could not be read."""
        self._unreadable = True
        self.output.error(error)

    def summary(self) -> Summary:
        """Return the totals over everything added."""
        return Summary(self._files, self._errors, self._warnings, self._infos)

    def exit_code(self, *, fail_on: Severity, require_complete: bool) -> int:
        """Return the exit code; a path that could not be read outweighs any finding."""
        if self._unreadable:
            return exit_codes.USAGE
        counts = {"error": self._errors, "warning": self._warnings, "info": self._infos}
        grave = ("error", "warning", "info").index(fail_on) + 1
        failed = any(list(counts.values())[:grave]) or (require_complete and self._incomplete)
        return exit_codes.FINDINGS if failed else exit_codes.OK


class MoreFindings(Protocol):
    """Looks at more than a checker does."""

    def added(self, report: FileReport) -> FileReport:
        """Return *report* with more findings."""
        ...


def check_paths(
    paths: Sequence[str],
    options: CheckOptions,
    verdict: Verdict,
    *,
    workers: int | Workers,
    more: Sequence[MoreFindings] = (),
) -> None:
    """Check everything below *paths*; each of *more* adds to the reports."""
    progress = Progress("checking")
    watch = progress.update if progress.active else None
    reports = iter_runs(paths, options=options, workers=workers, on_progress=watch)
    for report in reports:
        progress.erase()
        if isinstance(report, PathError):
            verdict.error(report)
            continue
        if isinstance(report, Skipped):
            verdict.output.skipped(report)
            continue
        for check in more:
            report = check.added(report)  # noqa: PLW2901 - the report with more in it
        for finding in report.findings:
            verdict.output.finding(report.path, finding)
        verdict.file(report)
    progress.erase()


_HELP = "restore the file from a copy; it was changed or cut after the log named it"


class MediaCheck:
    """Adds to the reports on streams what differs from the hashes of media events."""

    def __init__(self, reports: Callable[[str], bool], max_line_bytes: int) -> None:
        """Report nothing if the rule is not one that *reports* wants."""
        self._is_wanted = reports(rules.MEDIA_MISSING)
        self._max_line_bytes = max_line_bytes

    def added(self, report: FileReport) -> FileReport:
        """Return *report* with a finding for each event whose file has another content; each file is read once."""
        if report.profile != "toy/v1" or not self._is_wanted or is_address(report.path):
            return report
        return with_findings(report, self._differences(report.path))

    def _differences(self, path: str) -> Iterator[Finding]:
        from toyspec.core.errors import ToyspecError
        from toyspec.core.reading.reader import read

        directory = os.path.dirname(path)
        if os.path.islink(os.path.join(directory, MEDIA_FOLDER)):
            return
        digests: dict[str, str | None] = {}
        try:
            with read(path, mode="salvage", dialect=None, max_line_bytes=self._max_line_bytes) as reading:
                for record in reading:
                    yield from _difference(record, directory, digests)
        except (OSError, ToyspecError):
            # The check has reported why.
            return


def _difference(record: Record, directory: str, digests: dict[str, str | None]) -> Iterator[Finding]:
    sha256, media_type = record.get("sha256"), record.get("media_type")
    if record.kind != "media" or not isinstance(sha256, str) or not isinstance(media_type, str):
        return
    name = media_file(sha256, media_type)
    if name is None:
        return
    if name not in digests:
        digests[name] = _digest(os.path.join(directory, *name.split("/")))
    if digests[name] in (None, sha256):
        # What is missing is reported without reading it.
        return
    at = max(record.raw.find(f'"{sha256}"'.encode()), 0)
    yield Finding(
        rule=rules.MEDIA_MISSING,
        severity="warning",
        line=record.line,
        offset=record.offset + at,
        pointer="/sha256",
        message=f"{name} has another content: its sha256 is {digests[name]}",
        help=_HELP,
    )


def _digest(path: str) -> str | None:
    # Imported here: start-up time counts.
    import hashlib

    if os.path.islink(path) or not os.path.isfile(path):
        return None
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


_CHUNK_BYTES = 1 << 18


def follow(
    path: str,
    options: CheckOptions,
    verdict: Verdict,
    *,
    idle_timeout: float | None = None,
    health: Sequence[AnyRule] | None = None,
) -> bool:
    """Check the stream at *path* until its run ends, Ctrl-C, or *idle_timeout* seconds without a new byte.

    It is compared with the rules of *health* as well.

    Returns True when Ctrl-C ended it; the verdict holds for what was read until then.
    """
    try:
        located = path if path == STANDARD_INPUT else locate_stream(path, options.choice.stream_files)
        checked = _CheckedStream(located, options, verdict, health)
        if path == STANDARD_INPUT or not _is_regular(located) or is_compressed(located):
            interrupted = _drain(located, checked)
        else:
            interrupted = _watch(located, checked, idle_timeout)
    except StreamError as error:
        verdict.error(PathError(path, error.fact))
        return False
    except OSError as error:
        verdict.error(PathError(path, cause_of(error)))
        return False
    checked.finish()
    return interrupted


def _drain(path: str, checked: _CheckedStream) -> bool:
    """Check a pipe, a device or a compressed file until its end."""
    if path == STANDARD_INPUT:
        source = Source(cast("BinaryIO", io.FileIO(sys.stdin.fileno(), "rb", closefd=False)), name=path)
    else:
        source = open_named(path)
    try:
        while data := source.read(_CHUNK_BYTES):
            checked.feed(data)
    except KeyboardInterrupt:
        return True
    finally:
        source.close()
    return False


def _is_regular(path: str) -> bool:
    # A directory is a log in parts.
    mode = stat.S_IFREG if is_address(path) else os.stat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _watch(path: str, checked: _CheckedStream, idle_timeout: float | None) -> bool:
    """Check the content of a file and what is appended to it."""
    # Imported here: start-up time counts.
    from toyspec.core.reading.follower import POLL_SECONDS, REMOTE_POLL_SECONDS
    from toyspec.core.reading.live_stream import LiveStream

    stream = LiveStream(lambda: path, chunk_bytes=_CHUNK_BYTES)
    stream.open()
    pause = REMOTE_POLL_SECONDS if is_address(path) else POLL_SECONDS
    last = time.monotonic()
    try:
        while True:
            for change in stream.poll():
                last = time.monotonic()
                if isinstance(change, bytes):
                    checked.feed(change)
                elif change != "gone":  # a file that was moved away may still be written
                    checked.restart(change)
                    if change == "uncommitted-changed":
                        for data in stream.again():
                            checked.feed(data)
            checked.report(stream.trouble)
            is_idle = checked.ended or (idle_timeout and time.monotonic() - last >= idle_timeout)
            if is_idle and stream.is_settled:
                return False
            time.sleep(pause)
    except KeyboardInterrupt:
        return True
    finally:
        stream.close()


class _CheckedStream:
    """The stream that is checked, and which of its findings were shown."""

    def __init__(
        self, path: str, options: CheckOptions, verdict: Verdict, health: Sequence[AnyRule] | None = None
    ) -> None:
        self._path = path
        self._options = options
        self._verdict = verdict
        # The first line decides how the file is read.
        self._held: bytes | None = b""
        self._checker = open_checker(path, options)
        self._shown: set[tuple[str, int, int, str]] = set()
        self._said = ""
        self._rules = health
        self._health: RecordHealth | None = None
        self._found: list[Finding] = []
        self._begin_health()

    @property
    def ended(self) -> bool:
        """True when the last record says that the run is over."""
        return self._checker.ended

    def feed(self, data: bytes) -> None:
        """Check the lines that *data* commits and show their findings."""
        if self._health is not None:
            self._look(self._health, data)
        if self._held is not None:
            self._held += data
            if b"\n" not in self._held:
                return
            data, self._held = self._held, None
            self._checker = open_checker(self._path, self._options, data)
        self._checker.feed(data)
        self._show(self._checker.take())

    def restart(self, change: Change) -> None:
        """Begin again with the first byte; findings are not shown twice if only uncommitted bytes have changed."""
        self._held = b""
        self._checker = open_checker(self._path, self._options)
        self._begin_health()
        if change != "uncommitted-changed":
            tell("check", f"{self._path} was {change}; checking it again from its start")
            self._shown.clear()

    def report(self, error: OSError | StreamUnreadableError | None) -> None:
        """Say that a poll failed, and why; once for a cause, until a poll succeeds."""
        fact = "" if error is None else error.fact if isinstance(error, StreamUnreadableError) else cause_of(error)
        if fact and fact != self._said:
            tell("check", f"{self._path}: {fact}; trying again")
        self._said = fact

    def finish(self) -> None:
        """Show the findings that depend on the end of the stream, and the verdict."""
        self._checker.read_bundle_again()
        if self._held is not None:
            self._checker.feed(self._held)
        report = self._checker.finish()
        self._show(report.findings)
        self._verdict.file(with_findings(report, self._found))

    def _begin_health(self) -> None:
        self._found = []
        if self._rules is not None:
            # Imported here: start-up time counts.
            from toyspec.core.reading.follower import FollowedFeed
            from toyspec.core.reading.log_detection import detect_profile_at
            from toyspec.core.reading.records import RecordFeed

            self._health = rooms.health_checking.RecordHealth(self._rules)
            detect = partial(detect_profile_at, self._path)
            self._records = FollowedFeed(self._options.choice, partial(RecordFeed), self._path, detect)

    def _look(self, health: RecordHealth, data: bytes) -> None:
        """Show what health rules report about the lines that *data* commits."""
        from toyspec.core.reading.records import Record

        records = (item for item in self._records.feed(data) if isinstance(item, Record))
        found = [rooms.health_options.finding_of(alert) for record in records for alert in health.take(record)]
        self._found += found
        self._show(found)

    def _show(self, findings: list[Finding]) -> None:
        for finding in findings:
            place = (finding.rule, finding.line, finding.offset, finding.sidecar or "")
            if place not in self._shown:
                self._shown.add(place)
                self._verdict.output.finding(self._path, finding)
        sys.stdout.flush()
