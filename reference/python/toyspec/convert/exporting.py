"""Exports toy/v1 runs to foreign formats; the target appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from toyspec.convert.exported_runs import ExportedRun
from toyspec.convert.formats import exporter
from toyspec.convert.importing import safe_run_id
from toyspec.convert.losses import MAX_EXAMPLES, Ledger
from toyspec.convert.reports import ConversionReport, RunConversion
from toyspec.convert.sources import encodable, size_of
from toyspec.errors import SourceError, StreamError
from toyspec.findings import PathError
from toyspec.runs.discovery import Stream, find_streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.importing import Watch

_PARTIAL = ".export-"


def export_runs(
    format: str,  # noqa: A002 - the word that the command line uses
    runs: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    max_examples: int = MAX_EXAMPLES,
    watch: Watch | None = None,
) -> ConversionReport:
    """Export *runs*, toy/v1 runs or directories with some below, into the directory *out*; return what became of each.

    What is in *out* already stays; a file that an export would replace is an error, and then nothing is written there.
    A run that cannot be read is in ``errors``. Raise ValueError for an unknown *format*, ImportError if
    it needs a package that is not installed, and OSError if *out* cannot be written.
    """
    module = exporter(format)
    report = ConversionReport(direction="export")
    target = os.fspath(out)
    place, name = os.path.split(os.path.abspath(target))
    partial = os.path.join(place, f"{_PARTIAL}{name}")
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    made: list[tuple[RunConversion, Ledger]] = []

    def opened() -> Iterator[tuple[ExportedRun, Ledger]]:
        names: set[str] = set()
        streams = list(_streams(runs, report))
        total, done = size_of(path for path in streams if os.path.isfile(path)), 0
        for path in streams:
            run = _open(path, report)
            if run is None:
                continue
            run.run_id = _free(safe_run_id(run.run_id), names)
            ledger = Ledger(module.FORMAT.export_causes, max_examples=max_examples)
            made.append((_entry(module.FORMAT.name, run, target), ledger))
            yield run, ledger
            done += run.size
            if watch is not None:
                watch(done, total)

    try:
        module.export(opened(), partial)
        _move_all(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for entry, ledger in made:
        entry.take(ledger)
        report.add(entry)
    return report


def _entry(name: str, run: ExportedRun, target: str) -> RunConversion:
    return RunConversion(format=name, source=encodable(run.path), target=encodable(target), run_id=run.run_id)


def _streams(runs: Iterable[str | os.PathLike[str]], report: ConversionReport) -> Iterator[str]:
    for path in [os.fspath(run) for run in runs]:
        for found in find_streams(path):
            if isinstance(found, Stream):
                yield found.path
            elif isinstance(found, PathError):
                report.errors.append(found)
            else:
                report.errors.append(PathError(path, "no run in the directory or below"))


def _open(path: str, report: ConversionReport) -> ExportedRun | None:
    try:
        return ExportedRun(path)
    except SourceError as error:
        report.errors.append(PathError(error.path, error.fact))
    except StreamError as error:
        report.errors.append(PathError(path, error.fact))
    return None


def _free(name: str, names: set[str]) -> str:
    """Return *name*, with a number if it is in *names*, and add it there."""
    number, free = 1, name
    while free in names:
        number += 1
        free = f"{name}-{number}"
    names.add(free)
    return free


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
