"""Brings all runs below a directory in step with a place, once, or until it is stopped."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from errno import EACCES
from typing import TYPE_CHECKING, cast

from toyspec.core.errors import PlaceError
from toyspec.core.places.addresses import BUCKETS, is_address, is_nearly_address, parts_of, public
from toyspec.core.places.place import place_of
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.stores.run_files import run_above
from toyspec.stores.run_sync import RunResult, RunSync, SyncReport, SyncSettings

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from toyspec.core.places.place import Entry
    from toyspec.stores.object_stores import ObjectPlace
    from toyspec.stores.run_sync import Pace
    from toyspec.stores.transfers import Target

    OnResult = Callable[[RunResult, int, int], None]

# Runs that are sent at the same time: most of it is waiting for the place.
_JOBS = 8


class Syncing:
    """The runs below a directory and their place."""

    def __init__(self, root: str, to: str, settings: SyncSettings) -> None:
        """Write to the place of *to*; raise PlaceError where that has no conditions."""
        self.root = root
        self.address = destination_of(to)
        self._target = target_of(self.address)
        self._settings = settings
        self._runs: dict[str, RunSync] = {}

    def once(self, pace: Pace = "all", on_result: OnResult | None = None) -> SyncReport:
        """Send what is missing of every run; raise OSError where the place cannot be listed.

        *on_result* gets each result, their number so far, and the number of runs.
        """
        found = self._found()
        report = SyncReport(root=self.root, address=self.address, runs=[])
        new = {directory: address for directory, address in found.items() if directory not in self._runs}
        listed = self._listed(new, report) if new else {}
        for directory, address in new.items():
            self._runs[directory] = RunSync(directory, address, self._target, self._settings)
        with ThreadPoolExecutor(_JOBS) as threads:
            for result in threads.map(lambda run: self._runs[run].bring(pace, listed.get(run)), found):
                report.runs.append(result)
                if on_result is not None:
                    on_result(result, len(report.runs), len(found))
        return report

    def watch(self, over: threading.Event, every: float, on_pass: Callable[[SyncReport], None]) -> None:
        """Send what is missing *every* so many seconds, until *over* is set, or a single run has ended and was sent.

        *on_pass* gets the report of each pass. The last one sends all that is there. A place that cannot be listed is
        waited for; one that refuses the first list raises PlaceError.
        """
        report = self._passed("all", is_first=True)
        on_pass(report)
        while not self._is_done(report):
            is_over = over.wait(every)
            report = self._passed("all" if is_over else "due")
            on_pass(report)
            if is_over:
                break

    def _passed(self, pace: Pace, *, is_first: bool = False) -> SyncReport:
        """Return the report of a pass, which says why the place could not be listed."""
        try:
            return self.once(pace)
        except PlaceError as error:
            if is_first and error.errno == EACCES:
                raise
            runs = [
                RunResult(run=run, address=address, outcome="failed", facts=[str(error)])
                for run, address in self._found().items()
            ]
            return SyncReport(root=self.root, address=self.address, runs=runs)

    def _is_done(self, report: SyncReport) -> bool:
        runs = report.runs
        is_single = len(runs) == 1 and runs[0].address == self.address
        # Other ranks may end after the first one.
        is_over = is_single and runs[0].is_ended and not runs[0].is_live
        return is_over and runs[0].outcome in ("same", "sent", "ahead", "conflict")

    def _found(self) -> dict[str, str]:
        """Return the address of each run by its directory."""
        found = {}
        for stream in find_streams(self.root):
            if isinstance(stream, Stream):
                directory = os.path.dirname(stream.path) or "."
                below = os.path.relpath(directory, self.root).replace(os.sep, "/")
                found[directory] = self.address if below == "." else f"{self.address}/{below}"
        return found

    def _listed(self, runs: dict[str, str], report: SyncReport) -> dict[str, dict[str, Entry]]:
        """Return the objects of each of *runs*; others are passed over in pages, counted in *report*, and not kept."""
        if len(runs) < len(self._runs):
            # A few that have come since: each is listed by itself.
            return {}
        by_address = {address: directory for directory, address in runs.items()}
        found: dict[str, dict[str, Entry]] = {directory: {} for directory in runs}
        for entry in self._target.entries(self.address):
            run = run_above(entry.address, by_address, self.address)
            if run is None:
                report.passed_over += 1
                report.example = report.example or entry.address
            else:
                found[by_address[run]][entry.address[len(run) + 1 :]] = entry
        return found


def target_of(address: str) -> Target:
    """Return the place of *address* for writing; raise PlaceError where it cannot refuse a write that is too late."""
    scheme = parts_of(address).scheme
    if scheme == "file":
        from toyspec.stores.folders import Folder

        return Folder(address)
    if scheme in BUCKETS:
        return cast("ObjectPlace", place_of(address))
    if scheme == "hf":
        raise PlaceError(address, "runs there are read only; send them with `hf upload`")
    raise PlaceError(address, f"{scheme}:// cannot be kept in step; use s3://, gs://, az:// or a directory")


def destination_of(text: str) -> str:
    """Return the address that *text* names, an address or a directory of this machine, without credentials.

    Raises PlaceError for an address with one slash: a directory of that name was hardly meant.
    """
    if is_address(text):
        return public(text)
    if is_nearly_address(text):
        raise PlaceError(text, f"an address has two slashes: {text.replace(':/', '://', 1)}; ./ before it is a path")
    return f"file://{'' if os.name == 'posix' else '/'}{os.path.abspath(text).replace(os.sep, '/')}"
