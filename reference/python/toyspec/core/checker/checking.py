"""Checks streams, bundles, directories of runs, standard input and bytes, with one or several workers."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, BinaryIO, cast, get_args

import msgspec

from toyspec.core.checker.collecting import Collector, Location
from toyspec.core.checker.engines import Walk, open_checker
from toyspec.core.checker.options import CheckOptions
from toyspec.core.engine import native
from toyspec.core.errors import StreamError
from toyspec.core.escaping import printable
from toyspec.core.files import NamedFile, open_file
from toyspec.core.findings import FileReport, PathError, Profile, Report, Skipped
from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.generated import messages, rules
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.generated.rules import ORDER
from toyspec.core.places.addresses import is_address, path_in, public
from toyspec.core.reading.log_detection import HEAD_BYTES as RECOGNIZED_BYTES
from toyspec.core.reading.log_detection import DialectChoice, usual_names
from toyspec.core.reading.reader import is_other_document
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.reading.stream_files import STREAM_NAMES, Source, may_be_there
from toyspec.core.runs.discovery import STANDARD_INPUT, Found, NoStream, NotALog, Stream, find_streams
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from toyspec.core.watching import Watch
    from toyspec.core.workers.running import Workers


Verdict = FileReport | PathError | Skipped
_CHUNK_BYTES = 1 << 18
_CANDIDATES_HELP = (
    "name one of them with --step-key KEY, or describe it as a dialect in toyspec.toml: `toyspec dialect new FILE`"
)
# If every line has a finding, a chunk takes seconds; progress must be shown more often than that.
_WATCHED_CHUNK_BYTES = 1 << 14


class Summary(msgspec.Struct, frozen=True):
    """Totals over reports; findings that were counted, not listed, are included."""

    files: int
    errors: int
    warnings: int
    infos: int


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
    options = _options(profile, select, ignore, max_line_bytes, dialect)
    report = Report(files=[], errors=[])
    for verdict in iter_reports([os.fspath(path) for path in paths], options=options, workers=workers):
        if isinstance(verdict, FileReport):
            report.files.append(verdict)
        else:
            report.errors.append(verdict)
    return report


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
    options = _options(profile, select, ignore, max_line_bytes, dialect)
    checker = open_checker(name or STANDARD_INPUT, options, data[:RECOGNIZED_BYTES], name=name or "")
    checker.feed(data)
    return checker.finish()


def _options(
    profile: str | None,
    select: Iterable[str],
    ignore: Iterable[str],
    max_line_bytes: int,
    dialect: DialectChoice | str | None,
) -> CheckOptions:
    return CheckOptions.of(
        DialectChoice.of(dialect),
        profile,
        select=frozenset(select),
        ignore=frozenset(ignore),
        max_line_bytes=max_line_bytes,
    )


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
) -> Iterator[FileReport | PathError | Skipped]:
    """Yield the reports of ``iter_reports`` for runs only.

    A file below a directory of *paths* that follows no profile is skipped. A directory of *paths* without any run is
    an error.
    """
    searched: dict[str, tuple[int, int]] = {}
    for found, verdict in _verdicts(paths, options, workers, on_progress, walk="runs"):
        if isinstance(verdict, Skipped) and isinstance(found, Stream) and found.is_hinted:
            # Only its name was that of a log.
            continue
        if isinstance(found, Stream) and found.root is not None:
            runs, skipped = searched.get(found.root, (0, 0))
            is_skipped = isinstance(verdict, Skipped)
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
    known = _known_size(paths) if on_progress and not is_remote else 0
    # Loading the names costs start-up time; a file that is named is checked whatever its name is.
    hints = cache(partial(usual_names, options.choice))
    streams = (
        stream
        for path in paths
        for found in find_streams(path, hints=() if os.path.isfile(path) else hints())
        for stream in _with_ranks(found)
    )
    # The threads of the engine open files by themselves.
    engine = None if options.choice.may_be_own or is_remote else native()
    if engine is not None and isinstance(workers, int):
        from toyspec.core.checker.engines import NativeThreads

        watch = partial(_forward, on_progress, 0, known) if on_progress else None
        threads = NativeThreads(engine, options, workers, watch)
        yield from threads.check(streams, partial(_check_found, options=options, walk=walk), walk=walk)
        return
    if workers != 1:
        # Imported here, since one worker, the usual case, does not need it.
        chosen = workers_for(workers, is_remote=is_remote) if isinstance(workers, int) else workers
        work = partial(_check_found, options=options, walk=walk)
        with closing(check_in_parallel(streams, work, chosen)) as checked:
            for found, verdict in checked:
                done += found.size if isinstance(found, Stream) else 0
                if on_progress:
                    on_progress(done, known)
                yield found, verdict
        return
    for found in streams:
        on_size = partial(_forward, on_progress, done, known) if on_progress else None
        yield found, _check_found(found, options=options, walk=walk, on_size=on_size)
        done += found.size if isinstance(found, Stream) else 0


def severity_profile(report: FileReport) -> Profile:
    """Return the profile whose severities a report has: that of toyspec which is nearest."""
    if report.dialect is not None:
        return "metrics/v1"
    return cast("Profile", report.profile) if report.profile in get_args(Profile) else "toy/v1"


def summarize(files: Iterable[FileReport]) -> Summary:
    """Return the totals over *files*."""
    count = 0
    totals = {"error": 0, "warning": 0, "info": 0}
    for report in files:
        count += 1
        severities = Collector(CheckOptions())
        severities.profile = severity_profile(report)
        for finding in report.findings:
            totals[finding.severity] += 1
        for rule, number in report.suppressed.items():
            # What is not a rule of the specification is one over training.
            totals[severities.severity(rule) if rule in ORDER else "warning"] += number
    return Summary(count, totals["error"], totals["warning"], totals["info"])


def _with_ranks(found: Found) -> Iterator[Found]:
    """Yield *found*, and after the stream of a run in a directory that was named those of its other ranks."""
    yield found
    if not isinstance(found, Stream) or found.root is None:
        return
    for path in ranks_beside(found.path).values():
        if os.path.isfile(path):
            yield Stream(path, os.path.getsize(path), found.root)


def _forward(on_progress: Watch, before: int, known: int, size: int) -> None:
    on_progress(before + size, known)


def _check_found(
    found: Found, on_size: Callable[[int], None] | None = None, *, options: CheckOptions, walk: Walk
) -> Verdict:
    if not isinstance(found, Stream):
        return _without_stream(found, options, walk)
    may_skip = (walk == "runs" and found.is_below) or found.is_hinted
    try:
        if found.path == STANDARD_INPUT:
            return _check_file(sys.stdin.buffer, found.path, options, on_size)
        with _opened(found) as file:
            return _check_file(file, found.path, options, on_size, may_skip=may_skip)
    except StreamError as error:
        # No record has a key that the user named.
        return Skipped(found.path, error.fact) if may_skip else PathError(found.path, error.fact)
    except OSError as error:
        return PathError(found.path, cause_of(error))


def _without_stream(found: NoStream | NotALog | PathError, options: CheckOptions, walk: Walk) -> Verdict:
    if isinstance(found, PathError):
        return found
    if isinstance(found, NotALog):
        return Skipped(found.path, "no log is recognized in it; `toyspec doctor` says what it is")
    if walk == "runs" and not found.is_bundle and not found.candidates:
        fact = messages.NO_STREAM_AT_ADDRESS if is_address(found.path) else messages.NO_STREAM
        return PathError(found.path, fact)
    return _no_stream(found, options)


def _opened(found: Stream) -> BinaryIO:
    path = found.path
    if not is_address(path):
        # A FIFO or a device that the user named is waited for.
        return cast("BinaryIO", open_file(NamedFile(path) if found.root is None else path).detach())
    # Imported with the first address: start-up time counts.
    from toyspec.core.places.remote_files import RemoteFile

    return cast("BinaryIO", RemoteFile(path))


def _check_file(
    file: BinaryIO,
    path: str,
    options: CheckOptions,
    on_size: Callable[[int], None] | None,
    *,
    may_skip: bool = False,
) -> FileReport | Skipped:
    has_seal = _has_seal(path, options)
    source = Source(file, name=path)
    head = source.peek(RECOGNIZED_BYTES)
    checker = open_checker(path, options, head)
    while chunk := source.read(_WATCHED_CHUNK_BYTES if on_size else _CHUNK_BYTES):
        checker.feed(chunk)
        if on_size:
            on_size(source.received)
        if may_skip and not has_seal and checker.is_look_settled:
            break
    is_document = _is_other_document(path, head, options)
    if is_document:
        # The line that another program did not end says what the file is.
        checker.feed(b"\n")
    report = checker.finish()
    report.bytes -= is_document
    _advise(report, head)
    # Damage can take the profile from a stream; only a broken seal shows then that it is a run.
    is_broken = has_seal and _is_seal_broken(path, report, options)
    return Skipped(path, checker.fact) if may_skip and checker.fact is not None and not is_broken else report


def _advise(report: FileReport, head: bytes) -> None:
    """Say what to do with text of an unknown format that has numbers and begins with *head*."""
    if len(report.findings) != 1 or report.findings[0].rule != rules.UNKNOWN_FORMAT:
        return
    from toyspec.core.format.known_formats import look_of, table_advice

    advice = None if look_of(head, None, is_all=False).advice else table_advice(head)
    if advice is not None:
        report.findings[0] = msgspec.structs.replace(report.findings[0], help=advice)


def _is_other_document(path: str, head: bytes, options: CheckOptions) -> bool:
    """Return whether the file at *path*, which begins with *head*, is one object of another program."""
    if options.profile or options.own_profile or len(head) == RECOGNIZED_BYTES or not is_other_document(path, head):
        return False
    return options.choice.choose(head, path=path) is None


def _has_seal(path: str, options: CheckOptions) -> bool:
    """Return whether the bundle that the stream at *path* is in has a seal that is compared."""
    directory, name = os.path.split(path)
    is_compared = name in STREAM_NAMES and options.reports(rules.SEAL_BROKEN)
    return is_compared and may_be_there(path_in(directory, SEAL_FILE))


def _is_seal_broken(path: str, report: FileReport, options: CheckOptions) -> bool:
    # Imported here: few bundles have a seal, and loading the digest takes longer than checking a small stream.
    from toyspec.core.checker.seals import add_seal_findings

    return add_seal_findings(path, report, options)


def _no_stream(found: NoStream, options: CheckOptions) -> FileReport:
    collector = Collector(options)
    fact, advice = messages.STREAM_MISSING, None
    if found.candidates:
        named = ", ".join(printable(os.path.relpath(path, found.path)) for path in found.candidates)
        fact, advice = f"no stream, and no log that is recognized; these files may be logs: {named}", _CANDIDATES_HELP
    collector.add(rules.STREAM_MISSING, Location(1, 0), fact, advice=advice)
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


def _known_size(paths: Iterable[str]) -> int:
    found = (stream for path in paths for stream in find_streams(path))
    return sum(stream.size for stream in found if isinstance(stream, Stream))


def check_in_parallel(
    found: Iterable[Found], check: Callable[[Found], Verdict], workers: Workers
) -> Generator[tuple[Found, Verdict]]:
    """Yield each of *found* with the result of *check*, in order; *workers* call it.

    A stream that ends its worker each time is a PathError.
    """
    # One stream needs no workers, and these modules take as long to import as it takes to check.
    from toyspec.core.workers.running import Work, results_of

    work: Work[Found, Verdict] = Work(partial(_check_batch, check=check), weight, _not_checked)
    for is_here, group in groupby(found, lambda item: item.path == STANDARD_INPUT):
        if is_here:  # only this process can read it
            yield from ((item, check(item)) for item in group)
            continue
        with closing(results_of(group, work, workers)) as results:
            yield from results


def workers_for(number: int, *, is_remote: bool) -> Workers:
    """Return *number* workers of this machine."""
    from toyspec.core.workers.processes import Processes
    from toyspec.core.workers.running import Threads

    return Threads(number) if is_remote else Processes(number)


def weight(found: Found) -> int:
    """Return the number of bytes to read; 0 for a stream whose size is not known."""
    return found.size if isinstance(found, Stream) else 1


def _check_batch(batch: list[Found], check: Callable[[Found], Verdict]) -> list[Verdict]:
    return [check(item) for item in batch]


def _not_checked(item: Found, reason: str) -> PathError:
    return PathError(item.path, f"not checked: {reason}; all others were checked")


def check_run(path: str, dialect: DialectChoice) -> FileReport | None:
    """Return the report on the stream at *path*; None if it cannot be checked."""
    report = next(iter(iter_reports([path], options=CheckOptions.of(dialect))), None)
    return report if isinstance(report, FileReport) else None


def count_findings(path: str, dialect: DialectChoice) -> dict[str, int] | None:
    """Return the number of findings of each severity in the stream at *path*; None if it cannot be checked."""
    return counted(check_run(path, dialect))


def counted(report: FileReport | None) -> dict[str, int] | None:
    """Return the number of findings of each severity in a *report*; None without one."""
    if report is None:
        return None
    total = summarize([report])
    return {"error": total.errors, "warning": total.warnings, "info": total.infos}
