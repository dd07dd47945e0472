"""Fetches the runs of a repository or bucket into a directory, where they continue the logs that are there."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from toyspec.core.errors import PlaceError, StreamError
from toyspec.stores.hub.locations import is_plain_path
from toyspec.stores.hub.repository import HubRepository
from toyspec.stores.results import RunResult, SyncReport
from toyspec.stores.run_files import is_sent, is_stream, run_above
from toyspec.stores.syncing import JOBS, Syncing

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.places.place import Entry
    from toyspec.stores.hub.locations import HubLocation
    from toyspec.stores.run_files import Extent
    from toyspec.stores.run_sync import SyncSettings


def pull(
    location: HubLocation,
    directory: str,
    settings: SyncSettings,
    *,
    on_files: Callable[[int, int], None] = lambda *_: None,
) -> SyncReport:
    """Fetch what the runs at *location* have and *directory* lacks, and return what became of each.

    Files are fetched into a hidden folder beside *directory*, which an interrupted call leaves for the next one.
    *on_files* gets the number of files that are fetched so far, and of all. Raises PlaceError and OSError.
    """
    repository = HubRepository(location, "")
    repository.open()
    place, name = os.path.split(os.path.abspath(directory))
    staging = os.path.join(place, f".{name}.pull")
    runs = _runs_of(repository, settings.extent)
    lacking = {run: files for run, files in runs.items() if not _are_there(files, directory, repository, settings)}
    if settings.is_rehearsal:
        results = [
            _rehearsed(run, files, _local(run, directory, location), is_lacking=run in lacking)
            for run, files in runs.items()
        ]
        return SyncReport(root=location.address, address=directory, runs=results, is_rehearsal=True)
    os.makedirs(staging, exist_ok=True)
    _fetch([file for files in lacking.values() for file in files], staging, repository, on_files)
    root = os.path.join(staging, location.path) if location.path else staging
    report = SyncReport(root=location.address, address=directory, runs=[])
    if lacking:
        report.runs = Syncing(root, directory, settings).once().runs
    for run in report.runs:
        run.run = _joined(location.address, os.path.relpath(run.run, root).replace(os.sep, "/"))
    same = [run for run in runs if run not in lacking]
    report.runs += [_rehearsed(run, [], _local(run, directory, location), is_lacking=False) for run in same]
    if not report.count("failed"):
        shutil.rmtree(staging)
    return report


def _runs_of(repository: HubRepository, extent: Extent) -> dict[str, list[Entry]]:
    """Return the files of each run by its address; raise PlaceError for a path that would leave the directory."""
    address = repository.location.address
    entries = list(repository.entries(address))
    found: dict[str, list[Entry]] = {
        run: [] for run, _, name in (entry.address.rpartition("/") for entry in entries) if is_stream(name)
    }
    for entry in entries:
        run = run_above(entry.address, found, address)
        if run is None:
            continue
        name = entry.address[len(run) + 1 :]
        if not is_plain_path(repository.path_of(entry.address)):
            raise PlaceError(entry.address, "its name is not that of a file in a folder, so nothing was fetched")
        if is_sent(name, extent):
            found[run].append(entry)
    return found


def _are_there(files: list[Entry], directory: str, repository: HubRepository, settings: SyncSettings) -> bool:
    """Return whether *directory* has the same bytes in each of *files*."""
    try:
        return all(
            repository.is_copy(_local(entry.address, directory, repository.location), entry, settings.thoroughness)
            for entry in files
        )
    except StreamError:
        return False


def _local(address: str, directory: str, location: HubLocation) -> str:
    below = address[len(location.address) + 1 :]
    return os.path.join(directory, *below.split("/")) if below else directory


def _rehearsed(run: str, files: list[Entry], path: str, *, is_lacking: bool) -> RunResult:
    result = RunResult(run=run, address=path)
    if is_lacking:
        result.outcome, result.files, result.sent = "sent", len(files), sum(file.size for file in files)
    return result


def _joined(address: str, below: str) -> str:
    return address if below == "." else f"{address}/{below}"


def _fetch(files: list[Entry], staging: str, repository: HubRepository, on_files: Callable[[int, int], None]) -> None:
    """Fetch *files* into *staging*; what an earlier call has fetched of the same content is not fetched again."""
    with ThreadPoolExecutor(JOBS) as threads:
        for number, _ in enumerate(threads.map(lambda file: repository.fetch(file, staging), files)):
            on_files(number + 1, len(files))
