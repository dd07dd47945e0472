"""Exports runs with several workers: each run into a directory of its own, which are then put together in order."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from toyspec.convert.exported_runs import ExportedRun
from toyspec.convert.format_modules import exporter
from toyspec.convert.imported_bundles import safe_run_id
from toyspec.convert.reports import ConversionReport, RunConversion
from toyspec.distributed.processes import Processes
from toyspec.distributed.running import Work, results_of
from toyspec.errors import SourceError, StreamError
from toyspec.escaping import encodable
from toyspec.findings import PathError
from toyspec.places.addresses import is_address
from toyspec.watching import Total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.distributed.crews import Workers
    from toyspec.distributed.processes import Start


class ExportJob(NamedTuple):
    """A stream to export."""

    path: str
    size: int
    run_id: str = ""
    """The name in the export; empty until it is known."""


class ExportOptions(NamedTuple):
    """What applies to every run of an export."""

    format: str
    target: str
    """The directory that the report names."""
    max_examples: int
    total: Total


def open_run(path: str, report: ConversionReport) -> ExportedRun | None:
    """Return the run at *path*; None if it cannot be read, as *report* gets to know."""
    try:
        return ExportedRun(path)
    except SourceError as error:
        report.errors.append(PathError(error.path, error.fact))
    except StreamError as error:
        report.errors.append(PathError(path, error.fact))
    return None


def report_of(run: ExportedRun, options: ExportOptions) -> RunConversion:
    """Return the report of one run, without its counts."""
    source, target = encodable(run.path), encodable(options.target)
    return RunConversion(format=options.format, source=source, target=target, run_id=run.run_id)


def free_name(name: str, names: set[str]) -> str:
    """Return *name*, with a number if it is in *names*, and add it there."""
    number, free = 1, name
    while free in names:
        number += 1
        free = f"{name}-{number}"
    names.add(free)
    return free


class _Slice(NamedTuple):
    """What became of one run."""

    report: ConversionReport
    folder: str = ""
    """The directory that its files were written into; empty if it could not be read."""


def export_in_parallel(
    jobs: list[ExportJob], options: ExportOptions, workers: int | Workers, directory: str
) -> Iterator[ConversionReport]:
    """Write all runs into *directory*, and yield what became of each, in order.

    Beside *directory* there is a directory for what is not yet complete, which the caller removes. A run that ends its
    worker each time is an error of its own.
    """
    scratch = os.path.join(os.path.dirname(directory), "slices")
    os.makedirs(scratch)
    if isinstance(workers, int):
        # A client of a store does not survive a fork.
        method: Start = "spawn" if any(is_address(job.path) for job in jobs) else None
        workers = Processes(workers, method)
    slices = list(_slices(jobs, options, workers, scratch))
    again = _renamed(jobs, slices)
    if again:
        renamed = _slices(list(again.values()), options, workers, scratch)
        slices = [next(renamed) if number in again else made for number, made in enumerate(slices)]
    join = getattr(exporter(options.format), "join", None)
    folders = (made.folder for made in slices if made.folder)
    if join is not None:
        join(folders, directory)
    else:
        for folder in folders:
            _merge(folder, directory)
    for made in slices:
        yield made.report


def _slices(jobs: list[ExportJob], options: ExportOptions, workers: Workers, scratch: str) -> Iterator[_Slice]:
    """Yield what became of each of *jobs*, in order."""
    # What watches is of this process.
    plain = options._replace(total=Total(0, None))
    call = partial(_export_batch, options=plain, scratch=scratch)
    work: Work[ExportJob, _Slice] = Work(call, lambda job: job.size, _lost)
    with closing(results_of(jobs, work, workers)) as results:
        for job, made in results:
            options.total.advance(0 if job.run_id else job.size)
            yield made


def _lost(job: ExportJob, reason: str) -> _Slice:
    fact = f"not exported: {reason}; the others are not affected"
    return _Slice(ConversionReport(direction="export", errors=[PathError(job.path, fact)]))


def _export_batch(jobs: list[ExportJob], options: ExportOptions, scratch: str) -> list[_Slice]:
    return [_export(job, options, scratch) for job in jobs]


def _export(job: ExportJob, options: ExportOptions, scratch: str) -> _Slice:
    module = exporter(options.format)
    report = ConversionReport(direction="export")
    run = open_run(job.path, report)
    if run is None:
        return _Slice(report)
    run.run_id = job.run_id or safe_run_id(run.run_id)
    ledger = run.ledger(max_examples=options.max_examples)
    entry = report_of(run, options)
    # The name is new for each try: a worker that was given up may still write.
    folder = tempfile.mkdtemp(dir=scratch)
    module.export(iter([(run, ledger)]), folder)
    entry.take(ledger)
    report.add(entry)
    return _Slice(report, folder)


def _renamed(jobs: list[ExportJob], slices: list[_Slice]) -> dict[int, ExportJob]:
    """Return the runs that get another name, since an earlier one has theirs; what they wrote is removed."""
    names: set[str] = set()
    again: dict[int, ExportJob] = {}
    for number, made in enumerate(slices):
        for entry in made.report.runs:
            name = free_name(entry.run_id, names)
            if name != entry.run_id:
                again[number] = jobs[number]._replace(run_id=name)
                shutil.rmtree(made.folder)
    return again


def _merge(folder: str, target: str) -> None:
    """Move what is in *folder* into the directory *target*; raise FileExistsError for a file that is there."""
    for entry in sorted(os.listdir(folder)):
        old, new = os.path.join(folder, entry), os.path.join(target, entry)
        if not os.path.lexists(new):
            os.rename(old, new)
        elif os.path.isdir(old) and os.path.isdir(new):
            _merge(old, new)
        else:
            raise FileExistsError(17, "two runs of the export have a file of this name", new)
