"""Checks one live stream as it grows: shows new findings at once, the verdict at its end."""

from __future__ import annotations

import io
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, BinaryIO, cast

from toyspec.core import rooms
from toyspec.core.checker import open_checker
from toyspec.core.command_line.terminal import tell
from toyspec.core.errors import StreamError, StreamUnreadableError
from toyspec.core.findings import PathError, with_findings
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.follower import POLL_SECONDS, REMOTE_POLL_SECONDS
from toyspec.core.reading.live_stream import LiveStream
from toyspec.core.reading.stream_files import Source, is_compressed, locate_stream, open_named
from toyspec.core.runs.walking import STANDARD_INPUT
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.checker import CheckOptions
    from toyspec.core.commands.verdicts import Verdict
    from toyspec.core.findings import Finding
    from toyspec.core.reading.live_stream import Change
    from toyspec.health.live import LiveHealth
    from toyspec.health.rules import AnyRule

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
        self._health = health
        self._found: list[Finding] = []
        self._begin_health()

    @property
    def ended(self) -> bool:
        """True when the last record says that the run is over."""
        return self._checker.ended

    def feed(self, data: bytes) -> None:
        """Check the lines that *data* commits and show their findings."""
        if self._live is not None:
            self._look(self._live, data)
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
        self._live = (
            None
            if self._health is None
            else rooms.health_live.LiveHealth(self._path, self._health, self._options.choice)
        )

    def _look(self, live: LiveHealth, data: bytes) -> None:
        """Show what health rules report about the lines that *data* commits."""
        found = [rooms.health_options.finding_of(alert) for alert in live.feed(data)]
        self._found += found
        self._show(found)

    def _show(self, findings: list[Finding]) -> None:
        for finding in findings:
            place = (finding.rule, finding.line, finding.offset, finding.sidecar or "")
            if place not in self._shown:
                self._shown.add(place)
                self._verdict.output.finding(self._path, finding)
        sys.stdout.flush()
