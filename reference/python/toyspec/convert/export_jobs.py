"""What an export does with each run, in this process or in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toyspec.convert.exported_runs import ExportedRun
from toyspec.convert.reports import ConversionReport, RunConversion
from toyspec.convert.sources import encodable
from toyspec.errors import SourceError, StreamError
from toyspec.findings import PathError

if TYPE_CHECKING:
    from toyspec.watching import Total


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
