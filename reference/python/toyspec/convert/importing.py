"""Imports runs of foreign formats as toy/v1 bundles; a bundle appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.convert.finding import Parts, recognised
from toyspec.convert.formats import ANY_LOG, dialect_logs, importer
from toyspec.convert.losses import MAX_EXAMPLES, Ledger
from toyspec.convert.reports import ConversionReport, RunConversion
from toyspec.convert.sources import encodable
from toyspec.errors import SourceError, ToyspecError
from toyspec.escaping import shortened
from toyspec.findings import PathError
from toyspec.format.canonical import InvalidEventError
from toyspec.format.profiles import EVENTS_FILE
from toyspec.places.addresses import is_address, public
from toyspec.system_calls import PASSING_ERRORS, SYSTEM_CALLS, cause_of, is_locked, sync_directory
from toyspec.writing import opening
from toyspec.writing.finished_streams import write_finished_stream
from toyspec.writing.run_ids import check_run_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toyspec.convert.formats import ForeignRun, Format
    from toyspec.writing.event_arguments import Reason

    Watch = Callable[[int, int], None]

REPORT_FILE = "import.json"
"""Name of the report of an import, in the bundle that it made."""

_PARTIAL = ".import-"
# Not a name of a stream: what a killed import leaves is not listed as a run.
_PARTIAL_STREAM = f"{EVENTS_FILE}.partial"
_LONGEST_NAME = 120
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]+")


class _Options(NamedTuple):
    ended: Reason | None
    max_examples: int
    advance: Callable[[int], None]


def import_runs(  # noqa: PLR0913 - each is an option of its own
    sources: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str] = "runs",
    *,
    format: str | None = None,  # noqa: A002 - the word that the command line uses
    ended: Reason | None = None,
    max_examples: int = MAX_EXAMPLES,
    watch: Watch | None = None,
) -> ConversionReport:
    """Import every run at *sources* into a directory of its own below *out*, and return what became of each.

    The *format* is found out from each source unless given. A bundle has its part of the report in ``import.json``.
    A run that was imported before is left unchanged; if its source has changed since, it is imported again, and
    the earlier stream stays beside it as ``events.jsonl.prev``. A run whose source does not say how it ended has no
    run_end, or with *ended* one with that reason. The report has *max_examples* for each cause. *watch* is called with
    the bytes that were read so far and in all. A source at an address is copied first, all of it. A source that cannot
    be read is in ``errors``. Raise ValueError for an unknown *format*, ImportError if it needs a package that is not
    installed, and OSError if *out* cannot be written.
    """
    if format is not None:
        importer(format)
    report = ConversionReport(direction="import")
    found: list[tuple[str, ForeignRun]] = []
    with contextlib.ExitStack() as copies:
        for source in [public(os.fspath(source)) for source in sources]:
            is_remote = is_address(source)
            found += _find_remote(source, format, report, copies) if is_remote else _find(source, format, report)
        total = _Total(sum(run.size for _, run in found), watch)
        options = _Options(ended, max_examples, total.advance)
        root = os.fspath(out)
        for name, run in found:
            with _reported(run.source, report):
                os.makedirs(root, exist_ok=True)
                report.add(_Import(root, importer(name).FORMAT, run, options).go())
    return report


def _find(source: str, name: str | None, report: ConversionReport) -> Iterator[tuple[str, ForeignRun]]:
    """Yield each run at *source* with its format; one in a format that cannot be read does not stop the others."""
    names = [] if name is None else [name]
    with _reported(source, report):
        names = names or recognised(source)
        if not names:
            fact = "no known format; name it, as in `toyspec import csv PATH` (see `toyspec import --help`)"
            raise SourceError(source, fact)
    parts = Parts()
    for each in names:
        with _reported(source, report), _without_packages(source, report, is_one_of_many=len(names) > 1):
            if each == ANY_LOG and len(names) > 1:
                yield from ((each, run) for run in _other_logs(source, parts))
                continue
            for run in importer(each).find_runs(source):
                parts.add(each, run)
                yield each, run


@contextlib.contextmanager
def _without_packages(source: str, report: ConversionReport, *, is_one_of_many: bool) -> Iterator[None]:
    """Add to *report* that a package is missing, unless the source is in its format alone."""
    try:
        yield
    except ImportError as error:
        if not is_one_of_many:
            raise
        report.errors.append(PathError(source, str(error)))


def _other_logs(source: str, parts: Parts) -> Iterator[ForeignRun]:
    """Yield the logs in the directory *source* that are not parts of other runs."""
    logs = dialect_logs().DialectImporter(others=parts)
    return iter(logs.find_runs(source) if logs.recognise(source) else ())


def _find_remote(
    source: str, name: str | None, report: ConversionReport, copies: contextlib.ExitStack
) -> Iterator[tuple[str, ForeignRun]]:
    """Yield the runs of a copy of what is at the address *source*; the copy is there as long as *copies* is open."""
    from toyspec.convert.remote_sources import copied

    def address(path: str) -> str:
        return source + path.removeprefix(copy).replace(os.sep, "/")

    with _reported(source, report):
        copy = copies.enter_context(copied(source))
        of_copy = ConversionReport(direction="import")
        for chosen, run in _find(copy, name, of_copy):
            yield chosen, run._replace(source=address(run.source))
        report.errors += [PathError(address(error.path), error.message) for error in of_copy.errors]


@contextlib.contextmanager
def _reported(source: str, report: ConversionReport) -> Iterator[None]:
    """Add what a source raises to *report*; errors of the target propagate."""
    try:
        yield
    except SourceError as error:
        report.errors.append(PathError(error.path, error.fact))
    except InvalidEventError as error:
        report.errors.append(PathError(source, f"a record would be invalid: {error}"))
    except ToyspecError as error:
        report.errors.append(PathError(source, str(error)))
    except OSError as error:
        # A full disk fails for all that follows; what cannot be read fails for itself alone.
        if error.errno in PASSING_ERRORS:
            raise
        report.errors.append(PathError(source, cause_of(error)))


class _Total:
    """Adds up the bytes that were read."""

    def __init__(self, size: int, watch: Watch | None) -> None:
        self._size = size
        self._watch = watch
        self._done = 0

    def advance(self, size: int) -> None:
        self._done += size
        if self._watch is not None:
            self._watch(self._done, self._size)


class _Import:
    """The import of one run."""

    def __init__(self, root: str, known: Format, run: ForeignRun, options: _Options) -> None:
        self._root = root
        self._format = known
        self._name = run.dialect or known.name
        self._run = run
        self._options = options
        self._source = encodable(run.source if is_address(run.source) else os.path.abspath(run.source))

    def go(self) -> RunConversion:
        """Import the run unless that was done before."""
        run_id, earlier = self._target()
        target = os.path.join(self._root, run_id)
        if earlier is not None and earlier.identity == self._run.identity:
            earlier.status = "done-before"
            earlier.target = encodable(target)
            self._options.advance(self._run.size)
            return earlier
        options = self._options
        ledger = Ledger(self._format.import_causes, max_examples=options.max_examples, watch=options.advance)
        made = RunConversion(
            format=self._name,
            source=self._source,
            target=encodable(target),
            run_id=run_id,
            identity=self._run.identity,
            item=self._format.item,
        )
        self._write(made, ledger, is_new=earlier is None)
        return made

    def _target(self) -> tuple[str, RunConversion | None]:
        """Return a run id that is free or of an earlier import of the same source, and the report of that import."""
        wanted = safe_run_id(self._run.name)
        number = 1
        while True:
            name = wanted if number == 1 else f"{wanted}-{number}"
            directory = os.path.join(self._root, name)
            if not os.path.lexists(directory):
                return name, None
            earlier = _earlier(directory)
            if earlier is not None and earlier.source == self._source and earlier.format == self._name:
                return name, earlier
            number += 1

    def _write(self, made: RunConversion, ledger: Ledger, *, is_new: bool) -> None:
        target = os.path.join(self._root, made.run_id)
        partial = _claim(os.path.join(self._root, _PARTIAL + made.run_id))
        try:
            stream = os.path.join(partial, _PARTIAL_STREAM)
            write_finished_stream(stream, self._events(made.run_id, ledger))
            made.take(ledger)
            os.rename(stream, os.path.join(partial, EVENTS_FILE))
            with open(os.path.join(partial, REPORT_FILE), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n")
            if is_new:
                os.rename(partial, target)
            else:
                _update(partial, target)
            sync_directory(SYSTEM_CALLS, self._root)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _events(self, run_id: str, ledger: Ledger) -> Iterator[dict[str, Any] | bytes]:
        events = self._run.events(ledger)
        start = next(events, None)
        if not isinstance(start, dict):
            raise SourceError(self._run.source, "its first record cannot be read, so it is not known which run it is")
        yield {**start, "schema": "toy/v1", "run_id": run_id}
        last: dict[str, Any] | bytes = start
        for event in events:
            last = event
            yield event
        if isinstance(last, dict) and last["kind"] == "run_end":
            return
        if self._options.ended is None:
            ledger.note("the source does not say how the run ended, so it has no run_end")
        else:
            yield {"kind": "run_end", "t": _time_of(last), "reason": self._options.ended}


def safe_run_id(name: str) -> str:
    """Return the run id nearest to *name* that is a safe directory name."""
    cleaned = _NOT_ALLOWED.sub("-", name).strip("-._")[:_LONGEST_NAME].rstrip(".")
    try:
        return check_run_id(cleaned)
    except ValueError:
        return f"run-{cleaned}" if cleaned else "run"


def _time_of(event: dict[str, Any] | bytes) -> float:
    value = event if isinstance(event, dict) else msgspec.json.decode(event.splitlines()[-1])
    return float(value["t"])


def _earlier(directory: str) -> RunConversion | None:
    """Return the report of the import that made *directory*; None if another program did."""
    try:
        with open(os.path.join(directory, REPORT_FILE), "rb") as file:
            return msgspec.json.decode(file.read(), type=RunConversion)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _claim(partial: str) -> str:
    """Make the empty directory *partial*; what a killed import has left there is removed.

    Raise SourceError if another import writes there.
    """
    if os.path.lexists(partial):
        if is_locked(os.path.join(partial, _PARTIAL_STREAM)):
            raise SourceError(partial, "another import writes this run now; wait for it, or choose another --out")
        shutil.rmtree(partial)
    os.mkdir(partial)
    return partial


def _update(partial: str, target: str) -> None:
    """Replace the stream and the report in *target*; the earlier stream gets a free name beside it."""
    stream = os.path.join(target, EVENTS_FILE)
    if os.path.lexists(stream):
        if is_locked(stream):
            raise SourceError(target, f"{shortened(stream)} is being written; the run was not imported again")
        opening.keep(stream, SYSTEM_CALLS)
    os.replace(os.path.join(partial, EVENTS_FILE), stream)
    os.replace(os.path.join(partial, REPORT_FILE), os.path.join(target, REPORT_FILE))
