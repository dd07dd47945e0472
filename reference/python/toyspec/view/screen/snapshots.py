"""What the screen shows, read in the background: the rows that changed, and the curves that are in sight."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.errors import StreamError
from toyspec.view.drawn_curves import drawn_curve

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.view.curve_frames import Axis
    from toyspec.view.drawn_curves import DrawnCurve
    from toyspec.view.live_runs import LiveRuns

_POLL_SECONDS = 0.25
_BUCKETS = 400


class Wanted(NamedTuple):
    """The curves in sight."""

    runs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    axis: Axis = "step"


class Snapshot(NamedTuple):
    """What is known at one time."""

    rows: dict[str, dict[str, Any]]
    """The row of each run, by its id."""
    curves: dict[tuple[str, str], DrawnCurve]
    """What is drawn of each run and metric that was wanted."""
    wanted: Wanted


class SnapshotReader:
    """Reads the runs of a catalog in a thread of its own, and gives each new snapshot away."""

    def __init__(self, catalog: LiveRuns, give: Callable[[Snapshot], object]) -> None:
        """Give snapshots to *give*, which is called by the thread."""
        self._catalog = catalog
        self._give = give
        self._asked: queue.SimpleQueue[Wanted | None] = queue.SimpleQueue()
        self._rows: dict[str, dict[str, Any]] = {}
        self._revision: str | None = None
        self._thread = threading.Thread(target=self._run, name="toyspec-watch", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def ask(self, wanted: Wanted) -> None:
        """Ask for other curves; they come with one of the next snapshots."""
        self._asked.put(wanted)

    def close(self) -> None:
        """Stop reading."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        wanted, seen = Wanted(), -1
        self._catalog.count_alerts()
        while True:
            asked = self._next()
            if asked is None:
                return
            now = self._catalog.changes.number
            if now == seen and isinstance(asked, bool):
                continue
            seen = now
            wanted = wanted if isinstance(asked, bool) else asked
            self._read_rows()
            self._give(Snapshot(dict(self._rows), self._curves(wanted), wanted))

    def _next(self) -> Wanted | bool | None:
        """Return the last curves that were asked for; True if none were, None at the end."""
        found: Wanted | bool | None = True
        with suppress(queue.Empty):
            found = self._asked.get(timeout=_POLL_SECONDS)
            while found is not None:
                found = self._asked.get_nowait()
        return found

    def _read_rows(self) -> None:
        listing = self._catalog.listing(self._revision)
        if listing["complete"]:
            self._rows = {}
        for run in listing.get("removed", ()):
            self._rows.pop(run, None)
        self._rows |= {row["id"]: row for row in listing["runs"]}
        self._revision = listing["revision"]

    def _curves(self, wanted: Wanted) -> dict[tuple[str, str], DrawnCurve]:
        found: dict[tuple[str, str], DrawnCurve] = {}
        for run in wanted.runs:
            entry = self._catalog.entry(run)
            with suppress(StreamError, OSError):
                curves = None if entry is None else self._catalog.curves(entry)
                if curves is not None:
                    found |= {
                        (run, metric): drawn_curve(curves, metric, wanted.axis, _BUCKETS) for metric in wanted.metrics
                    }
        return found
