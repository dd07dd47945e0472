"""The engines of the checker behind one seam: the compiled one where it is installed, else plain Python."""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeGuard

from toyspec.core.engine import native
from toyspec.core.findings import Excerpt, FileReport, Finding, PathError, Skipped
from toyspec.core.format.profiles import detect_profile
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.log_detection import detect_profile_at
from toyspec.core.runs.discovery import STANDARD_INPUT, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from types import ModuleType

    import toyspec_engine

    from toyspec.core.checker.options import CheckOptions
    from toyspec.core.findings import Profile
    from toyspec.core.runs.discovery import Found

    Verdict = FileReport | PathError | Skipped

    Check = Callable[[Found, Callable[[int], None] | None], Verdict]


Walk = Literal["all", "runs"]
"""Whether all files are reported, or only runs: files of other formats below a directory are skipped."""


class Checker(Protocol):
    """Checks one stream as it is fed, and the files beside it."""

    def feed(self, data: bytes, /) -> None:
        """Check the lines that *data* commits."""

    def take(self) -> list[Finding]:
        """Return the findings that were listed since the last call; counts in their messages may still grow."""

    @property
    def ended(self) -> bool:
        """True when the last record ends the run, and for a stream without a profile."""

    @property
    def is_look_settled(self) -> bool:
        """True when the stream has no profile, and more bytes would not change what it looks like."""

    def read_bundle_again(self) -> None:
        """Read the files beside the stream again."""

    def finish(self) -> FileReport:
        """Return the report on everything fed; call it once, last."""

    @property
    def fact(self) -> str | None:
        """What a stream without a profile looks like, once it is finished; None for all others."""


def open_checker(path: str, options: CheckOptions, head: bytes = b"", *, name: str | None = None) -> Checker:
    """Return a checker for the stream at *path*, which begins with *head*, and for the other files of its bundle.

    *name* is the name of its file if it has no path: then nothing is beside it.
    """
    choice = options.choice
    detect = _detection(path, name)
    own, log = choice.decide(head, detect, path=path)
    if log is not None:
        return log.checker(path, options)
    # Imported below: what one of them needs costs the others their start.
    # The engine reads the files beside a stream by itself, from a file system.
    engine = None if own is not None or is_address(path) else native()
    if engine is not None:
        return NativeChecker(engine, path, options, name=name)
    from toyspec.core.checker.stream_checker import StreamChecker

    if own is not None:
        # The streams of a profile of the user have no bundle.
        return StreamChecker(path, options=options, detect=lambda *_, **__: own)
    return StreamChecker(path, options=options, detect=detect, beside=name is None and path != STANDARD_INPUT)


def _detection(path: str, name: str | None) -> Callable[..., Profile | None]:
    if name is not None or path == STANDARD_INPUT:
        return partial(detect_profile, file_name=name or "")
    return partial(detect_profile_at, path)


# Ctrl-C is noticed between two waits.
_WAIT_SECONDS = 0.05
# Enough to keep the threads busy, few enough to keep reports in memory small.
_PENDING_PER_THREAD = 16


class NativeChecker:
    """Checks the stream at a path, or a stream without one."""

    def __init__(self, engine: ModuleType, path: str, options: CheckOptions, *, name: str | None = None) -> None:
        """Check the stream at *path*; *name* is the name of its file if it has no path, then nothing is beside it."""
        self._path = path
        has_path = name is None and path != STANDARD_INPUT
        self._checker: toyspec_engine.Checker = engine.Checker(
            native_options(engine, options), path=path if has_path else None, name=name or ""
        )
        self.fact: str | None = None
        """What a stream without a profile looks like, once it is finished; None for all others."""

    def feed(self, data: bytes) -> None:
        """Check the lines that *data* commits."""
        self._checker.feed(data)

    def take(self) -> list[Finding]:
        """Return the findings that were listed since the last call; counts in their messages may still grow."""
        return [_finding(fields) for fields in self._checker.taken()]

    @property
    def ended(self) -> bool:
        """True when the last record ends the run, and for a stream without a profile."""
        return self._checker.ended

    @property
    def is_look_settled(self) -> bool:
        """True when the stream has no profile, and more bytes would not change what it looks like."""
        return self._checker.is_look_settled

    def read_bundle_again(self) -> None:
        """Read the files beside the stream again."""
        self._checker.read_bundle_again()

    def finish(self) -> FileReport:
        """Return the report on everything fed and on the files beside it; call it once, last."""
        fields, self.fact = self._checker.finish()
        return report_of(self._path, fields)


