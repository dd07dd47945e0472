"""Imports runs of foreign formats as toy/v1 bundles; a bundle appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from toyspec.convert.finding import FileOwners, recognised, unreadable
from toyspec.convert.format_modules import ANY_LOG, importer
from toyspec.convert.formats import paths_of
from toyspec.convert.imported_bundles import ImportOptions, ImportPlan, TargetError, discard_partial, make_bundle
from toyspec.convert.losses import MAX_EXAMPLES
from toyspec.convert.reports import ConversionReport
from toyspec.core.errors import SourceError, ToyspecError, UnknownFormatError
from toyspec.core.escaping import encodable
from toyspec.core.findings import PathError
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.system_calls import PASSING_ERRORS, cause_of
from toyspec.core.watching import Total
from toyspec.core.workers.processes import Processes
from toyspec.core.workers.running import Work, results_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from toyspec.convert.formats import ForeignRun
    from toyspec.convert.imported_bundles import PlannedImport
    from toyspec.convert.reports import RunConversion
    from toyspec.core.watching import Watch
    from toyspec.core.workers.crews import Workers
    from toyspec.core.writing.event_arguments import Reason


# A worker that is lost together with its machine may go on for a moment.
_PATIENCE_SECONDS = 20.0


def import_runs(  # noqa: PLR0913 - each is an option of its own
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str] = "runs",
    *,
    format: str | None = None,  # noqa: A002 - the word that the command line uses
    ended: Reason | None = None,
    max_examples: int = MAX_EXAMPLES,
    watch: Watch | None = None,
    workers: int | Workers = 1,
    dialect: DialectChoice | str | None = "auto",
) -> ConversionReport:
    """Import every run at *sources* into a directory of its own below *out*, and return what became of each.

    *sources* is one path or several. The *format* is found out from each source unless given. A bundle has its part
    of the report in ``import.json``. A run that was imported before is left unchanged; if its source has changed
    since, it is imported again, and the earlier stream stays beside it as ``events.jsonl.prev``. A run whose source
    does not say how it ended has no run_end, or with *ended* one with that reason. The report has *max_examples*
    for each cause. *watch* is called with the bytes that were read so far and in all. A source at an address is
    copied first, all of it. A source that cannot be read is in ``errors``. *workers* is a number of processes or a
    Ray cluster; what is made does not depend on it. *dialect* says how logs of other programs are read: ``"auto"``
    recognizes one, None imports none, and a DialectChoice has dialects of the user, which are tried first, and the
    key of the step. Raise ValueError for an unknown *format*, ImportError if it needs a package that is not
    installed, OSError if *out* cannot be written, and WorkersError.
    """
    choice = DialectChoice.of(dialect)
    if format is not None:
        importer(format, choice)
    report = ConversionReport(direction="import")
    found: list[tuple[str, ForeignRun]] = []
    with contextlib.ExitStack() as copies:
        for source in [public(source) for source in paths_of(sources)]:
            is_remote = is_address(source)
            asked = Asked(format, choice)
            found += _find_remote(source, asked, report, copies) if is_remote else _find(source, asked, report)
        total = Total(sum(run.size for _, run in found), watch)
        options = ImportOptions(os.fspath(out), ended, max_examples)
        plan = ImportPlan(options.root)
        plans = [plan.add(name, run) for name, run in found]
        for part in _outcomes(plans, options, workers, total):
            report.extend(part)
    return report


def _outcomes(
    plans: list[PlannedImport], options: ImportOptions, workers: int | Workers, total: Total
) -> Iterator[ConversionReport]:
    """Yield what became of each run, in order."""
    todo = {plan.run_id: plan for plan in plans if not plan.is_done}
    here = options._replace(advance=total.advance)
    made = (
        (_import(plan, here) for plan in todo.values())
        if workers == 1
        else _import_in_parallel(list(todo.values()), options, workers, total)
    )
    outcomes: dict[str, ConversionReport] = {}
    with contextlib.closing(made) as results:
        for plan in plans:
            if plan.earlier is not None and plan.is_done:
                outcome = ConversionReport(direction="import")
                outcome.add(_done_before(plan.earlier, options.root))
                total.advance(plan.run.size)
            elif plan.run_id in outcomes:  # the same source was named twice
                outcome = ConversionReport(direction="import", errors=outcomes[plan.run_id].errors)
                for run in outcomes[plan.run_id].runs:
                    outcome.add(_done_before(run, options.root))
                total.advance(plan.run.size)
            else:
                outcome = outcomes[plan.run_id] = next(results)
            yield outcome


def _done_before(run: RunConversion, root: str) -> RunConversion:
    return structs.replace(run, status="done-before", target=encodable(os.path.join(root, run.run_id)))


def _import(plan: PlannedImport, options: ImportOptions) -> ConversionReport:
    outcome = ConversionReport(direction="import")
    with _reported(plan.run.source, outcome):
        outcome.add(make_bundle(plan, options))
    return outcome


def _import_batch(plans: list[PlannedImport], options: ImportOptions) -> list[ConversionReport]:
    return [_import(plan, options) for plan in plans]


def _import_in_parallel(
    plans: list[PlannedImport], options: ImportOptions, workers: int | Workers, total: Total
) -> Generator[ConversionReport]:
    """Yield what became of each of *plans*, in order; one that ends its worker each time is an error of its own."""

    def lost(plan: PlannedImport, reason: str) -> ConversionReport:
        fact = f"not imported: {reason}; the others are not affected"
        return ConversionReport(direction="import", errors=[PathError(plan.run.source, fact)])

    call = partial(_import_batch, options=options._replace(patience=_PATIENCE_SECONDS))
    work: Work[PlannedImport, ConversionReport] = Work(call, lambda plan: plan.run.size, lost)
    done: set[str] = set()
    crew = Processes(workers) if isinstance(workers, int) else workers
    try:
        with contextlib.closing(results_of(plans, work, crew)) as results:
            for plan, outcome in results:
                if outcome.runs:
                    done.add(plan.run_id)
                total.advance(plan.run.size)
                yield outcome
    finally:
        for plan in plans:
            if plan.run_id not in done:
                discard_partial(options.root, plan.run_id)


class Asked(NamedTuple):
    """How sources are to be read."""

    format: str | None
    """None where it is found out."""
    dialect: DialectChoice
    """How logs of other programs are read."""


def _find(source: str, asked: Asked, report: ConversionReport) -> Iterator[tuple[str, ForeignRun]]:
    """Yield each run at *source* with its format; one in a format that cannot be read does not stop the others."""
    names = [] if asked.format is None else [asked.format]
    own_names = {dialect.name for dialect in asked.dialect.own}
    damaged: list[PathError] = []
    parts = FileOwners()
    with _reported(source, report):
        names = names or recognised(source, asked.dialect)
        if not names:
            damaged = list(unreadable(source, lambda _: False))
        if not names and not damaged:
            fact = "no known format; name it, as in `toyspec import csv PATH` (see `toyspec import --help`)"
            raise SourceError(source, fact)
    for each in names:
        with _reported(source, report), _without_packages(source, report, is_one_of_many=len(names) > 1):
            if each == ANY_LOG and len(names) > 1:
                yield from ((each, run) for run in _other_logs(source, parts, asked.dialect))
                continue
            for run in importer(each, asked.dialect).find_runs(source):
                parts.add(each, run)
                # A dialect of the user is a log like any other, whose run names it.
                yield ANY_LOG if each in own_names else each, run
    if names and asked.format is None and os.path.isdir(source):
        damaged = list(unreadable(source, lambda path: parts.owner_of(path) is not None))
    known = {error.path for error in report.errors}
    report.errors += [error for error in damaged if error.path not in known]


@contextlib.contextmanager
def _without_packages(source: str, report: ConversionReport, *, is_one_of_many: bool) -> Iterator[None]:
    """Add to *report* that a package is missing, unless the source is in its format alone."""
    try:
        yield
    except ImportError as error:
        if not is_one_of_many:
            raise
        report.errors.append(PathError(source, str(error)))


def _other_logs(source: str, parts: FileOwners, dialect: DialectChoice) -> Iterator[ForeignRun]:
    """Yield the logs in the directory *source* that are not parts of other runs."""
    # Imported when used: start-up time counts.
    from toyspec.convert.dialect_logs import DialectImporter

    logs = DialectImporter(others=parts, dialect=dialect)
    return iter(logs.find_runs(source) if logs.recognise(source) else ())


def _find_remote(
    source: str, asked: Asked, report: ConversionReport, copies: contextlib.ExitStack
) -> Iterator[tuple[str, ForeignRun]]:
    """Yield the runs of a copy of what is at the address *source*; the copy is there as long as *copies* is open."""
    from toyspec.convert.sources import copied

    def address(path: str) -> str:
        return source + path.removeprefix(copy).replace(os.sep, "/")

    with _reported(source, report):
        copy = copies.enter_context(copied(source))
        of_copy = ConversionReport(direction="import")
        for chosen, run in _find(copy, asked, of_copy):
            yield chosen, run._replace(source=address(run.source), other_sources=tuple(map(address, run.other_sources)))
        report.errors += [PathError(address(error.path), error.message) for error in of_copy.errors]


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
