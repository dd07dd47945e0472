"""Runs the checker over paths, or over a live stream, passes its findings to a format, and decides the exit code."""

from __future__ import annotations

import io
import os
import stat
import sys
import time
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from toyspec.core.checker import Summary, iter_runs, open_checker, summarize
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import counted
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import tell
from toyspec.core.errors import StreamError, StreamUnreadableError
from toyspec.core.files import open_file
from toyspec.core.findings import FileReport, Finding, PathError, state_text, with_findings
from toyspec.core.format.profiles import closing_kind
from toyspec.core.generated import rules
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.run_files import MEDIA_FOLDER, media_file, run_of
from toyspec.core.reading.stream_files import Source, is_compressed, locate_stream, open_named
from toyspec.core.runs.discovery import STANDARD_INPUT
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.core.checker import Checker, CheckOptions
    from toyspec.core.commands.report_formats import ReportFormat
    from toyspec.core.findings import Severity, Skipped
    from toyspec.core.reading.live_stream import Change
    from toyspec.core.workers.running import Workers


_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_STATES = ("complete", "no end mark", "not ended", "torn", "damaged", "without a stream")
# Of the streams of one run, the last counts: one without an end mark says nothing where another has an end.
_RANKED = ("no end mark", "complete", "not ended", "torn", "damaged")
_MEDIA_HELP = "restore the file from a copy; it was changed or cut after the log named it"


class Verdict:
    """Passes reports to a format and adds up what the exit code and the summary depend on."""

    def __init__(self, output: ReportFormat) -> None:
        self.output = output
        self._counts = Counter[str]()
        self._states = dict.fromkeys(_STATES, 0)
        self._is_incomplete = False
        self._run: tuple[str | None, str] = (None, "")

    def file(self, report: FileReport) -> None:
        """Add the report of one stream; its findings were shown before. The streams of a run come one after another."""
        found = summarize([report])
        self._counts.update(file=1, error=found.errors, warning=found.warnings, info=found.infos)
        is_cut = report.dialect is not None and report.dialect.ended == "no"
        self._is_incomplete = self._is_incomplete or is_cut or report.state != "complete"
        if report.state is None:
            self._states["without a stream"] += 1
        elif report.profile is None and report.dialect is None:
            self._counts["foreign"] += 1
        else:
            self._add_state(run_of(report.path), _state_text(report, report.state))
        self.output.file(report)

    def _add_state(self, run: str, state: str) -> None:
        """Count one stream; a run with two has the worse state of both."""
        if run == self._run[0]:
            self._states[self._run[1]] -= 1
            state = max(state, self._run[1], key=_RANKED.index)
        self._states[state] += 1
        self._run = run, state

    def other(self, entry: PathError | Skipped) -> None:
        """Add a path that could not be read, or a file that is not a run."""
        self._counts["unreadable" if isinstance(entry, PathError) else "skipped"] += 1
        self.output.other(entry)

    def summary(self) -> Summary:
        """Return the totals over everything added."""
        return Summary(*(self._counts[name] for name in ("file", *_SEVERITIES)))

    def sentence(self, *, infos: Literal["hidden", "shown"]) -> str:
        """Return the summary in one line, for example ``2 runs: 1 complete, 1 torn · 1 warning``."""
        counts, runs = self._counts, sum(self._states.values())
        hint = " (see -v)" if infos == "hidden" else ""
        parts = []
        if runs or not counts["foreign"]:
            named = [f"{number} {state}" for state, number in self._states.items() if number]
            named = [named[0].removeprefix("1 ")] if runs == 1 else named
            parts.append(": ".join([counted(runs, "run"), *filter(None, [", ".join(named)])]))
        if counts["foreign"]:
            parts.append(f"{counted(counts['foreign'], 'file')} of another format")
        found = [counted(counts[severity], severity) for severity in _SEVERITIES if counts[severity]]
        parts.append((", ".join(found) or "no findings") + (hint if counts["info"] else ""))
        if counts["skipped"]:
            parts.append(f"{counted(counts['skipped'], 'file')} of another format skipped{hint}")
        if counts["unreadable"]:
            parts.append(f"{counted(counts['unreadable'], 'path')} could not be read")
        return " · ".join(parts)

    def exit_code(self, *, fail_on: Severity, require_complete: bool) -> int:
        """Return the exit code; a path that could not be read outweighs any finding."""
        if self._counts["unreadable"]:
            return exit_codes.USAGE
        grave = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
        failed = any(self._counts[severity] for severity in grave) or (require_complete and self._is_incomplete)
        return exit_codes.FINDINGS if failed else exit_codes.OK


def _state_text(report: FileReport, state: str) -> str:
    if report.dialect is not None:
        return state_text(state, report.dialect.ended)
    return state_text(state, "unknown" if closing_kind(report.profile) is None else "yes")