def native_options(engine: ModuleType, options: CheckOptions) -> toyspec_engine.Options:
    """Return *options* as the compiled engine takes them."""
    wanted: toyspec_engine.Options = engine.Options(
        options.profile, list(options.select), list(options.ignore), options.max_line_bytes
    )
    return wanted


def report_of(path: str, fields: toyspec_engine.ReportFields) -> FileReport:
    """Return the report of the compiled engine on the stream at *path*."""
    return FileReport(
        path=path,
        profile=fields["profile"],
        state=fields["state"],
        valid=fields["valid"],
        records=fields["records"],
        bytes=fields["bytes"],
        findings=[_finding(finding) for finding in fields["findings"]],
        suppressed=fields["suppressed"],
    )


def _finding(fields: toyspec_engine.FindingFields) -> Finding:
    excerpt = fields["excerpt"]
    return Finding(
        rule=fields["rule"],
        severity=fields["severity"],
        line=fields["line"],
        offset=fields["offset"],
        pointer=fields["pointer"],
        message=fields["message"],
        help=fields["help"],
        sidecar=fields["sidecar"],
        excerpt=None if excerpt is None else Excerpt(*excerpt),
    )


class NativeThreads:
    """Threads of the compiled engine that check files."""

    def __init__(
        self, engine: ModuleType, options: CheckOptions, number: int, on_size: Callable[[int], None] | None
    ) -> None:
        """Start *number* threads; *on_size* is given the number of bytes that are done."""
        self._batch: toyspec_engine.Batch = engine.Batch(
            native_options(engine, options), number, options.choice.name == "auto"
        )
        self._most = number * _PENDING_PER_THREAD
        self._on_size = on_size
        self._elsewhere = 0
        # A dialect is recognized by what is read first, so a named one needs no engine.
        self._is_used = not options.choice.may_be_own and options.choice.name in (None, "auto")

    def check(self, found: Iterable[Found], check: Check, *, walk: Walk) -> Generator[tuple[Found, Verdict]]:
        """Yield each of *found* with its verdict, in order.

        *check* is given what the threads leave: standard input and pipes, gzip files, what may be of another program.
        """
        pending: deque[Found] = deque()
        for item in found:
            if self._takes(item):
                self._batch.submit(item.path, walk == "runs" and item.is_below)
            pending.append(item)
            if len(pending) >= self._most:
                yield self._first(pending, check)
        while pending:
            yield self._first(pending, check)

    def _first(self, pending: deque[Found], check: Check) -> tuple[Found, Verdict]:
        item = pending.popleft()
        verdict = self._waited(item.path) if self._takes(item) else None
        if verdict is None:
            verdict = check(item, self._forward if self._on_size else None)
            self._elsewhere += item.size if isinstance(item, Stream) else 0
        return item, verdict

    def _takes(self, found: Found) -> TypeGuard[Stream]:
        is_stream = self._is_used and isinstance(found, Stream) and found.size > 0 and not found.is_hinted
        # A document may be one object of another program.
        return is_stream and not found.path.endswith(".json")

    def _waited(self, path: str) -> Verdict | None:
        """Return the next verdict, which is on the file at *path*; None if the engine leaves it to others."""
        outcome = None
        while outcome is None:
            outcome = self._batch.next(_WAIT_SECONDS)
            self._forward(0)
        return _verdict(path, outcome)

    def _forward(self, size: int) -> None:
        if self._on_size:
            self._on_size(self._batch.received + self._elsewhere + size)


def _verdict(path: str, outcome: toyspec_engine.OutcomeFields) -> Verdict | None:
    """Return the verdict on the file at *path*; None if the engine leaves it to others."""
    if outcome["report"] is not None:
        return report_of(path, outcome["report"])
    if outcome["skipped"] is not None:
        return Skipped(path, outcome["skipped"])
    if outcome["failure"] is None:
        return None
    number, words = outcome["failure"]
    return PathError(path, words if number is None or os.name == "nt" else os.strerror(number))
