"""The runs below directories and addresses as they are now: their rows, their curves, and what changes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toyspec.errors import StreamError
from toyspec.reading.log_detection import DialectChoice
from toyspec.runs.rows import encodable, row_of, unreadable_row
from toyspec.system_calls import is_locked
from toyspec.view.changes import Changes
from toyspec.view.curve_store import CurveStore, KeptCurves
from toyspec.view.entries import Entry
from toyspec.view.identities import identity_at
from toyspec.view.live_curves import LiveCurves
from toyspec.view.roots import roots_of
from toyspec.view.run_files import RunFile
from toyspec.view.scanning import Scanned, Work, Workers, quick_row, scan_stream
from toyspec.view.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from toyspec.runs.discovery import Stream
    from toyspec.view.curve_store import StoredCurves
    from toyspec.view.identities import Identity
    from toyspec.view.roots import Root

# A run that has not changed for so long is found by the search alone.
_HOT_SECONDS = 120.0
_MOST_LIVE = 32
_MOST_REMOVED = 10_000
_MOST_KEPT_BYTES = 8 << 20
_SCAN_WAIT_SECONDS = 300.0


class Catalog:
    """All runs below *roots*, which are read as ``roots_of`` does. Its methods may be called by any thread."""

    def __init__(
        self,
        *roots: str,
        store: CurveStore | None = None,
        dialect: DialectChoice | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.roots = roots_of(roots)
        self.store = store or CurveStore()
        self.dialect = dialect or DialectChoice()
        self._clock = clock
        self._workers = Workers(self.store.directory, self.dialect)
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._by_path: dict[str, Entry] = {}
        self._foreign: dict[str, str] = {}
        self._revision = 1
        self._removed: deque[tuple[int, str]] = deque(maxlen=_MOST_REMOVED)
        self._forgotten = 0
        self._pending: dict[str, Future[Any]] = {}
        self._live: OrderedDict[str, Entry] = OrderedDict()
        self._kept = KeptCurves(_MOST_KEPT_BYTES)
        self._is_submitting = False
        self.changes = Changes(self._lock)
        self._watches = [Watch(root, self, clock) for root in self.roots]
        self._is_started = False

    # What is below the roots.

    def start(self) -> None:
        """Find the runs, begin to scan those that the cache does not know, and watch for changes until ``close``."""
        for watch in self._watches:
            known = self.store.load_rows(watch.root.real)
            watch.walk()
            with self._lock:
                for entry in self._of(watch.root):
                    identity, row = known.get(entry.path, (None, None))
                    if row is not None and identity == entry.identity:
                        entry.row, entry.row_identity = row | {"id": encodable(entry.run)}, identity
        with self._lock:
            self._is_started = True
            unknown = [entry for entry in self._entries.values() if entry.row is None]
        self._learn(unknown)
        for watch in self._watches:
            watch.start()

    def close(self) -> None:
        """Stop watching and scanning, keep the rows, and close every file."""
        self.changes.close()
        for watch in self._watches:
            watch.join()
        self._workers.close()
        self._save()
        with self._lock:
            for entry in self._entries.values():
                if entry.file is not None:
                    entry.file.close()
        self.store.trim()
        self.store.close()

    def _of(self, root: Root) -> list[Entry]:
        return [entry for entry in self._entries.values() if entry.root is root]

    def _save(self) -> None:
        for root in self.roots:
            with self._lock:
                rows = {
                    entry.path: (entry.row_identity, entry.row)
                    for entry in self._of(root)
                    if entry.row is not None and entry.row_identity is not None and not entry.reads_ends
                }
            self.store.save_rows(root.real, rows)

    def _learn(self, entries: Sequence[Entry]) -> None:
        """Begin to read *entries*, which have no row yet."""
        glanced = [entry.work() for entry in entries if entry.reads_ends]
        if glanced:
            self._workers.glance(glanced, self._take_scanned)
        self._scan([entry.work() for entry in entries if not entry.reads_ends])

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
                    self._foreign[result.path] = entry.version
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
                if not entry.is_large
                and entry.row is not None and entry.row["findings"] is None and entry.row["state"] != "running"
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

    def _is_hot(self, entry: Entry) -> bool:
        is_running = entry.row is not None and entry.row["state"] == "running"
        return is_running or (entry.changed_at > 0 and self._clock() - entry.changed_at < _HOT_SECONDS)

    def hot(self, root: Root) -> list[Entry]:
        """Return the runs below *root* that may be written now."""
        with self._lock:
            return [entry for entry in self._of(root) if self._is_hot(entry)]

    def look(self, entry: Entry, identity: Identity) -> None:
        """Take in that the stream of *entry* has *identity* now."""
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

    def take_found(self, root: Root, found: Mapping[str, Stream], *, is_whole: bool) -> None:
        """Take in the streams that a search below *root* has *found*; only a *whole* one tells which are gone."""
        new = []
        with self._lock:
            for entry in self._of(root) if is_whole else ():
                if entry.path not in found:
                    self._forget(entry)
            for path, stream in found.items():
                known = self._by_path.get(path)
                if known is None and self._foreign.get(path) != stream.version:
                    new.append(self._add(root, stream))
                elif known is not None and known.root is root and known.version != stream.version:
                    known.version = stream.version
                    self.look(known, identity_at(path))
        if new and self._is_started:
            self._learn(new)

    def _add(self, root: Root, stream: Stream) -> Entry:
        entry = Entry(self._run_of(root, stream.path), root, stream)
        self._entries[entry.run] = self._by_path[stream.path] = entry
        self._revision += 1
        entry.revision = self._revision
        if self._is_started:
            entry.changed_at = self._clock()
            self.changes.add({"added": encodable(entry.run)})
        return entry

    def _run_of(self, root: Root, path: str) -> str:
        """Return the id of a run: its place below the root, after the name of the root where there are several."""
        for whole in (False, True):
            place = root.place_of(path, whole=whole)
            if len(self.roots) > 1:
                place = root.name if place == "." else f"{root.name}/{place}"
            if place not in self._entries:
                break
        return place

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
            # A store answers slowly: a row comes when it has.
            chosen = [each for each in chosen if each.row is not None or not each.root.is_remote]
            removed = [run for revision, run in self._removed if begin is not None and revision > begin]
            revision = self._revision
        rows = [self.row(entry) for entry in chosen]
        if len(self.roots) > 1:
            rows = [row | {"root": encodable(entry.root.name)} for entry, row in zip(chosen, rows, strict=True)]
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
        if entry.reads_ends:
            return self._glanced(entry)
        return self._follow(entry)

    def _glanced(self, entry: Entry) -> dict[str, Any]:
        """Read the ends of the stream of *entry* again and return its row."""
        identity = entry.identity
        row = quick_row(entry.work(), self.dialect)
        with self._lock:
            entry.row, entry.row_identity = row, identity
        return row

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
                self.look(entry, identity)
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

    def want(self, entries: Sequence[Entry]) -> None:
        """Begin to read those large objects whose curves will be asked for, several at a time."""
        with self._lock:
            wanted = [entry for entry in entries if entry.reads_ends]
            for entry in wanted:
                entry.reads_ends = False
        if unknown := [entry.work() for entry in wanted if self._stored(entry) is None]:
            self._scan(unknown)

    def curves(self, entry: Entry) -> StoredCurves | LiveCurves | None:
        """Return the curves of a run as it is now; None if it cannot be read. It may wait for a scan."""
        self.want([entry])
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
            kept = self._kept.find(entry.path, entry.identity)
        if kept is not None:
            return kept
        found = self.store.load(entry.path, entry.identity)
        if found is None:
            return None
        with self._lock:
            self._kept.keep(entry.path, found)
        return found

    def _scanned(self, entry: Entry) -> StoredCurves | None:
        result = scan_stream(entry.work(), self.store, self.dialect)
        with self._lock:
            entry.identity = result.identity
            if result.row is not None:
                entry.row, entry.row_identity = result.row, result.identity
        return self.store.load(entry.path, result.identity)
