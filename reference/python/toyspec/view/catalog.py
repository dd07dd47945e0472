"""The runs below a directory as they are now: their rows, their curves, and what changes."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toyspec.errors import StreamError
from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE, stream_name
from toyspec.reading.log_detection import DialectChoice, usual_names
from toyspec.runs.listing import streams_below
from toyspec.runs.rows import encodable, row_of, unreadable_row
from toyspec.system_calls import is_locked
from toyspec.view.changes import Changes
from toyspec.view.curve_store import CurveStore
from toyspec.view.live_curves import LiveCurves
from toyspec.view.run_files import RunFile
from toyspec.view.scanning import Scanned, Work, Workers, identity_at, quick_row, scan_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from toyspec.view.curve_store import Identity, StoredCurves

_POLL_SECONDS = 0.04
_IDLE_SECONDS = 0.25
_WALK_SECONDS = 1.0
_WALK_SHARE = 25
# A run that has not changed for so long is found by the search alone.
_HOT_SECONDS = 120.0
_MOST_LIVE = 32
_MOST_REMOVED = 10_000
_MOST_KEPT_BYTES = 8 << 20
_SCAN_WAIT_SECONDS = 300.0


class Entry:
    """One run and what is known of it."""

    def __init__(self, run: str, path: str, identity: Identity) -> None:
        self.run = run
        self.path = path
        self.identity = identity
        """That of the stream when it was last looked at."""
        self.row: dict[str, Any] | None = None
        self.row_identity: Identity | None = None
        """That of the stream when the row was made; None for a row of its ends only."""
        self.revision = 0
        self.changed_at = 0.0
        self.file: RunFile | None = None
        self.lock = threading.Lock()

    def work(self) -> Work:
        """Return what there is to scan."""
        return Work(self.path, self.run, self.identity[2])


class Catalog:
    """All runs below *root*. Its methods may be called by any thread."""

    def __init__(
        self,
        root: str,
        *,
        store: CurveStore | None = None,
        dialect: DialectChoice | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = root
        self.real_root = os.path.realpath(root)
        self.store = store or CurveStore()
        self.dialect = dialect or DialectChoice()
        self._clock = clock
        self._workers = Workers(self.store.directory, self.dialect)
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._by_path: dict[str, Entry] = {}
        self._foreign: dict[str, Identity] = {}
        self._revision = 1
        self._removed: deque[tuple[int, str]] = deque(maxlen=_MOST_REMOVED)
        self._forgotten = 0
        self._pending: dict[str, Future[Any]] = {}
        self._live: OrderedDict[str, Entry] = OrderedDict()
        self._kept: OrderedDict[str, StoredCurves] = OrderedDict()
        self._is_submitting = False
        self.changes = Changes(self._lock)
        self._next_walk = 0.0
        self._thread: threading.Thread | None = None

    # What is below the root.

    def start(self) -> None:
        """Find the runs, begin to scan those that the cache does not know, and watch for changes until ``close``."""
        known = self.store.load_rows(self.real_root)
        self._walk()
        with self._lock:
            for entry in self._entries.values():
                identity, row = known.get(entry.path, (None, None))
                if row is not None and identity == entry.identity:
                    entry.row, entry.row_identity = row | {"id": encodable(entry.run)}, identity
            unknown = [entry.work() for entry in self._entries.values() if entry.row is None]
        if unknown:
            self._scan(unknown)
        else:
            self._check_all()
        self._thread = threading.Thread(target=self._watch, name="toyspec-view-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching and scanning, keep the rows, and close every file."""
        self.changes.close()
        if self._thread is not None:
            self._thread.join()
        self._workers.close()
        self._save()
        with self._lock:
            for entry in self._entries.values():
                if entry.file is not None:
                    entry.file.close()
        self.store.trim()
        self.store.close()

    def _save(self) -> None:
        with self._lock:
            rows = {
                entry.path: (entry.row_identity, entry.row)
                for entry in self._entries.values()
                if entry.row is not None and entry.row_identity is not None
            }
        self.store.save_rows(self.real_root, rows)

    def _scan(self, works: Sequence[Work]) -> None:
        with self._lock:
            self._is_submitting = True
            futures = self._workers.scan(works, self._take_scanned)
            self._pending |= {path: future for path, future in futures.items() if not future.done()}
            self._is_submitting = False
            is_done = not self._pending
        if is_done:
            self._check_all()

    def _take_scanned(self, results: Sequence[Scanned]) -> None:
        with self._lock:
            for result in results:
                self._pending.pop(result.path, None)
                entry = self._by_path.get(result.path)
                if entry is None:
                    continue
                if result.row is None:
                    self._forget(entry)
                    self._foreign[result.path] = result.identity
                elif entry.file is None:
                    self._set_row(entry, result.row, result.identity)
            is_done = not self._is_submitting and not any(not future.done() for future in self._pending.values())
        if is_done:
            self._check_all()

    def _check_all(self) -> None:
        """Count the findings of every run that has none counted and is not being written."""
        with self._lock:
            works = [
                entry.work()
                for entry in self._entries.values()
                if entry.row is not None and entry.row["findings"] is None and entry.row["state"] != "running"
                and entry.row["message"] is None
            ]  # fmt: skip
        if not works:
            self._workers.rest()
            self._save()
            return
        futures = self._workers.check(works, self._take_findings)
        for future in futures[-1:]:
            future.add_done_callback(lambda _: threading.Thread(target=self._rest, daemon=True).start())

    def _take_findings(self, results: Sequence[tuple[str, Any]]) -> None:
        with self._lock:
            for path, counts in results:
                entry = self._by_path.get(path)
                if entry is not None and entry.row is not None and entry.row_identity is not None:
                    self._set_row(entry, entry.row | {"findings": counts}, entry.row_identity)

    def _rest(self) -> None:
        self._workers.rest()
        self._save()

    def _set_row(self, entry: Entry, row: dict[str, Any], identity: Identity | None) -> None:
        entry.row, entry.row_identity = row, identity
        self._revision += 1
        entry.revision = self._revision
        self.changes.add({"run": encodable(entry.run), "bytes": row["bytes"]})

    def _forget(self, entry: Entry) -> None:
        self._entries.pop(entry.run, None)
        self._by_path.pop(entry.path, None)
        self._live.pop(entry.run, None)
        if entry.file is not None:
            entry.file.close()
        self._revision += 1
        if len(self._removed) == _MOST_REMOVED:
            self._forgotten = self._removed[0][0]
        self._removed.append((self._revision, encodable(entry.run)))
        self.changes.add({"removed": encodable(entry.run)})

    # Watching.

    def _watch(self) -> None:
        while True:
            began = self._clock()
            with suppress(OSError):
                self._poll()
                if began >= self._next_walk:
                    self._walk()
                    spent = self._clock() - began
                    self._next_walk = self._clock() + max(_WALK_SECONDS, _WALK_SHARE * spent)
            with self._lock:
                is_hot = any(self._is_hot(entry) for entry in self._entries.values())
            if self.changes.pause(_POLL_SECONDS if is_hot else _IDLE_SECONDS):
                return

    def _is_hot(self, entry: Entry) -> bool:
        is_running = entry.row is not None and entry.row["state"] == "running"
        return is_running or (entry.changed_at > 0 and self._clock() - entry.changed_at < _HOT_SECONDS)

    def _poll(self) -> None:
        """Look at the sizes of the runs that change."""
        with self._lock:
            hot = [entry for entry in self._entries.values() if self._is_hot(entry)]
        for entry in hot:
            self._look(entry, identity_at(entry.path))

    def _look(self, entry: Entry, identity: Identity) -> None:
        is_unlocked = self._was_running(entry) and not is_locked(entry.path)
        if identity == entry.identity and not is_unlocked:
            return
        with self._lock:
            entry.identity = identity
            entry.changed_at = self._clock()
            if is_unlocked:
                entry.row_identity = None
            self._revision += 1
            entry.revision = self._revision
            self.changes.add({"run": encodable(entry.run), "bytes": identity[2]})

    def _was_running(self, entry: Entry) -> bool:
        return entry.row is not None and entry.row["state"] == "running" and entry.row_identity is not None

    def _walk(self) -> None:
        """Find the runs below the root, those that are new and those that are gone."""
        _, streams = streams_below([self.root], usual_names(self.dialect))
        found = {stream.path: stream for stream in streams if self._is_inside(stream.path)}
        new = []
        with self._lock:
            for path in [path for path in self._by_path if path not in found]:
                self._forget(self._by_path[path])
            for path in found:
                identity = identity_at(path)
                entry = self._by_path.get(path)
                if entry is not None:
                    self._look(entry, identity)
                elif self._foreign.get(path) != identity:
                    new.append(self._add(path, identity))
        if new and self._thread is not None:
            self._scan([entry.work() for entry in new])

    def _add(self, path: str, identity: Identity) -> Entry:
        run = self._run_of(path)
        entry = Entry(run, path, identity)
        self._entries[run] = self._by_path[path] = entry
        self._revision += 1
        entry.revision = self._revision
        if self._thread is not None:
            entry.changed_at = self._clock()
            self.changes.add({"added": encodable(run)})
        return entry

    def _is_inside(self, path: str) -> bool:
        """Return whether the file at *path* is below the root, wherever links lead."""
        if not os.path.islink(path):
            return True
        real = os.path.realpath(path)
        return real == self.real_root or real.startswith(os.path.join(self.real_root, ""))

    def _run_of(self, path: str) -> str:
        is_bundle = stream_name(os.path.basename(path)) in (EVENTS_FILE, METRICS_FILE)
        place = os.path.dirname(path) if is_bundle else path
        if os.path.isfile(self.root):
            return "."
        relative = os.path.relpath(place or ".", self.root)
        run = relative.replace(os.sep, "/")
        return run if run not in self._entries else os.path.relpath(path, self.root).replace(os.sep, "/")

    # What requests need.

    def entry(self, run: str) -> Entry | None:
        """Return the entry of the run whose id is *run*."""
        with self._lock:
            entry = self._entries.get(run)
            if entry is None and "\\" in run:
                entry = next((each for each in self._entries.values() if encodable(each.run) == run), None)
            return entry

    def listing(self, since: str | None = None) -> dict[str, Any]:
        """Return every row, or those that changed after the revision *since* and the ids of the runs that are gone."""
        with self._lock:
            begin = int(since) if since is not None and since.isdecimal() and len(since) < 20 else None
            is_known = begin is not None and self._forgotten <= begin <= self._revision
            chosen = [each for each in self._entries.values() if not is_known or each.revision > (begin or 0)]
            removed = [run for revision, run in self._removed if begin is not None and revision > begin]
            revision = self._revision
        rows = [self.row(entry) for entry in chosen]
        answer: dict[str, Any] = {"revision": str(revision), "complete": not is_known, "runs": rows}
        return answer | ({"removed": removed} if is_known else {})

    def row(self, entry: Entry) -> dict[str, Any]:
        """Return the row of a run as it is now."""
        if entry.row is not None and entry.row_identity == entry.identity:
            return entry.row
        if entry.file is None and entry.path in self._pending:
            quick = entry.row or quick_row(entry.work(), self.dialect)
            with self._lock:
                # The scan may have ended meanwhile, and its row says more.
                entry.row = entry.row or quick
            return entry.row
        return self._follow(entry)

    def _follow(self, entry: Entry) -> dict[str, Any]:
        """Read what is new in the stream of *entry* and return its row."""
        with entry.lock:
            identity = identity_at(entry.path)
            try:
                if entry.file is None:
                    entry.file = RunFile(entry.path, self.dialect)
                entry.file.read()
                row = row_of(entry.file.scan.summary, entry.run, metrics_left_out=entry.file.scan.metrics_left_out)
                identity = entry.file.identity()
            except (StreamError, OSError) as error:
                fact = error.fact if isinstance(error, StreamError) else str(error.strerror or error)
                row = unreadable_row(entry.run, fact, identity[2])
            findings = entry.row["findings"] if entry.row is not None else None
            with self._lock:
                entry.row, entry.row_identity = row | {"findings": findings}, identity
                self._look(entry, identity)
        self._keep_live(entry)
        return entry.row

    def _keep_live(self, entry: Entry) -> None:
        with self._lock:
            self._live[entry.run] = entry
            self._live.move_to_end(entry.run)
            while len(self._live) > _MOST_LIVE:
                _, oldest = self._live.popitem(last=False)
                if oldest.lock.acquire(blocking=False):
                    if oldest.file is not None:
                        oldest.file.close()
                    oldest.file = None
                    oldest.lock.release()

    def curves(self, entry: Entry) -> StoredCurves | LiveCurves | None:
        """Return the curves of a run as it is now; None if it cannot be read. It may wait for a scan."""
        future = self._pending.get(entry.path)
        if future is not None and entry.file is None:
            with suppress(Exception):
                future.result(timeout=_SCAN_WAIT_SECONDS)
        if entry.file is None:
            stored = self._stored(entry)
            if stored is not None:
                return stored
            if not self._is_hot(entry):
                return self._scanned(entry)
        self._follow(entry)
        return None if entry.file is None else LiveCurves(entry.file, entry.lock)

    def _stored(self, entry: Entry) -> StoredCurves | None:
        with self._lock:
            kept = self._kept.get(entry.path)
            if kept is not None and kept.identity == entry.identity:
                self._kept.move_to_end(entry.path)
                return kept
        found = self.store.load(entry.path, entry.identity)
        if found is None:
            return None
        with self._lock:
            self._kept[entry.path] = found
            while sum(each.size for each in self._kept.values()) > _MOST_KEPT_BYTES:
                self._kept.popitem(last=False)
        return found

    def _scanned(self, entry: Entry) -> StoredCurves | None:
        result = scan_stream(entry.work(), self.store, self.dialect)
        with self._lock:
            entry.identity = result.identity
            if result.row is not None:
                entry.row, entry.row_identity = result.row, result.identity
        return self.store.load(entry.path, result.identity)
