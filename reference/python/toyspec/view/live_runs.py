"""The runs below directories and addresses as they are now: their rows, their curves, and what changes."""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from toyspec.core.errors import StreamError
from toyspec.core.escaping import encodable
from toyspec.core.format.numbers import digits_of
from toyspec.core.generated.runs import TOKEN_COUNTS
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.run_files import rank_of
from toyspec.core.runs.discovery import Stream, ranks_in
from toyspec.core.system_calls import cause_of, is_locked
from toyspec.view.curve_store import CurveStore, curves_of
from toyspec.view.opened_files import identity_at
from toyspec.view.roots import roots_of, run_id
from toyspec.view.rows import unread_row, unreadable_row
from toyspec.view.scanning import Scanned, ScanWork, ScanWorkers, quick_row, row_of_work, scan_stream
from toyspec.view.scans import ScannedRun
from toyspec.view.viewed_runs import ViewedRun
from toyspec.view.watching import RootWatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from toyspec.core.reading.live_stream import Identity
    from toyspec.view.curve_store import Curves
    from toyspec.view.roots import Root


_MOST_CHANGES = 10_000


class Changes:
    """The last changes, numbered; any thread may add one or wait for more."""

    def __init__(self, lock: threading.RLock) -> None:
        """Use *lock*, which may be held when a change is added."""
        self._changed = threading.Condition(lock)
        self._listed: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_MOST_CHANGES)
        self._forgotten = 0
        self._is_closed = False
        self.number = 1
        """Number of the last change."""

    def add(self, change: dict[str, Any] | None = None) -> int:
        """Add a change, wake those who wait, and return its number; None is one that the next listing tells alone."""
        with self._changed:
            self.number += 1
            if change is not None:
                if len(self._listed) == _MOST_CHANGES:
                    self._forgotten = self._listed[0][0]
                self._listed.append((self.number, change))
                self._changed.notify_all()
            return self.number

    def close(self) -> None:
        """End every wait, and all later ones at once."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> bool:
        """Wait for *seconds*; return True at once when this is closed."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed, seconds)

    def after(self, number: int, timeout: float) -> tuple[int, list[dict[str, Any]], bool]:
        """Wait for changes after *number*; return the last number, the changes, and whether they are the last ones.

        Of several changes of one kind to one run only the last is returned.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self.number > number, timeout)
            latest = {(next(iter(each)), next(iter(each.values()))): each for at, each in self._listed if at > number}
            return self.number, list(latest.values()), self._is_closed

    def begin(self, since: str | None) -> int | None:
        """Return the number that the text *since* names; None if what changed after it is not known."""
        begin = digits_of(since or "")
        return begin if begin is not None and self._forgotten <= begin <= self.number else None

    def removed(self, begin: int) -> list[str]:
        """Return the runs that were removed after the change *begin*."""
        return [each["removed"] for number, each in self._listed if number > begin and "removed" in each]


# Streams that are open at the same time.
_MOST_OPEN = 32
# A run that has not changed for so long is found by the search alone.
_HOT_SECONDS = 120.0
_SCAN_WAIT_SECONDS = 300.0
# More than a screen shows: their ends take 30 ms.
_MOST_READ_FIRST = 100


class LiveRuns:
    """All runs below *roots*, which are read as ``roots_of`` does. Its methods may be called by any thread."""

    def __init__(
        self,
        *roots: str,
        store: CurveStore | None = None,
        dialect: DialectChoice | None = None,
    ) -> None:
        self.roots = roots_of(roots)
        self.store = store or CurveStore()
        self.dialect = dialect or DialectChoice()
        self._workers = ScanWorkers(self.store.directory, self.dialect)
        self._lock = threading.RLock()
        self._entries: dict[str, ViewedRun] = {}
        self._by_path: dict[str, ViewedRun] = {}
        self._foreign: dict[str, str] = {}
        self._pending: dict[str, Future[None]] = {}
        self._open: OrderedDict[str, ViewedRun] = OrderedDict()
        self.changes = Changes(self._lock)
        self._watches = [RootWatch(root, self) for root in self.roots]
        self._is_started = False
        self._is_shown = threading.Event()

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
                        kept = row | {"id": encodable(entry.run)}
                        entry.row, entry.row_identity = entry.with_what_is_beside(kept), identity
        with self._lock:
            self._is_started = True
            unknown = [entry for entry in self._entries.values() if entry.row is None]
        self._workers.wait_for(self._is_shown)
        self._learn(unknown)
        for watch in self._watches:
            watch.start()

    def close(self) -> None:
        """Stop watching and scanning, keep the rows, and close every file."""
        self.changes.close()
        self._is_shown.set()
        for watch in self._watches:
            watch.join()
        self._workers.close()
        self._save()
        with self._lock:
            for entry in self._entries.values():
                for each in (entry, *entry.ranks.values()):
                    if each.file is not None:
                        each.file.close()
        self.store.trim()
        self.store.close()

    def _of(self, root: Root) -> list[ViewedRun]:
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

    def _learn(self, entries: Sequence[ViewedRun]) -> None:
        """Begin to read *entries*, which have no row yet."""
        glanced = [entry.work() for entry in entries if entry.reads_ends]
        if glanced:
            self._workers.glance(glanced, self._take_scanned)
        # What was written last is looked at first.
        ordered = sorted(entries, key=_changed_at, reverse=True)
        self._scan([entry.work() for entry in ordered if not entry.reads_ends])

    def _scan(self, works: Sequence[ScanWork]) -> None:
        with self._lock:
            begun = self._workers.scan(works, self._take_scanned)
            self._pending |= begun
            for path, future in begun.items():
                future.add_done_callback(partial(self._end_scan, path))
            is_done = not self._pending
        if is_done:
            self._check_all()

    def _end_scan(self, path: str, future: Future[None]) -> None:
        """Take in that a scan has ended, also one that was cancelled or has failed."""
        with self._lock:
            if self._pending.get(path) is future:
                del self._pending[path]

    def _take_scanned(self, result: Scanned) -> None:
        with self._lock:
            self._pending.pop(result.path, None)
            is_done = not self._pending
            entry = self._by_path.get(result.path)
            if entry is not None and result.row is None:
                self._forget(entry)
                self._foreign[result.path] = entry.found.version
            elif entry is not None and result.row is not None and entry.file is None:
                self._set_row(entry, result.row, result.identity)
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
            self._save()
            return
        futures = self._workers.check(works, self._take_findings)
        for future in futures[-1:]:
            future.add_done_callback(lambda _: self._save())

    def _take_findings(self, result: tuple[str, Any]) -> None:
        path, counts = result
        with self._lock:
            entry = self._by_path.get(path)
            if entry is not None and entry.row is not None and entry.row_identity is not None:
                self._set_row(entry, entry.row | {"findings": counts}, entry.row_identity)

    def _set_row(self, entry: ViewedRun, row: dict[str, Any], identity: Identity | None) -> None:
        entry.row, entry.row_identity = row, identity
        entry.revision = self.changes.add({"row": encodable(entry.run)})

    def _annotate(self, entry: ViewedRun) -> None:
        """Take in what the annotations of a run say now; a scan that began before does not undo it."""
        entry.is_annotated_since = True
        if entry.row is None:
            return
        row = entry.with_what_is_beside(entry.row)
        if row != entry.row:
            self._set_row(entry, row, entry.row_identity)

    def _forget(self, entry: ViewedRun) -> None:
        self._entries.pop(entry.run, None)
        self._by_path.pop(entry.path, None)
        for each in (entry, *entry.ranks.values()):
            self._open.pop(each.run, None)
            if each.file is not None:
                each.file.close()
        self.changes.add({"removed": encodable(entry.run)})

    def _keep_open(self, entry: ViewedRun) -> None:
        """Keep the stream of *entry* open, and close those that were not read for long."""
        self._open[entry.run] = entry
        self._open.move_to_end(entry.run)
        while len(self._open) > _MOST_OPEN:
            _, oldest = self._open.popitem(last=False)
            if oldest.lock.acquire(blocking=False):
                if oldest.file is not None:
                    oldest.file.close()
                oldest.file = None
                oldest.lock.release()

    # Watching.

    def _is_hot(self, entry: ViewedRun) -> bool:
        is_running = entry.row is not None and entry.row["state"] == "running"
        return is_running or (entry.changed_at > 0 and time.monotonic() - entry.changed_at < _HOT_SECONDS)

    def hot(self, root: Root) -> list[ViewedRun]:
        """Return the runs below *root* that may be written now."""
        with self._lock:
            return [entry for entry in self._of(root) if self._is_hot(entry)]

    def look(self, entry: ViewedRun, identity: Identity) -> None:
        """Take in that the stream of *entry* has *identity* now."""
        is_unlocked = entry.was_running and not is_locked(entry.path)
        if identity == entry.identity and not is_unlocked:
            return
        with self._lock:
            entry.identity = identity
            entry.row_identity = None if is_unlocked else entry.row_identity
            entry.changed_at = time.monotonic()
            entry.revision = self.changes.add({"run": encodable(entry.run), "bytes": identity[2]})

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
                elif known is not None and known.root is root and known.found.identity != stream.identity:
                    if root.is_remote and ranks_in(known.found.identity) != ranks_in(stream.identity):
                        # What their logs say now is read with the row.
                        new.append(known)
                    is_new, known.found = known.found.version != stream.version, stream
                    self._annotate(known)
                    if is_new:
                        self.look(known, identity_at(path))
        if new and self._is_started:
            self._learn(new)

    def _add(self, root: Root, stream: Stream) -> ViewedRun:
        run = run_id(root, stream.path, is_only=len(self.roots) == 1, taken=self._entries)
        entry = ViewedRun(run, root, stream)
        self._entries[entry.run] = self._by_path[stream.path] = entry
        entry.revision = self.changes.add({"added": encodable(entry.run)} if self._is_started else None)
        if self._is_started:
            entry.changed_at = time.monotonic()
        return entry

    # What requests need.

    def entry(self, run: str) -> ViewedRun | None:
        """Return the entry of the run whose id is *run*."""
        return self.entries([run])[0]

    def entries(self, runs: Sequence[str]) -> list[ViewedRun | None]:
        """Return the entry of each of *runs*."""
        with self._lock:
            return [self._named(run) for run in runs]

    def _named(self, run: str) -> ViewedRun | None:
        entry = self._entries.get(run)
        if entry is None and "\\" in run:
            entry = next((each for each in self._entries.values() if encodable(each.run) == run), None)
        return entry or self._rank(run)

    def _rank(self, run: str) -> ViewedRun | None:
        """Return the stream of another rank of a run, whose id is the path of that stream; None if there is none."""
        owner_id, _, name = run.rpartition("/")
        owner = self._entries.get(owner_id)
        if owner is None or not rank_of(name) or rank_of(os.path.basename(owner.path)) != 0 or owner.root.is_remote:
            return None
        path = os.path.join(os.path.dirname(owner.path), name)
        if not os.path.isfile(path) or not owner.root.holds(path):
            return None
        identity = identity_at(path)
        known = owner.ranks.get(name)
        if known is None:
            known = owner.ranks[name] = ViewedRun(run, owner.root, Stream(path, identity[2]))
            known.identity = identity
        elif known.identity != identity:
            known.identity, known.changed_at = identity, time.monotonic()
        return known

    def listing(self, since: str | None = None, *, is_quick: bool = False) -> dict[str, Any]:
        """Return every row, or those that changed after the revision *since* and the ids of the runs that are gone.

        If it *is_quick*, only the runs of a complete listing that changed last are read for the answer; the row of
        another that was not read yet is an ``unread_row``.
        """
        if is_quick and self.changes.begin(since) is None:
            self._read_first()
        with self._lock:
            begin = self.changes.begin(since)
            chosen = [each for each in self._entries.values() if begin is None or each.revision > begin]
            # A store answers slowly: a row comes when it has.
            chosen = [each for each in chosen if each.row is not None or not each.root.is_remote]
            revision, removed = self.changes.number, [] if begin is None else self.changes.removed(begin)
        unread = {each.run for each in chosen if self._is_unread(each)} if is_quick else ()
        rows = [self._listed(each, is_unread=each.run in unread) for each in chosen]
        answer: dict[str, Any] = {"revision": str(revision), "complete": begin is None, "runs": rows}
        return answer if begin is None else answer | {"removed": removed}

    def be_shown(self) -> None:
        """Take in that the first list is on the screen: now the runs may be read whole."""
        self._is_shown.set()

    def _is_unread(self, entry: ViewedRun) -> bool:
        return entry.row is None and entry.file is None and entry.path in self._pending

    def _read_first(self) -> None:
        """Read the ends of the runs that changed last, of those that were not read yet."""
        with self._lock:
            last = heapq.nlargest(_MOST_READ_FIRST, filter(self._is_unread, self._entries.values()), key=_changed_at)
        for entry in last:
            if self._is_unread(entry):
                self.row(entry)

    def _listed(self, entry: ViewedRun, *, is_unread: bool) -> dict[str, Any]:
        row = unread_row(entry.run, entry.identity[2]) if is_unread else self.row(entry)
        return row if len(self.roots) == 1 else row | {"root": encodable(entry.root.name)}

    def row(self, entry: ViewedRun) -> dict[str, Any]:
        """Return the row of a run as it is now."""
        if entry.row is not None and entry.row_identity == entry.identity:
            return entry.row
        if entry.file is None and entry.path in self._pending:
            quick = entry.row or quick_row(entry.work(), self.dialect)
            with self._lock:
                # The scan may have ended meanwhile, and its row says more.
                if entry.row is None:
                    self._set_row(entry, quick, None)
            return entry.row or quick
        if not entry.reads_ends:
            return self._follow(entry)
        identity = entry.identity
        row = quick_row(entry.work(), self.dialect)
        with self._lock:
            entry.row, entry.row_identity = row, identity
        return row

    def _follow(self, entry: ViewedRun) -> dict[str, Any]:
        """Read what is new in the stream of *entry* and return its row."""
        with entry.lock:
            identity = identity_at(entry.path)
            try:
                if entry.file is None:
                    entry.file = ScannedRun(entry.path, self.dialect)
                entry.file.read()
                row = row_of_work(entry.file.scan.summary, entry.work())
                identity = entry.file.identity()
            except (StreamError, OSError) as error:
                fact = cause_of(error)
                row = unreadable_row(entry.run, fact, identity[2])
            findings = entry.row["findings"] if entry.row is not None else None
            with self._lock:
                entry.row, entry.row_identity = row | {"findings": findings}, identity
                self.look(entry, identity)
        with self._lock:
            self._keep_open(entry)
        return entry.row

    def want(self, entries: Sequence[ViewedRun]) -> None:
        """Begin to read those large objects whose curves will be asked for, several at a time."""
        self.be_shown()
        with self._lock:
            wanted = [entry for entry in entries if entry.reads_ends]
            for entry in wanted:
                entry.reads_ends = False
        if unknown := [entry.work() for entry in wanted if self.store.load(entry.path, entry.identity) is None]:
            self._scan(unknown)

    def as_read(self, entries: Sequence[ViewedRun | None]) -> Iterator[list[int]]:
        """Yield the places of *entries*: of those that nothing scans, then of those whose scans have ended."""
        ended: SimpleQueue[int] = SimpleQueue()

        def end(at: int, _: Future[None]) -> None:
            ended.put(at)

        with self._lock:
            scans = [None if entry is None or entry.file else self._pending.get(entry.path) for entry in entries]
        yield [at for at, scan in enumerate(scans) if scan is None]
        for at, scan in enumerate(scans):
            if scan is not None:
                scan.add_done_callback(partial(end, at))
        left = {at for at, scan in enumerate(scans) if scan is not None}
        with suppress(Empty):
            while left:
                read = [ended.get(timeout=_SCAN_WAIT_SECONDS)]
                while not ended.empty():
                    read.append(ended.get())
                left.difference_update(read)
                yield read
        if left:
            yield list(left)

    def curves(self, entry: ViewedRun, metrics: Sequence[str] = ()) -> Curves | None:
        """Return the curves of a run as it is now, of *metrics* and of tokens at least; None if it cannot be read.

        It may wait for a scan.
        """
        self.want([entry])
        future = self._pending.get(entry.path)
        if future is not None and entry.file is None:
            with suppress(Exception):
                future.result(timeout=_SCAN_WAIT_SECONDS)
        if entry.file is None:
            stored = self.store.load(entry.path, entry.identity)
            if stored is not None:
                return stored
            if not self._is_hot(entry):
                return self._scanned(entry)
        self._follow(entry)
        with entry.lock:
            return None if entry.file is None else curves_of(entry.file, {*metrics, *TOKEN_COUNTS})

    def _scanned(self, entry: ViewedRun) -> Curves | None:
        result = scan_stream(entry.work(), self.store, self.dialect)
        with self._lock:
            entry.identity = result.identity
            if result.row is not None:
                entry.row, entry.row_identity = result.row, result.identity
        return self.store.load(entry.path, result.identity)


def _changed_at(entry: ViewedRun) -> int:
    """Return a number that is larger the later the file of *entry* was changed."""
    return entry.identity[3]
