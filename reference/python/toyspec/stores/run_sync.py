"""Brings one run in step with its place: side files, streams, sidecars, and its seal last; says what became of it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from toyspec.core.errors import PlaceError, StreamError, StreamMissingError
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.places.addresses import path_in
from toyspec.core.places.place import ChangedError, Entry, MalformedAnswerError
from toyspec.core.reading.live_stream import Identity, identity_of
from toyspec.core.reading.sealed_files import parse_seal_line
from toyspec.core.system_calls import cause_of, is_locked
from toyspec.stores.run_files import BundleFile, Extent, files_to_send, kept_name
from toyspec.stores.transfers import (
    LocalFile,
    Relation,
    ShortenedError,
    ends_of,
    has_digest_of,
    relation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.stores.transfers import Target

_ATTEMPTS = 4
# A stream that is sent whole each time costs at most so many bytes a second.
_WHOLE_BYTES_PER_SECOND = 1 << 16

Outcome = Literal["same", "sent", "waiting", "ahead", "conflict", "failed"]
"""Same: nothing was to do. Sent: the place has all of the run now. Waiting: less than that, more is sent later.
Ahead: the place has more than the folder. Conflict: the place has another run there. Failed: the fact says why."""

LEFT: frozenset[Outcome] = frozenset(["ahead", "conflict", "failed"])
"""The outcomes after which something is left to do for a person."""


class RunResult(msgspec.Struct, kw_only=True):
    """What became of one run."""

    run: str
    """Path of its directory."""
    address: str
    """Where it is in the place."""
    outcome: Outcome = "same"
    facts: list[str] = []
    """What a person has to know."""
    files: int = 0
    """Number of files that were sent."""
    sent: int = 0
    """Number of bytes that were sent."""
    fragment: int = 0
    """Number of bytes after the last committed line, which stay here."""
    is_ended: bool = False
    """Whether the last record is a run_end."""
    is_live: bool = False
    """Whether a writer has the stream open, where the system tells."""


class SyncReport(msgspec.Struct, kw_only=True):
    """What became of all runs."""

    root: str
    address: str
    runs: list[RunResult]
    passed_over: int = 0
    """Number of objects of the place that are of none of the runs, as far as it was listed; they do not change."""
    example: str = ""
    """The address of the first one."""

    def count(self, *outcomes: Outcome) -> int:
        """Return the number of runs with one of *outcomes*."""
        return sum(run.outcome in outcomes for run in self.runs)


_RANK: dict[Outcome, int] = {"same": 0, "sent": 1, "waiting": 2, "ahead": 3, "conflict": 4, "failed": 5}

Pace = Literal["due", "all"]
"""Whether a stream that would be sent again whole may wait until it has grown."""


class SyncSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent, and when."""

    extent: Extent = "logs"
    on_conflict: Literal["leave", "keep both"] = "leave"
    """Whether an object of another run stays, or gets another name before it is replaced."""
    max_delay: float | None = None
    """Most seconds for which a stream that is sent whole waits; None where only its bytes decide."""


class _Known(NamedTuple):
    """A file and its object when they were last compared."""

    entry: Entry
    signature: Identity
    stop: int
    ends: bytes
    """The ends of what both had."""
    at: float

    @property
    def is_whole(self) -> bool:
        return self.entry.size == self.stop


