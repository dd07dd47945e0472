"""When `toyspec watch` reads runs and curves again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from toyspec.view import screen
from toyspec.view.screen import Snapshot, SnapshotReader, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable


class Changes:
    """The number of changes; each poll is counted."""

    def __init__(self) -> None:
        self.at = 0
        self.polls = 0
        self.is_many = threading.Event()

    @property
    def number(self) -> int:
        """Return the number, and set a mark after five polls."""
        self.polls += 1
        if self.polls >= 5:
            self.is_many.set()
        return self.at


class Runs:
    """Takes the place of the live runs."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.roots = ()
        self.listings: list[dict[str, Any]] = []
        self.asked: list[str | None] = []

    def listing(self, revision: str | None) -> dict[str, Any]:
        """Return the next answer."""
        self.asked.append(revision)
        if len(self.listings) > 1:
            return self.listings.pop(0)
        return self.listings[0]

    def entry(self, run: str) -> None:
        """Know no run."""
        del run


def _rows(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "at": len(names)} for name in names]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Return live runs that are polled often."""
    monkeypatch.setattr(screen, "_POLL_SECONDS", 0.001)
    return Runs()


def _reader(runs: Runs, give: Callable[[Snapshot], object]) -> SnapshotReader:
    return SnapshotReader(runs, give)  # type: ignore[arg-type]


def test_nothing_is_read_while_nothing_changes(runs: Runs) -> None:
    """One snapshot is given at the start, and none at the polls after it."""
    runs.listings = [{"complete": True, "runs": _rows("a"), "revision": "1"}]
    given: list[Snapshot] = []
    reader = _reader(runs, given.append)
    reader.start()
    assert runs.changes.is_many.wait(300)
    reader.close()
    assert [None] == runs.asked
    (only,) = given
    assert ({"a": {"id": "a", "at": 1}}, {}, Wanted()) == tuple(only)


def test_rows_follow_what_changes(runs: Runs) -> None:
    """A part of a listing adds and removes rows, a complete one replaces them, and each asks from the last revision."""
    runs.listings = [
        {"complete": True, "runs": _rows("a", "b"), "revision": "1"},
        {"complete": False, "runs": _rows("c"), "removed": ["a", "unknown"], "revision": "2"},
        {"complete": True, "runs": _rows("d"), "revision": "3"},
    ]
    given: list[Snapshot] = []
    has_given = threading.Semaphore(0)

    def give(snapshot: Snapshot) -> None:
        given.append(snapshot)
        runs.changes.at += len(given) < 3
        has_given.release()

    reader = _reader(runs, give)
    reader.start()
    for _ in range(3):
        assert has_given.acquire(timeout=300)
    reader.close()
    assert [["a", "b"], ["b", "c"], ["d"]] == [[*each.rows] for each in given]
    assert [None, "1", "2"] == runs.asked
    assert given[0].rows["b"] == given[1].rows["b"]


def test_curves_that_are_asked_for_come_though_no_run_changes(runs: Runs) -> None:
    """They come with the next snapshot, and stay wanted."""
    runs.listings = [{"complete": True, "runs": [], "revision": "1"}]
    given: list[Snapshot] = []
    reader = _reader(runs, given.append)
    reader.start()
    assert runs.changes.is_many.wait(300)
    reader.wanted = Wanted(("b",), "acc")
    runs.changes.polls = 0
    runs.changes.is_many.clear()
    assert runs.changes.is_many.wait(300)
    runs.changes.at += 1
    runs.changes.polls = 0
    runs.changes.is_many.clear()
    assert runs.changes.is_many.wait(300)
    reader.close()
    wanted = Wanted(("b",), "acc")
    assert [Wanted(), wanted, wanted] == [each.wanted for each in given]
