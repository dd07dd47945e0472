"""Sends the runs below a directory to a repository or bucket, each with an event file for the page of metrics there."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import msgspec

from toyspec.convert import export_runs
from toyspec.core.errors import PlaceError
from toyspec.core.places.place import ChangedError
from toyspec.core.reading.run_files import files_of
from toyspec.stores.hub.repository import HubRepository
from toyspec.stores.run_sync import SyncReport, SyncSettings
from toyspec.stores.syncing import Syncing
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.findings import PathError
    from toyspec.stores.hub.locations import HubLocation
    from toyspec.stores.run_sync import RunResult

_ATTEMPTS = 4
_LIVELY = "another program changes it all the time; call it again later"


class PushSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, and how."""

    sync: SyncSettings = SyncSettings()
    has_event_files: bool = True
    creates: bool = False
    """Whether a repository or bucket that is not there is created."""
    is_public: bool = False
    """Whether everybody may see one that is created."""
    message: str = ""
    """Of each commit; empty for one that says how many runs it has."""


class PushReport(SyncReport, kw_only=True):
    """What became of all runs; also what ``toyspec push --json`` prints."""

    page: str
    """The address of the page of the repository or bucket on the web."""
    commits: int = 0
    """Number of commits, or of batches of a bucket."""
    event_files: int = 0
    """Number of event files of TensorBoard that were sent."""
    not_exported: list[PathError] = msgspec.field(default_factory=list)
    """Runs of which no event file could be made, and why."""


def push(
    root: str,
    to: HubLocation,
    settings: PushSettings,
    *,
    on_result: Callable[[RunResult, int, int], None] | None = None,
    on_files: Callable[[int, int], None] = lambda *_: None,
) -> PushReport:
    """Send what the runs below *root* have and *to* lacks, and return what became of each.

    *on_result* gets each result of the comparison, and *on_files* the number of files that are there so far, and of
    all. Raises PlaceError; what was committed before stays, and another call goes on.
    """
    with tempfile.TemporaryDirectory(prefix="toyspec-push-") as scratch:
        repository = HubRepository(to, scratch)
        repository.require_token()
        if settings.creates and not settings.sync.is_rehearsal:
            repository.create(is_public=settings.is_public)
        for _ in range(_ATTEMPTS):
            repository.open()
            syncing = Syncing(root, to.address, settings.sync, target=repository)
            found = syncing.once(on_result=on_result)
            report = PushReport(**msgspec.structs.asdict(found), page=repository.page)
            if settings.has_event_files and not settings.sync.is_rehearsal:
                _add_event_files(report, repository, scratch)
            try:
                if not settings.sync.is_rehearsal:
                    message = settings.message or _message(report)
                    report.commits = repository.commit(message, [run.address for run in report.runs], on_files)
            except ChangedError:
                # What is there now decides what is left to send.
                continue
            return report
    raise PlaceError(to.root, _LIVELY)


def _message(report: SyncReport) -> str:
    sent = report.count("sent")
    return f"Send {'1 run' if sent == 1 else f'{sent} runs'} with toyspec {__version__}"


def _add_event_files(report: PushReport, repository: HubRepository, scratch: str) -> None:
    """Stage the event file of each run whose log is there now, where that is another one than is there already."""
    for run in report.runs:
        if run.outcome not in ("sent", "same") or (run.outcome == "same" and _has_event_file(run, repository)):
            continue
        made = tempfile.mkdtemp(dir=scratch)
        report.not_exported += export_runs("tensorboard", [run.run], made).errors
        for file in files_of(made, "all"):
            address = f"{run.address}/{os.path.basename(file.path)}"
            if not _is_there(file.path, address, repository):
                repository.put_file(file.path, address)
                report.event_files += 1
                run.files += 1
                run.sent += file.size
                run.outcome = "sent"


def _has_event_file(run: RunResult, repository: HubRepository) -> bool:
    """Return whether the repository has an event file of exactly this log: one commit has both, but not in a bucket."""
    start = f"{run.address}/events.out.tfevents."
    return bool(repository.head) and any(e.address.startswith(start) for e in repository.entries(run.address))


def _is_there(path: str, address: str, repository: HubRepository) -> bool:
    try:
        return repository.is_copy(path, repository.status(address))
    except FileNotFoundError:
        return False