class RunSync:
    """One run and its place. What it remembers saves requests only; a new one finds out the same."""

    def __init__(
        self,
        directory: str,
        address: str,
        target: Target,
        settings: SyncSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.address = address
        self._target = target
        self._settings = settings
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._objects: dict[str, Entry] = {}
        self._is_listed = False
        self._pace: Pace = "all"
        self._fragments: dict[str, int] = {}
        self._result = RunResult(run=directory, address=address)

    def bring(self, pace: Pace, objects: dict[str, Entry] | None = None) -> RunResult:
        """Send what is missing and return what became of it; nothing is raised.

        *objects* is what the place has of the run, by name, where the caller has listed it.
        """
        earlier, self._pace = self._result, pace
        self._result = RunResult(run=self.directory, address=self.address, is_ended=earlier.is_ended)
        try:
            if objects is not None or not self._is_listed:
                self._objects, self._is_listed = self._listed() if objects is None else objects, True
            for file in files_to_send(self.directory, self._settings.extent):
                self._bring_file(file)
                if self._result.outcome == "conflict":
                    break
        except (OSError, StreamError) as error:
            self._note("failed", cause_of(error))
        self._result.fragment = sum(self._fragments.values())
        return self._result

    def _listed(self) -> dict[str, Entry]:
        start = len(self.address) + 1
        return {entry.address[start:]: entry for entry in self._target.entries(self.address)}

    def _bring_file(self, file: BundleFile) -> None:
        path = os.path.join(self.directory, file.name)
        if file.kind == "stream" and is_locked(path):
            self._result.is_live = True
        known = self._known.get(file.name)
        if known is not None and known.is_whole and known.signature == _signature(path):
            return
        try:
            with LocalFile(path, lines=file.grows) as opened:
                if file.kind == "stream":
                    self._fragments[file.name] = opened.size - opened.stop
                if file.name == EVENTS_FILE:
                    self._result.is_ended = _is_end(opened.last_line())
                if file.kind != "seal" or self._may_seal(opened):
                    self._bring_opened(file, opened)
        except (StreamMissingError, ShortenedError):
            # The next pass sees what has become of it.
            self._note("waiting")

    def _bring_opened(self, file: BundleFile, opened: LocalFile) -> None:
        is_log = file.grows or file.kind == "side file"
        cause = "another program changes it all the time; end one of the two"
        for attempt in range(_ATTEMPTS):
            try:
                entry, found = self._compared(file, opened, is_fresh=attempt > 0)
                if is_log and entry is not None:
                    self._continue_log(file, opened, entry, found)
                elif found != "same" or entry is None:
                    self._send(file, opened, entry)
            except ChangedError:
                # Another program was faster: what it has made is compared like anything else.
                self._known.pop(file.name, None)
            except MalformedAnswerError as error:
                # The request may have been done: what is there decides what is left to send.
                self._known.pop(file.name, None)
                cause = cause_of(error)
            else:
                return
        self._note("failed", f"{file.name}: {cause}")

    def _compared(self, file: BundleFile, opened: LocalFile, *, is_fresh: bool) -> tuple[Entry | None, Relation]:
        """Return the object of *file*, None without one, and how it is to it; *is_fresh* asks the place again."""
        known = self._known.get(file.name)
        # It still begins with what it had when it was last compared.
        if known and opened.stop >= known.entry.size and known.ends == ends_of(opened, known.entry.size):
            return known.entry, "same" if known.entry.size == opened.stop else "behind"
        entry = self._objects.get(file.name)
        if is_fresh or known is not None:
            entry = self._status(file.name)
        if entry is None:
            return None, "behind"
        if has_digest_of(entry, opened):
            self._remember(file.name, opened, entry)
            return entry, "same"
        if entry.size != opened.stop and file.kind in ("media", "sidecar", "seal"):
            return entry, "other"
        found = relation(opened, entry, self._target)
        if found in ("same", "behind"):
            self._remember(file.name, opened, entry)
        return entry, found

    def _status(self, name: str) -> Entry | None:
        try:
            self._objects[name] = self._target.status(path_in(self.address, name))
        except FileNotFoundError:
            self._objects.pop(name, None)
        return self._objects.get(name)

    def _continue_log(self, file: BundleFile, opened: LocalFile, entry: Entry, found: Relation) -> None:
        if found == "same":
            return
        if found == "ahead":
            more = entry.size - opened.stop
            self._note("ahead", f"its {file.name} has {more} bytes more than the source, and stays")
        elif found == "behind":
            if self._is_due(file.name, opened):
                self._send(file, opened, entry, shared=entry.size)
            else:
                self._note("waiting")
        else:
            self._replace_log(file, opened, entry)

    def _replace_log(self, file: BundleFile, opened: LocalFile, entry: Entry) -> None:
        """Put another log in the place of *entry*, if that is known to be an earlier one of this folder."""
        if not self._is_in_side_file(entry):
            known = self._known.get(file.name)
            is_ours = known is not None and known.entry.identity == entry.identity
            if not is_ours and self._settings.on_conflict == "leave":
                whose = "has other lines" if file.kind == "annotations" else "is of another run"
                self._note("conflict", f"its {file.name} {whose}; use another place, or --keep-both")
                return
            self._keep(file.name, entry)
        self._send(file, opened, entry)

    def _keep(self, name: str, entry: Entry) -> None:
        kept = kept_name(name, entry)
        # The name says what it is: one that is there was kept before.
        if self._status(kept) is None:
            self._copy(entry, path_in(self.address, kept))
        self._note("sent", f"its {name} was another one; it is kept as {kept}")

    def _copy(self, entry: Entry, address: str) -> None:
        # What is known of the log stays: without it, an earlier log of this folder looks like one of another run.
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._target.copy(entry, address)
            except MalformedAnswerError as error:
                if attempt == _ATTEMPTS:
                    raise PlaceError(address, cause_of(error)) from None
            else:
                return

    def _is_in_side_file(self, entry: Entry) -> bool:
        """Return whether a side file that the place has begins with the bytes of the log *entry*."""
        for file in files_to_send(self.directory, "logs"):
            known = self._known.get(file.name)
            if file.kind != "side file" or known is None or not known.is_whole or known.entry.address == entry.address:
                continue
            with LocalFile(os.path.join(self.directory, file.name), lines=False) as side:
                # Under a name that a writer has just given to another file, the place still has the one before.
                is_there = side.signature == known.signature
                if is_there and relation(side, entry, self._target) in ("same", "behind"):
                    return True
        return False

    def _send(self, file: BundleFile, opened: LocalFile, known: Entry | None, *, shared: int = 0) -> None:
        """Send *opened*, of which the object *known* has the first *shared* bytes."""
        address = path_in(self.address, file.name)
        shared = shared if self._target.appends else 0
        made = self._target.put(opened, address, known, shared)
        self._result.sent += opened.stop - shared
        self._result.files += 1
        self._remember(file.name, opened, made)
        self._note("sent")

    def _is_due(self, name: str, opened: LocalFile) -> bool:
        """Return whether it is time to send more of a stream, of which a store gets all each time."""
        known = self._known.get(name)
        if self._target.appends or self._pace == "all" or self._result.is_ended or known is None:
            return True
        wait, limit = opened.stop / _WHOLE_BYTES_PER_SECOND, self._settings.max_delay
        return self._clock() - known.at >= (wait if limit is None else min(wait, limit))

    def _may_seal(self, opened: LocalFile) -> bool:
        """Return whether the place has all that the seal *opened* is of."""
        lines = map(parse_seal_line, opened.read(0, opened.stop).split(b"\n"))
        names = {os.fsdecode(line.name) for line in lines if line is not None}
        missing = {name for name in names if name not in self._known}
        if missing:
            files = "1 file that was" if len(missing) == 1 else f"{len(missing)} files that were"
            self._note("same", f"the seal was not sent: it covers {files} not sent; --all sends everything")
            return False
        return all(self._known[name].is_whole for name in names)

    def _remember(self, name: str, opened: LocalFile, entry: Entry) -> None:
        earlier = self._known.get(name)
        at = earlier.at if earlier and earlier.entry.identity == entry.identity else self._clock()
        self._objects[name] = entry
        self._known[name] = _Known(entry, opened.signature, opened.stop, ends_of(opened, entry.size), at)

    def _note(self, outcome: Outcome, fact: str | None = None) -> None:
        if _RANK[outcome] > _RANK[self._result.outcome]:
            self._result.outcome = outcome
        if fact is not None:
            self._result.facts.append(fact)


def _signature(path: str) -> Identity | None:
    try:
        return identity_of(os.stat(path))
    except OSError:
        return None


def _is_end(line: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(line, type=dict)["kind"] == "run_end")
    except (msgspec.MsgspecError, KeyError):
        return False