def check_paths(
    paths: Sequence[str],
    options: CheckOptions,
    verdict: Verdict,
    *,
    workers: int | Workers,
    media: Literal["named", "read"] = "named",
) -> None:
    """Check everything below *paths*; files of *media* that are read are compared with their hashes in the log."""
    progress = Progress("checking")
    watch = progress.update if progress.active else None
    for report in iter_runs(paths, options=options, workers=workers, on_progress=watch):
        progress.erase()
        if not isinstance(report, FileReport):
            verdict.other(report)
            continue
        if media == "read":
            report = _with_media(report, options)  # noqa: PLW2901 - the report with more in it
        for finding in report.findings:
            verdict.output.finding(report.path, finding)
        verdict.file(report)
    progress.erase()


def _with_media(report: FileReport, options: CheckOptions) -> FileReport:
    """Return *report* with a finding for each media event whose file has another content; each file is read once."""
    if report.profile != "toy/v1" or not options.reports(rules.MEDIA_MISSING) or is_address(report.path):
        return report
    return with_findings(report, _differences(report.path, options.max_line_bytes))


def _differences(path: str, max_line_bytes: int) -> Iterator[Finding]:
    from toyspec.core.errors import ToyspecError
    from toyspec.core.reading.reader import read

    directory = os.path.dirname(path)
    if os.path.islink(os.path.join(directory, MEDIA_FOLDER)):
        return
    digest_of = cache(_digest)
    try:
        with read(path, mode="salvage", dialect=None, max_line_bytes=max_line_bytes) as reading:
            for record in reading:
                sha256, media_type = record.get("sha256"), record.get("media_type")
                if record.kind != "media" or not isinstance(sha256, str) or not isinstance(media_type, str):
                    continue
                name = media_file(sha256, media_type)
                found = None if name is None else digest_of(os.path.join(directory, *name.split("/")))
                # What is missing is reported without reading it.
                if found not in (None, sha256):
                    yield Finding(
                        rule=rules.MEDIA_MISSING,
                        severity="warning",
                        line=record.line,
                        offset=record.offset + max(record.raw.find(f'"{sha256}"'.encode()), 0),
                        pointer="/sha256",
                        message=f"{name} has another content: its sha256 is {found}",
                        help=_MEDIA_HELP,
                    )
    except (OSError, ToyspecError):
        # The check has reported why.
        return


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


def follow(path: str, options: CheckOptions, verdict: Verdict, *, idle_timeout: float | None = None) -> bool:
    """Check the stream at *path* until its run ends, Ctrl-C, or *idle_timeout* seconds without a new byte.

    Returns True when Ctrl-C ended it; the verdict holds for what was read until then.
    """
    try:
        located = path if path == STANDARD_INPUT else locate_stream(path, options.choice.stream_files)
        checked = _CheckedStream(located, options, verdict)
        if path == STANDARD_INPUT or not _is_regular(located) or is_compressed(located):
            interrupted = _drain(located, checked)
        else:
            interrupted = _watch(located, checked, idle_timeout)
    except (OSError, StreamError) as error:
        verdict.other(PathError(path, _fact(error)))
        return False
    checked.finish()
    return interrupted


def _fact(error: OSError | StreamError) -> str:
    return error.fact if isinstance(error, StreamError) else cause_of(error)


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

    def __init__(self, path: str, options: CheckOptions, verdict: Verdict) -> None:
        self._path = path
        self._options = options
        self._verdict = verdict
        self._shown: set[tuple[str, int, int, str]] = set()
        self._said = ""
        self._begin()

    def _begin(self) -> None:
        # The first line decides how the file is read.
        self._held = b""
        self._checker: Checker | None = None

    @property
    def ended(self) -> bool:
        """True when the last record says that the run is over."""
        return self._checker is not None and self._checker.ended

    def feed(self, data: bytes) -> None:
        """Check the lines that *data* commits and show their findings."""
        if self._checker is None:
            self._held += data
            if b"\n" not in self._held:
                return
            data, self._held = self._held, b""
            self._checker = open_checker(self._path, self._options, data)
        self._checker.feed(data)
        self._show(self._checker.take())

    def restart(self, change: Change) -> None:
        """Begin again with the first byte; findings are not shown twice if only uncommitted bytes have changed."""
        self._begin()
        if change != "uncommitted-changed":
            tell("check", f"{self._path} was {change}; checking it again from its start")
            self._shown.clear()

    def report(self, error: OSError | StreamUnreadableError | None) -> None:
        """Say that a poll failed, and why; once for a cause, until a poll succeeds."""
        fact = "" if error is None else _fact(error)
        if fact and fact != self._said:
            tell("check", f"{self._path}: {fact}; trying again")
        self._said = fact

    def finish(self) -> None:
        """Show the findings that depend on the end of the stream, and the verdict."""
        checker = self._checker or open_checker(self._path, self._options)
        checker.read_bundle_again()
        checker.feed(self._held)
        report = checker.finish()
        self._show(report.findings)
        self._verdict.file(report)

    def _show(self, findings: list[Finding]) -> None:
        for finding in findings:
            place = (finding.rule, finding.line, finding.offset, finding.sidecar or "")
            if place not in self._shown:
                self._shown.add(place)
                self._verdict.output.finding(self._path, finding)
        sys.stdout.flush()
