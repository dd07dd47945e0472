"""Imports runs of foreign formats as toy/v1 bundles; a bundle appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import structs

from toyspec.convert.finding import ANY_LOG, ImportableRuns, described, expected, importer, unreadable
from toyspec.convert.formats import paths_of
from toyspec.convert.intake import Intake
from toyspec.convert.reports import MAX_EXAMPLES, REPORT_FILE, ConversionReport, Ledger, RunConversion
from toyspec.core.directories import Directory, delete_tree, sync_directory
from toyspec.core.errors import SourceError, ToyspecError, UnknownFormatError
from toyspec.core.escaping import encodable, shortened
from toyspec.core.files import open_file
from toyspec.core.findings import PathError
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.annotations import read_annotations
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.system_calls import PASSING_ERRORS, SYSTEM_CALLS, cause_of, is_locked
from toyspec.core.watching import Total
from toyspec.core.writing import opening
from toyspec.core.writing.append_file import AppendFile
from toyspec.core.writing.run_ids import run_id_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toyspec.convert.formats import ForeignRun
    from toyspec.core.watching import Watch
    from toyspec.core.writing.events import Reason


def import_runs(  # noqa: PLR0913 - each is an option of its own
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str] = "runs",
    *,
    format: str | None = None,  # noqa: A002 - the word that the command line uses
    ended: Reason | None = None,
    max_examples: int = MAX_EXAMPLES,
    watch: Watch | None = None,
    dialect: DialectChoice | str | None = "auto",
) -> ConversionReport:
    """Import every run at *sources* into a directory of its own below *out*, and return what became of each.

    *sources* is one path or several. The *format* is found out from each source unless given. A bundle has its part
    of the report in ``import.json``. A run that was imported before is left unchanged; if its source has changed
    since, it is imported again, and the earlier stream stays beside it as ``events.jsonl.prev``. A run whose source
    does not say how it ended has no run_end, or with *ended* one with that reason. The report has *max_examples*
    for each cause. *watch* is called with the bytes that were read so far and in all. A source that cannot be read is
    in ``errors``. *dialect* says how logs of other programs are read: ``"auto"`` recognizes one, None imports none, and
    a DialectChoice has dialects of the user, which are tried first, and the key of the step. Raise ValueError for an
    unknown *format*, ImportError if it needs a package that is not installed, and OSError if *out* cannot be written.
    """
    choice = DialectChoice.of(dialect)
    if format is not None:
        importer(format, choice)
    report = ConversionReport(direction="import")
    found = [each for source in paths_of(sources) for each in _find(source, format, choice, report)]
    plan = ImportPlan(os.fspath(out))
    # The same source may be named twice.
    plans = {each.run_id: each for each in (plan.add(name, run) for name, run in found)}.values()
    total = Total(sum(each.run.size for each in plans), watch)
    options = ImportOptions(os.fspath(out), total.advance, ended, max_examples)
    for planned in plans:
        if planned.earlier is not None and planned.earlier.identity == planned.run.identity:
            target = encodable(os.path.join(options.root, planned.run_id))
            report.add(structs.replace(planned.earlier, status="done-before", target=target))
            options.advance(planned.run.size)
        else:
            with _reported(planned.run.source, report):
                report.add(make_bundle(planned, options))
    return report


def _find(
    source: str, name: str | None, choice: DialectChoice, report: ConversionReport
) -> Iterator[tuple[str, ForeignRun]]:
    """Yield each run at *source* with its format; one in a format that cannot be read does not stop the others.

    *name* is that of the format, None where it is found out.
    """
    own_names = {dialect.name for dialect in choice.own}
    if is_address(source):
        fact = "an import reads files and directories of this machine; copy what is at the address first"
        report.errors.append(PathError(public(source), fact))
        return
    sources = ImportableRuns(source, name, choice)
    for each, run in sources.runs():
        # A dialect of the user is a log like any other, whose run names it.
        yield ANY_LOG if each in own_names else each, run
    errors = ConversionReport(direction="import")
    for _, error in sources.refused:
        with _reported(source, errors):
            if isinstance(error, ImportError) and len(sources.refused) > 1 - sources.is_found:
                errors.errors.append(PathError(source, str(error)))
            else:
                raise error
    found = errors.errors
    if name is None and (os.path.isdir(source) or not found):
        known = {error.path for error in found}
        others = unreadable(source, lambda path: sources.owners.owner_of(path) is not None)
        found += [error for error in others if error.path not in known]
    if not found and not sources.is_found:
        fact = "no known format; name it, as in `toyspec import csv PATH` (see `toyspec import --help`)"
        found = [PathError(source, fact if name is None else expected(name))]
    report.errors += dict.fromkeys(found)


@contextlib.contextmanager
def _reported(source: str, report: ConversionReport) -> Iterator[None]:
    """Add what a source raises to *report*; errors of the target propagate."""
    try:
        yield
    except (SourceError, UnknownFormatError) as error:
        report.errors.append(PathError(error.path, error.fact))
    except InvalidEventError as error:
        report.errors.append(PathError(source, f"a record would be invalid: {error}"))
    except ToyspecError as error:
        report.errors.append(PathError(source, str(error)))
    except OSError as error:
        # A full disk fails for all that follows; what cannot be read fails for itself alone.
        if isinstance(error, TargetError) or error.errno in PASSING_ERRORS:
            raise
        report.errors.append(PathError(source, cause_of(error)))


_PARTIAL = ".import-"
# Not a name of a stream: what a killed import leaves is not listed as a run.
_PARTIAL_STREAM = f"{EVENTS_FILE}.partial"
_BLOCK_BYTES = 1 << 20


class ImportOptions(NamedTuple):
    """What applies to every run of an import."""

    root: str
    """The directory below which the bundles are made."""
    advance: Callable[[int], None]
    """Is given the number of bytes that were read since the last call."""
    ended: Reason | None = None
    max_examples: int = MAX_EXAMPLES


class PlannedImport(NamedTuple):
    """A run, and the bundle that it becomes."""

    name: str
    """The importer: a format, a dialect, or whichever dialect is recognized."""
    run: ForeignRun
    source: str
    """The source as the report names it."""
    run_id: str
    earlier: RunConversion | None = None
    """The report of an earlier import of the same source."""


class ImportPlan:
    """Gives each run the run id of an earlier import of the same source, or a free one, in the order of the runs."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._numbers: dict[str, int] = {}
        """How many of the run ids ``a``, ``a-2``, ``a-3`` … were tried, for each wanted one."""
        self._known: dict[tuple[str, str, str], tuple[str, RunConversion | None]] = {}

    def add(self, name: str, run: ForeignRun) -> PlannedImport:
        """Return the plan for *run*, found by the importer *name*."""
        source, wanted = encodable(os.path.abspath(run.source)), run_id_from(run.name)
        run_id, earlier = self._named(wanted, (wanted, source, run.dialect or name))
        return PlannedImport(name, run, source, run_id, earlier)

    def _named(self, wanted: str, key: tuple[str, str, str]) -> tuple[str, RunConversion | None]:
        """Return the run id of a run by its source, and the report of the import that made it before."""
        while key not in self._known:
            number = self._numbers[wanted] = self._numbers.get(wanted, 0) + 1
            name = wanted if number == 1 else f"{wanted}-{number}"
            directory = os.path.join(self._root, name)
            if not os.path.lexists(directory):
                self._known[key] = (name, None)
            elif (earlier := _earlier(directory)) is not None:
                self._known.setdefault((wanted, earlier.source, earlier.format), (name, earlier))
        return self._known[key]


