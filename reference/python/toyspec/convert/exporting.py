"""Exports toy/v1 runs to foreign formats; the target appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from toyspec.convert.export_slices import ExportJob, ExportOptions, export_in_parallel, free_name, open_run, report_of
from toyspec.convert.format_modules import FORMATS, exporter
from toyspec.convert.formats import Relocating, paths_of
from toyspec.convert.imported_bundles import safe_run_id
from toyspec.convert.losses import MAX_EXAMPLES
from toyspec.convert.reports import ConversionReport
from toyspec.findings import PathError
from toyspec.runs.discovery import find_streams
from toyspec.runs.walking import Stream
from toyspec.watching import Total

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.losses import Ledger
    from toyspec.convert.reports import RunConversion
    from toyspec.distributed.crews import Workers
    from toyspec.watching import Watch

_PARTIAL = ".export-"
_NO_RUN = "no toy/v1 run in the directory or below; `toyspec import` makes runs of other logs"


def export_runs(  # noqa: PLR0913 - each is an option of its own
    format: str,  # noqa: A002 - the word that the command line uses
    runs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    max_examples: int = MAX_EXAMPLES,
    watch: Watch | None = None,
    workers: int | Workers = 1,
) -> ConversionReport:
    """Export *runs*, toy/v1 runs or directories with some below, into the directory *out*; return what became of each.

    *runs* is one path or several. What is in *out* already stays; a file that an export would replace is an error,
    and then nothing is written there. A run that cannot be read is in ``errors``. *workers* is a number of
    processes or a Ray cluster; what is written does not depend on it. The databases of MLflow and Trackio, and what
    W&B's own package writes, are written by one process all the same. Raise ValueError for an unknown *format*,
    ImportError if it needs a package that is not installed, OSError if *out* cannot be written, and WorkersError.
    """
    module = exporter(format)
    known = FORMATS[format]
    target = os.fspath(out)
    place, name = os.path.split(os.path.abspath(target))
    partial = os.path.join(place, f"{_PARTIAL}{name}")
    made = os.path.join(partial, "made")
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(made)
    report = ConversionReport(direction="export")
    try:
        jobs = [ExportJob(stream.path, stream.size) for stream in _streams(paths_of(runs), report)]
        options = ExportOptions(known.name, target, max_examples, Total(sum(job.size for job in jobs), watch))
        if workers == 1 or known.export_unit == "all":
            parts = _export_here(jobs, options, made)
        else:
            parts = export_in_parallel(jobs, options, workers, made)
        for part in parts:
            report.extend(part)
        if isinstance(module, Relocating):
            module.relocate(made, os.path.abspath(target))
        _move_all(made, target)
    except OSError as error:
        if error.filename is None:
            # An error of writing names no file; what was written there is removed.
            error.filename = target
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return report


def _export_here(jobs: list[ExportJob], options: ExportOptions, directory: str) -> Iterator[ConversionReport]:
    """Write all runs into *directory*, and yield what became of each."""
    module = exporter(options.format)
    failed = ConversionReport(direction="export")
    made: list[tuple[RunConversion, Ledger]] = []

    def opened() -> Iterator[tuple[ExportedRun, Ledger]]:
        names: set[str] = set()
        for job in jobs:
            run = open_run(job.path, failed)
            if run is not None:
                run.run_id = free_name(safe_run_id(run.run_id), names)
                advance = options.total.advance
                ledger = run.ledger(max_examples=options.max_examples, watch=advance)
                made.append((report_of(run, options), ledger))
                yield run, ledger
            else:
                options.total.advance(job.size)

    module.export(opened(), directory)
    yield failed
    for entry, ledger in made:
        entry.take(ledger)
        part = ConversionReport(direction="export")
        part.add(entry)
        yield part


def _streams(paths: list[str], report: ConversionReport) -> Iterator[Stream]:
    for path in paths:
        for found in find_streams(path):
            if isinstance(found, Stream):
                yield found
            elif isinstance(found, PathError):
                report.errors.append(found)
            else:
                report.errors.append(PathError(path, _NO_RUN))


def _move_all(partial: str, target: str) -> None:
    """Move what is in *partial* into *target*; for a name that is taken raise FileExistsError before anything moves."""
    files = [os.path.join(place, name) for place, _, names in os.walk(partial) for name in names]
    moves = [(file, os.path.join(target, os.path.relpath(file, partial))) for file in files]
    for _, new in moves:
        if os.path.lexists(new):
            raise FileExistsError(17, "is there already; choose another directory for --out", new)
    if not os.path.lexists(target):
        os.rename(partial, target)
        return
    for old, new in moves:
        os.makedirs(os.path.dirname(new), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.rename(old, new)
