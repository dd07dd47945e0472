"""Checks streams, bundles, directories of runs, standard input and bytes, with one or several workers.

The compiled engine checks where it is installed, else plain Python; the log of another program is checked by its room.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import closing
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeGuard, cast, get_args

from toyspec.core.checker.collecting import CheckOptions, Collector, Location, severity_of
from toyspec.core.engine import native
from toyspec.core.errors import StreamError
from toyspec.core.files import NamedFile, open_file
from toyspec.core.findings import Excerpt, FileReport, Finding, PathError, Profile, Report, Skipped
from toyspec.core.format.profiles import SEAL_FILE, detect_profile
from toyspec.core.generated import messages, rules
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.generated.rules import ORDER
from toyspec.core.places.addresses import is_address, path_in, public
from toyspec.core.reading.log_detection import HEAD_BYTES as RECOGNIZED_BYTES
from toyspec.core.reading.log_detection import detect_profile_at, usual_names
from toyspec.core.reading.reader import is_other_document
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.reading.stream_files import STREAM_NAMES, Source, may_be_there
from toyspec.core.runs.discovery import STANDARD_INPUT, Found, NoStream, NotALog, Stream, find_streams
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import ModuleType

    import toyspec_engine

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.watching import Watch
    from toyspec.core.workers.running import Workers

    Check = Callable[[Found], "Verdict"]


Verdict = FileReport | PathError | Skipped
Walk = Literal["all", "runs"]
"""Whether all files are reported, or only runs: files of other formats below a directory are skipped."""
_CHUNK_BYTES = 1 << 18
# Ctrl-C is noticed between two waits.
_WAIT_SECONDS = 0.05
# Enough to keep the threads busy, few enough to keep reports in memory small.
_PENDING_PER_THREAD = 16


class Checker(Protocol):
    """Checks one stream as it is fed, and the files beside it."""

    def feed(self, data: bytes, /) -> None:
        """Check the lines that *data* commits."""

    def finish(self) -> FileReport:
        """Return the report on everything fed; call it once, last."""

    @property
    def fact(self) -> str | None:
        """What a stream without a profile looks like, once it is finished; None for all others."""


def check(  # noqa: PLR0913 - the options of a check are keywords
    *paths: str | os.PathLike[str],
    profile: str | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    max_line_bytes: int = MAX_LINE_BYTES,
    dialect: DialectChoice | str | None = "auto",
    workers: int | Workers = 1,
) -> Report:
    """Return the report on *paths*: streams, bundles, or directories with bundles below them.

    *profile* None detects the profile of each stream; it may also be the directory of a user's profile. The log of
    another program is checked by its *dialect*, which is recognized, or the one that is named; None checks none. A
    DialectChoice has dialects and profiles of the user too.
    *select* and *ignore* name rules. *workers* is a number of processes that work in parallel, or a Ray cluster
    (``toyspec.stores.Ray``); the compiled engine has threads instead, and several check a file of 32 MiB or more.
    A path that cannot be read is listed in ``errors``. Raises UnknownRuleError for a rule that does not exist,
    ValueError for such a profile, and WorkersError.
    """
    options = CheckOptions(
        profile=profile, dialect=dialect, select=select, ignore=ignore, max_line_bytes=max_line_bytes
    )
    verdicts = list(iter_reports([os.fspath(path) for path in paths], options=options, workers=workers))
    return Report(
        files=[each for each in verdicts if isinstance(each, FileReport)],
        errors=[each for each in verdicts if isinstance(each, PathError)],
    )


def check_bytes(  # noqa: PLR0913 - the options of check
    data: bytes,
    *,
    profile: str | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    max_line_bytes: int = MAX_LINE_BYTES,
    dialect: DialectChoice | str | None = "auto",
    name: str | None = None,
) -> FileReport:
    """Return the report on a stream in memory; *name* is the name of its file, if it has one.

    The other options are those of ``check``.
    """
    options = CheckOptions(
        profile=profile, dialect=dialect, select=select, ignore=ignore, max_line_bytes=max_line_bytes
    )
    checker = open_checker(name or STANDARD_INPUT, options, data[:RECOGNIZED_BYTES], name=name or "")
    checker.feed(data)
    return checker.finish()


def iter_reports(
    paths: Iterable[str], *, options: CheckOptions, workers: int | Workers = 1, on_progress: Watch | None = None
) -> Iterator[FileReport | PathError]:
    """Yield the report on each stream below *paths*, in the order in which they are found.

    With *workers* above 1, that many processes, or threads of the compiled engine, work in parallel; the order stays.
    """
    for _, verdict in _verdicts(paths, options, workers, on_progress, walk="all"):
        if not isinstance(verdict, Skipped):
            # Only the walk "runs" names files that it skips.
            yield verdict


def iter_runs(
    paths: Iterable[str], *, options: CheckOptions, workers: int | Workers = 1, on_progress: Watch | None = None
) -> Iterator[Verdict]:
    """Yield the reports of ``iter_reports`` for runs only.

    A file below a directory of *paths* that follows no profile is skipped. A directory of *paths* without any run is
    an error.
    """
    searched: dict[str, tuple[int, int]] = {}
    for found, verdict in _verdicts(paths, options, workers, on_progress, walk="runs"):
        is_skipped = isinstance(verdict, Skipped)
        if isinstance(found, Stream):
            if is_skipped and found.is_hinted:
                # Only its name was that of a log.
                continue
            if found.root is not None:
                runs, skipped = searched.get(found.root, (0, 0))
                searched[found.root] = runs + (not is_skipped), skipped + is_skipped
        yield verdict
    for root, (runs, skipped) in searched.items():
        if not runs:
            yield PathError(root, messages.only_other_formats(count=skipped))


def _verdicts(
    paths: Iterable[str], options: CheckOptions, workers: int | Workers, on_progress: Watch | None, *, walk: Walk
) -> Iterator[tuple[Found, Verdict]]:
    done = 0
    paths = [public(path) for path in paths]
    is_remote = any(map(is_address, paths))
    # To list a store twice costs more than to know how much there is.
    known = sum(map(_size_of, _streams(paths))) if on_progress and not is_remote else 0

    def watch(size: int) -> None:
        if on_progress:
            on_progress(size, known)

    # Loading the names costs start-up time; a file that is named is checked whatever its name is.
    hints = cache(partial(usual_names, options.choice))
    streams = (each for found in _streams(paths, hints) for each in _with_ranks(found))
    work = partial(_check_found, options=options, walk=walk)
    # The threads of the engine open files by themselves.
    engine = None if options.choice.may_be_own or is_remote else native()
    if engine is not None and isinstance(workers, int):
        yield from NativeThreads(engine, options, workers, watch).check(streams, work, walk=walk)
        return
    is_alone = workers == 1
    checked = _one_by_one(streams, work) if is_alone else _in_parallel(streams, work, workers, is_remote)
    with closing(checked):
        for found, verdict in checked:
            done += _size_of(found)
            watch(done)
            yield found, verdict


def _streams(paths: Iterable[str], hints: Callable[[], tuple[str, ...]] = tuple) -> Iterator[Found]:
    for path in paths:
        yield from find_streams(path, hints=() if os.path.isfile(path) else hints())


def _size_of(found: Found) -> int:
    return found.size if isinstance(found, Stream) else 0


def _with_ranks(found: Found) -> Iterator[Found]:
    """Yield *found*, and after the stream of a run in a directory that was named those of its other ranks."""
    yield found
    if not isinstance(found, Stream) or found.root is None:
        return
    for path in ranks_beside(found.path).values():
        if os.path.isfile(path):
            yield Stream(path, os.path.getsize(path), found.root)


def _one_by_one(streams: Iterable[Found], check: Check) -> Generator[tuple[Found, Verdict]]:
    for found in streams:
        yield found, check(found)


def _in_parallel(
    streams: Iterable[Found], check: Check, workers: int | Workers, is_remote: bool
) -> Generator[tuple[Found, Verdict]]:
    """Yield each of *streams* with the result of *check*, in order.

    A stream that ends its worker each time is a PathError.
    """
    # One stream needs no workers, and these modules take as long to import as it takes to check.
    from toyspec.core.workers.processes import Processes
    from toyspec.core.workers.running import Threads, Work, results_of

    if isinstance(workers, int):
        workers = Threads(workers) if is_remote else Processes(workers)
    work: Work[Found, Verdict] = Work(
        partial(_check_batch, check=check),
        lambda found: found.size if isinstance(found, Stream) else 1,
        lambda found, reason: PathError(found.path, f"not checked: {reason}; all others were checked"),
    )
    for is_here, group in groupby(streams, lambda found: found.path == STANDARD_INPUT):
        if is_here:  # only this process can read it
            yield from _one_by_one(group, check)
            continue
        with closing(results_of(group, work, workers)) as results:
            yield from results


def _check_batch(batch: list[Found], check: Check) -> list[Verdict]:
    return [check(found) for found in batch]


def _check_found(found: Found, *, options: CheckOptions, walk: Walk) -> Verdict:
    if not isinstance(found, Stream):
        return _without_stream(found, options, walk)
    path, may_skip = found.path, (walk == "runs" and found.is_below) or found.is_hinted
    try:
        if path == STANDARD_INPUT:
            return _check_file(sys.stdin.buffer, path, options)
        with _opened(found) as file:
            return _check_file(file, path, options, may_skip=may_skip)
    except StreamError as error:
        # No record has a key that the user named.
        return Skipped(path, error.fact) if may_skip else PathError(path, error.fact)
    except OSError as error:
        return PathError(path, cause_of(error))


def _without_stream(found: NoStream | NotALog | PathError, options: CheckOptions, walk: Walk) -> Verdict:
    if isinstance(found, PathError):
        return found
    if isinstance(found, NotALog):
        return Skipped(found.path, "no log is recognized in it; `toyspec doctor` says what it is")
    if walk == "runs" and not found.is_bundle:
        fact = messages.NO_STREAM_AT_ADDRESS if is_address(found.path) else messages.NO_STREAM
        return PathError(found.path, fact)
    collector = Collector(options)
    collector.add(rules.STREAM_MISSING, Location(1, 0), messages.STREAM_MISSING)
    return FileReport(
        path=found.path,
        profile=None,
        state=None,
        valid=collector.valid,
        records=0,
        bytes=0,
        findings=collector.findings,
        suppressed={},
    )


def _opened(found: Stream) -> BinaryIO:
    path = found.path
    if not is_address(path):
        # A FIFO or a device that the user named is waited for.
        return cast("BinaryIO", open_file(NamedFile(path) if found.root is None else path).detach())
    # Imported with the first address: start-up time counts.
    from toyspec.core.places.remote_files import RemoteFile

    return cast("BinaryIO", RemoteFile(path))


def _check_file(file: BinaryIO, path: str, options: CheckOptions, *, may_skip: bool = False) -> FileReport | Skipped:
    directory, name = os.path.split(path)
    is_sealed = name in STREAM_NAMES and options.reports(rules.SEAL_BROKEN)
    is_sealed = is_sealed and may_be_there(path_in(directory, SEAL_FILE))
    source = Source(file, name=path)
    head = source.peek(RECOGNIZED_BYTES)
    checker = open_checker(path, options, head)
    while chunk := source.read(_CHUNK_BYTES):
        checker.feed(chunk)
    is_document = _is_other_document(path, head, options)
    if is_document:
        # The line that another program did not end says what the file is.
        checker.feed(b"\n")
    report = checker.finish()
    report.bytes -= is_document
    if is_sealed:
        # Imported here: few bundles have a seal, and loading the digest takes longer than checking a small stream.
        from toyspec.core.checker.sidecars import add_seal_findings

        # Damage can take the profile from a stream; only a broken seal shows then that it is a run.
        may_skip = not add_seal_findings(path, report, options) and may_skip
    return Skipped(path, checker.fact) if may_skip and checker.fact is not None else report


def _is_other_document(path: str, head: bytes, options: CheckOptions) -> bool:
    """Return whether the file at *path*, which begins with *head*, is one object of another program."""
    if options.profile or len(head) == RECOGNIZED_BYTES or not is_other_document(path, head):
        return False
    return options.choice.choose(head, path=path) is None


def check_run(path: str, dialect: DialectChoice) -> FileReport | None:
    """Return the report on the stream at *path*; None if it cannot be checked."""
    report = next(iter_reports([path], options=CheckOptions(dialect=dialect)), None)
    return report if isinstance(report, FileReport) else None


def count_findings(path: str, dialect: DialectChoice) -> dict[str, int] | None:
    """Return the number of findings of each severity in the stream at *path*; None if it cannot be checked."""
    report = check_run(path, dialect)
    return None if report is None else counted(report)


def counted(report: FileReport) -> dict[str, int]:
    """Return the number of findings of each severity in a *report*, those that are not listed included."""
    totals = {"error": 0, "warning": 0, "info": 0}
    for finding in report.findings:
        totals[finding.severity] += 1
    # The severities are those of the nearest profile of toyspec.
    nearest = "toy/v1" if report.dialect is None else "metrics/v1"
    profile = cast("Profile", report.profile if report.profile in get_args(Profile) else nearest)
    for rule, number in report.suppressed.items():
        # What is not a rule of the specification is one over training.
        totals[severity_of(rule, profile) if rule in ORDER else "warning"] += number
    return totals


def open_checker(path: str, options: CheckOptions, head: bytes = b"", *, name: str | None = None) -> Checker:
    """Return a checker for the stream at *path*, which begins with *head*, and for the other files of its bundle.

    *name* is the name of its file if it has no path: then nothing is beside it.
    """
    has_path = name is None and path != STANDARD_INPUT
    detect = partial(detect_profile_at, path) if has_path else partial(detect_profile, file_name=name or "")
    own, log = options.choice.decide(head, detect, path=path)
    if log is not None:
        return log.checker(path, options)
    # The engine reads the files beside a stream by itself, from a file system.
    engine = None if own is not None or is_address(path) else native()
    if engine is not None:
        checker = engine.Checker(_native_options(engine, options), path=path if has_path else None, name=name or "")
        return NativeChecker(path, checker)
    # Imported here: what one of them needs costs the others their start.
    from toyspec.core.checker.stream_checker import StreamChecker

    if own is not None:
        # The streams of a profile of the user have no bundle.
        return StreamChecker(path, options=options, detect=lambda *_, **__: own)
    return StreamChecker(path, options=options, detect=detect, beside=has_path)


class NativeChecker:
    """Checks the stream at a path, or a stream without one, by the compiled engine."""

    def __init__(self, path: str, checker: toyspec_engine.Checker) -> None:
        self._path = path
        self._checker = checker
        self.fact: str | None = None
        """What a stream without a profile looks like, once it is finished; None for all others."""
        self.feed = checker.feed

    def finish(self) -> FileReport:
        """Return the report on everything fed and on the files beside it; call it once, last."""
        fields, self.fact = self._checker.finish()
        return _report(self._path, fields)


def _native_options(engine: ModuleType, options: CheckOptions) -> toyspec_engine.Options:
    wanted: toyspec_engine.Options = engine.Options(
        options.named_profile, list(options.select), list(options.ignore), options.max_line_bytes
    )
    return wanted


def _report(path: str, fields: toyspec_engine.ReportFields) -> FileReport:
    members: dict[str, Any] = {**fields, "findings": list(map(_finding, fields["findings"]))}
    return FileReport(path=path, **members)


def _finding(fields: toyspec_engine.FindingFields) -> Finding:
    excerpt = fields["excerpt"]
    members: dict[str, Any] = {**fields, "excerpt": None if excerpt is None else Excerpt(*excerpt)}
    return Finding(**members)


class NativeThreads:
    """Threads of the compiled engine that check files."""

    def __init__(self, engine: ModuleType, options: CheckOptions, number: int, watch: Callable[[int], None]) -> None:
        """Start *number* threads; *watch* is given the number of bytes that are done."""
        choice = options.choice
        self._batch: toyspec_engine.Batch = engine.Batch(
            _native_options(engine, options), number, choice.name == "auto"
        )
        self._most = number * _PENDING_PER_THREAD
        self._watch = watch
        self._elsewhere = 0
        # A dialect is recognized by what is read first, so a named one needs no engine.
        self._is_used = choice.name in (None, "auto")

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
            verdict = check(item)
            self._elsewhere += _size_of(item)
            self._watch(self._batch.received + self._elsewhere)
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
            self._watch(self._batch.received + self._elsewhere)
        if outcome["report"] is not None:
            return _report(path, outcome["report"])
        if outcome["skipped"] is not None:
            return Skipped(path, outcome["skipped"])
        if outcome["failure"] is None:
            return None
        number, words = outcome["failure"]
        return PathError(path, words if number is None or os.name == "nt" else os.strerror(number))
