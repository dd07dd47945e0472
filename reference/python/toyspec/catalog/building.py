"""Builds a catalog, and updates it by what has changed."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.catalog.index import IndexComparison, is_text, read_index, records_below
from toyspec.catalog.layout import Manifest, read_manifest, write_manifest, writing
from toyspec.catalog.reading_runs import Job, Plan, ReadRun, not_read, read_batch
from toyspec.catalog.tables import ROWS, Tables, library, names_of
from toyspec.core.directories import new_file
from toyspec.core.errors import CatalogError
from toyspec.core.escaping import encodable
from toyspec.core.findings import PathError
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.log_detection import DialectChoice, usual_names
from toyspec.core.workers.processes import Processes, Start
from toyspec.core.workers.running import Threads, Work, results_of
from toyspec.health.rules import AnyRule, rules_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from toyspec.core.reading.configuration import Configuration
    from toyspec.core.watching import Watch
    from toyspec.core.workers.running import Workers


_MOST_ERRORS = 1000


class CatalogReport(NamedTuple):
    """What became of a build or an update."""

    runs: int
    """Number of runs in the catalog."""
    read: int
    """Number of streams that were read."""
    kept: int
    """Number of runs that had not changed."""
    gone: int
    """Number of runs that are no longer there."""
    skipped: int
    """Number of files of other formats."""
    errors: list[PathError]
    """What could not be read; the first 1,000."""


class _Options(NamedTuple):
    choice: DialectChoice
    workers: int | Workers
    on_progress: Watch | None
    rules: tuple[AnyRule, ...] | None


def build_catalog(
    *roots: str | os.PathLike[str],
    out: str | os.PathLike[str],
    health: str | Sequence[Mapping[str, Any]] | Configuration | None = None,
    workers: int | Workers = 1,
    dialect: DialectChoice | str | None = "auto",
    on_progress: Watch | None = None,
) -> CatalogReport:
    """Read every run below *roots*, paths or addresses, and write the catalog into the directory *out*.

    It has one row for each run, in Parquet files. With *health*, as of ``check_health``, ``alerts`` is the number of
    incidents of each run, and each run is read once more. *workers* is a number of processes or a Ray cluster. The
    catalog appears whole: a build that is stopped leaves the earlier one. *on_progress* is given the number of bytes
    done and of all bytes.
    Raises CatalogError if a root cannot be listed, another process writes the catalog, or *out* has other files,
    WorkersError, and ValueError or ConfigurationError for a wrong health rule.
    """
    named = [os.fspath(root) for root in roots or (".",)]
    places = _outermost([public(root) if is_address(root) else os.path.abspath(root) for root in named])
    rules = None if health is None else rules_of(health)
    options = _Options(DialectChoice.of(dialect), workers, on_progress, rules)
    catalog = os.path.abspath(os.fspath(out))
    with writing(catalog) as work:
        before = _manifest(catalog)
        kept = None if rules is None else msgspec.to_builtins(rules)
        base = Manifest(roots=places, health=kept, generation=before.generation)
        base.former = [*before.runs, *before.names]
        return _build(catalog, work, base, None, options)


def update_catalog(
    catalog: str | os.PathLike[str],
    *,
    workers: int | Workers = 1,
    dialect: DialectChoice | str | None = "auto",
    on_progress: Watch | None = None,
) -> CatalogReport:
    """Read the runs that have changed since *catalog* was written, and those that are new, and write them into it.

    A run has changed if its stream or a file beside it has another size, time or entity tag, if it was being written,
    or if it could not be read. It is read whole; one that takes more than a second to read and still grows keeps its
    row, which is as of the number of bytes in ``as_of``. Health rules are those of the build. Only the files with
    such runs are written.
    Raises as ``build_catalog`` does, and CatalogError for what is not a catalog of this version.
    """
    path = os.path.abspath(os.fspath(catalog))
    read_manifest(path)
    with writing(path) as work:
        old = read_manifest(path)
        rules = None if old.health is None else msgspec.convert(old.health, tuple[AnyRule, ...])
        options = _Options(DialectChoice.of(dialect), workers, on_progress, rules)
        return _build(path, work, old, old, options)


def _outermost(roots: Sequence[str]) -> list[str]:
    """Return *roots* without those that are below another one, whose runs are found there."""
    folders = {root: root.rstrip("/" + os.sep) + ("/" if is_address(root) else os.sep) for root in roots}
    return [root for root in folders if not any(root.startswith(folders[other]) for other in folders if other != root)]


def _manifest(catalog: str) -> Manifest:
    """Return the manifest of the directory *catalog*, an empty one if it is not a catalog of this version."""
    try:
        return read_manifest(catalog)
    except CatalogError:
        return Manifest(roots=[], generation=0)


def _build(catalog: str, work: str, base: Manifest, old: Manifest | None, options: _Options) -> CatalogReport:
    unlisted: list[PathError] = []
    found = IndexComparison(
        read_index(os.path.join(catalog, old.index[0])) if old and old.index else {},
        records_below(base.roots, usual_names(options.choice), unlisted.append),
        lambda: [error.path for error in unlisted if is_text(error.path)],
    )
    if old is not None and not found.has_changes:
        return CatalogReport(old.count, 0, old.count, 0, old.skipped, unlisted)
    kept = found.runs
    read, failed = _read(found, base.roots, work, options)
    errors = unlisted + failed
    made = Manifest(roots=base.roots, health=base.health, generation=base.generation + 1)
    tables = Tables(catalog, work, found.old_rows)
    try:
        made.runs = tables.write(old.runs if old else [], made.generation)
        made.names = list(map(names_of, made.runs))
    except library().Error as error:
        fact = str(error).partition("\n")[0]
        raise CatalogError(catalog, f"cannot be written: {fact}; what was there is unchanged") from None
    finally:
        tables.connection.close()
    if old:
        made.former = sorted({*old.runs, *old.names} - {*made.runs, *made.names})
    else:
        made.former = base.former
    made.index = [f"index/{made.generation:06}.records"]
    found.write(os.path.join(catalog, made.index[0]))
    made.count, made.skipped = found.runs, found.skipped
    made.errors = [PathError(encodable(error.path), error.message) for error in errors[:_MOST_ERRORS]]
    write_manifest(catalog, made)
    return CatalogReport(made.count, read, kept, found.gone, made.skipped, made.errors)


def _read(found: IndexComparison, roots: Sequence[str], work: str, options: _Options) -> tuple[int, list[PathError]]:
    """Read what has to be read into files, note what it is, and return the number of streams and what could not be.

    The runs whose rows stay unchanged are taken out of ``found.old_rows``.
    """
    errors: list[PathError] = []
    total, done, number = found.size(), 0, 0
    plan = Plan(options.choice, options.rules)
    jobs = (
        Job(stream, stream.path in found.old_rows and found.is_changed(stream.path)) for stream in found.streams(roots)
    )
    with (
        new_file(os.path.join(work, ROWS)) as rows,
        closing(_results(jobs, plan, options.workers)) as results,
    ):
        for (stream, _), run in results:
            if run.is_kept:
                found.old_rows.remove(stream.path)
            rows.write(run.line)
            found.note(stream.path, run.kind, stream.identity)
            if run.error is not None and len(errors) < _MOST_ERRORS:
                errors.append(PathError(stream.path, run.error))
            number += not run.is_kept and run.kind != "h"
            done += stream.size
            if options.on_progress is not None:
                options.on_progress(done, total)
    return number, sorted(errors, key=lambda error: error.path)


def _results(jobs: Iterator[Job], plan: Plan, workers: int | Workers) -> Generator[tuple[Job, ReadRun]]:
    first = next(jobs, None)
    if first is None:
        return
    work: Work[Job, ReadRun] = Work(partial(read_batch, plan=plan), lambda each: each.stream.size or 1, not_read)
    if isinstance(workers, int):
        # A client of a store does not survive a fork.
        method: Start = "spawn" if is_address(first.stream.path) else None
        workers = Threads(1) if workers == 1 else Processes(workers, method)
    yield from results_of(chain([first], jobs), work, workers, order="any")