class TargetError(OSError):
    """Nothing can be made in the directory of an import, so every other run would fail too."""


def make_bundle(plan: PlannedImport, options: ImportOptions) -> RunConversion:
    """Import one run and return what became of it; raise SourceError or OSError, TargetError among them."""
    run, target = plan.run, os.path.join(options.root, plan.run_id)
    made = RunConversion(
        format=run.dialect or plan.name,
        source=plan.source,
        target=encodable(target),
        run_id=plan.run_id,
        identity=run.identity,
        item=described(plan.name)[1],
    )
    try:
        os.makedirs(options.root, exist_ok=True)
        directory = _claim(os.path.join(options.root, _PARTIAL + plan.run_id))
    except OSError as error:
        raise TargetError(error.errno, error.strerror, options.root) from error
    try:
        ledger = Ledger(max_examples=options.max_examples, watch=options.advance)
        stream = os.path.join(directory, _PARTIAL_STREAM)
        _write_stream(stream, _lines(plan, options.ended, ledger))
        made.take(ledger)
        _finish(directory, made, plan, options.root)
    finally:
        delete_tree(directory)
    return made


def _finish(directory: str, made: RunConversion, plan: PlannedImport, place: str) -> None:
    """Complete the bundle *directory*, and give it its name in the directory *place*."""
    with Directory(place) as root, root.folder(os.path.basename(directory)) as bundle:
        bundle.move(_PARTIAL_STREAM, EVENTS_FILE)
        bundle.write(REPORT_FILE, [msgspec.json.format(msgspec.json.encode(made), indent=2), b"\n"])
        if plan.earlier is None:
            root.move(os.path.basename(directory), plan.run_id)
        else:
            with root.folder(plan.run_id) as target:
                _update(bundle, target)
    sync_directory(SYSTEM_CALLS, place)


def _lines(plan: PlannedImport, ended: Reason | None, ledger: Ledger) -> Iterator[bytes]:
    run, wanted = plan.run, run_id_from(plan.run.name)

    def completed(start: dict[str, Any]) -> dict[str, Any]:
        """Return *start* with its run id, and with what annotations of the source give in place of its members."""
        found = read_annotations(run.source).over(start)
        for flag in ("starred", "hidden"):
            if found.pop(flag, False):
                ledger.note(f"annotations have it {flag}; `toyspec annotate` marks the new run")
        if plan.run_id != wanted:
            ledger.note(f"another run is named {wanted}, so this one is {plan.run_id}")
        return {**found, "schema": "toy/v1", "run_id": plan.run_id}

    intake = Intake(ledger, completed)
    yield from run.records(intake)
    if not intake.is_begun:
        raise SourceError(run.source, "its first record cannot be read, so it is not known which run it is")
    if not intake.has_metrics:
        ledger.note("no metric was found in it")
    yield from intake.finish(ended)


def _earlier(directory: str) -> RunConversion | None:
    """Return the report of the import that made *directory*; None if another program did."""
    try:
        with open_file(os.path.join(directory, REPORT_FILE)) as file:
            return msgspec.json.decode(file.read(), type=RunConversion)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _claim(directory: str) -> str:
    """Make the empty *directory*; what a killed import has left there is removed.

    Raise SourceError if another import writes there.
    """
    if os.path.lexists(directory):
        if is_locked(os.path.join(directory, _PARTIAL_STREAM)):
            raise SourceError(directory, "another import writes this run now; wait for it, or choose another --out")
        delete_tree(directory)
    os.mkdir(directory)
    return directory


def _update(bundle: Directory, target: Directory) -> None:
    """Replace the stream and the report in *target*; the earlier stream gets a free name beside it."""
    stream = os.path.join(target.path, EVENTS_FILE)
    if os.path.lexists(stream):
        if is_locked(stream):
            raise SourceError(target.path, f"{shortened(stream)} is being written; the run was not imported again")
        opening.keep(stream, SYSTEM_CALLS)
    for name in (EVENTS_FILE, REPORT_FILE):
        bundle.move(name, name, to=target)


def _write_stream(path: str, lines: Iterable[bytes]) -> None:
    """Create the log *path* of *lines*, in large blocks, and force it to the device."""
    file = AppendFile.create(path)
    try:
        with file.lock:
            block: list[bytes] = []
            size = 0
            for line in lines:
                block.append(line)
                size += len(line)
                if size >= _BLOCK_BYTES:
                    file.commit(b"".join(block))
                    block, size = [], 0
            if block:
                file.commit(b"".join(block))
            file.sync(directory="too")
    finally:
        file.close()
