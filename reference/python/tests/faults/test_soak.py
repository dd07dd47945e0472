"""A writer, a killer, a rotator and followers at random: nothing is lost, nothing invented, nothing silent.

Hypothesis draws the steps, so that every look is exact; `nox -s chaos` lets processes meet.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from faults.tally import count, scaled, settle
from toyspec.core.errors import StreamRefusedError
from toyspec.core.reading.follower import Follower, TailEvent, follow
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record
from toyspec.core.writing.appending import repair
from toyspec.core.writing.run_writer import RunWriter


class Watcher:
    """A follower that polls on request, and what it has seen of the present file."""

    def __init__(self, path: Path) -> None:
        self._follower: Follower = follow(path, until="forever")
        self.seen: list[bytes] = []
        self.events: list[str] = []

    def look(self) -> None:
        """Take in what is new; what NUL bytes might be is decided by a second look."""
        for _ in range(2):
            for item in self._follower.new():
                if isinstance(item, Record):
                    self.seen.append(bytes(item.raw))
                elif isinstance(item, TailEvent):
                    self.events.append(item.kind)
                    if item.kind in {"rotated", "replaced", "truncated"}:
                        self.seen.clear()

    def close(self) -> None:
        """Release the file."""
        self._follower.close()


class Soak(RuleBasedStateMachine):
    """Everything that happens to one stream."""

    @initialize(watchers=st.integers(1, 3))
    def begin(self, watchers: int) -> None:
        """Start the first run."""
        self.folder = Path(tempfile.mkdtemp(prefix="toyspec-soak-"))
        self.stream = self.folder / "run/events.jsonl"
        self.acknowledged: list[bytes] = []
        self.step = 0
        self.runs = 0
        self.writer = self._new_writer("replace")
        self.watchers = [Watcher(self.stream) for _ in range(watchers)]

    def _new_writer(self, exist: str) -> RunWriter:
        writer = RunWriter(self.folder / "run", exist=exist, on_error="raise")  # type: ignore[arg-type]
        if exist == "replace":
            self.acknowledged, self.step = [], 0
            writer.run_start()
        else:
            writer.run_resume(self.step)
        self._note()
        return writer

    def _note(self) -> None:
        self.acknowledged.append(self.stream.read_bytes().split(b"\n")[-2])

    @rule(number=st.integers(1, 4), size=st.sampled_from([0, 0, 50, 5000]))
    def log(self, number: int, size: int) -> None:
        """Write some records."""
        for _ in range(number):
            self.step += 1
            self.writer.step(self.step, loss=0.5)
            self._note()
            if size:
                self.writer.note("ü" * size)
                self._note()

    @rule(part=st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), nul=st.sampled_from([0, 0, 7, 4096]))
    def kill_and_resume(self, part: bytes, nul: int) -> None:
        """Let the writer die inside a write, or the machine, and go on."""
        self.writer.close()
        with self.stream.open("ab") as file:
            file.write(part + bytes(nul))
        count("kills")
        for watcher in self.watchers:
            watcher.look()
        self.writer = self._new_writer("resume")

    @rule(part=st.sampled_from([b"", b'{"kind":"st', b"\x00" * 100]))
    def kill_and_repair(self, part: bytes) -> None:
        """Let the writer die, repair by hand, and go on."""
        self.writer.close()
        with self.stream.open("ab") as file:
            file.write(part)
        size = self.stream.stat().st_size
        assert len(part) == repair(self.stream, dry_run=True).fragment_bytes
        assert size == self.stream.stat().st_size
        aside = repair(self.stream).torn_path
        assert part == (b"" if aside is None else Path(aside).read_bytes())
        assert "none" == repair(self.stream).change
        self.writer = self._new_writer("resume")

    @rule(way=st.sampled_from(["rotate", "replace", "delete"]))
    def renew(self, way: str) -> None:
        """Put a new run in place of the old one."""
        self._reckon()
        self.writer.close()
        count("faults injected")
        self.runs += 1
        if way == "rotate":
            self.stream.rename(self.stream.with_name(f"old-{self.runs}"))
        elif way == "delete":
            self.stream.unlink()
        self.writer = self._new_writer("replace")

    @rule()
    def fail_repair(self) -> None:
        """Try to repair a stream that is being written."""
        try:
            repair(self.stream)
        except StreamRefusedError:
            return
        raise AssertionError("a live stream was repaired")

    @rule(index=st.integers(0, 2))
    def look(self, index: int) -> None:
        """Let one follower look."""
        watcher = self.watchers[index % len(self.watchers)]
        watcher.look()
        assert self.acknowledged == watcher.seen
        assert "gap" not in watcher.events

    @invariant()
    def nothing_is_lost(self) -> None:
        """Read the stream."""
        if hasattr(self, "stream"):
            reading = read(self.stream)
            assert self.acknowledged == [bytes(record.raw) for record in reading]
            report = reading.report
            assert report.size == report.committed_bytes + report.fragment_bytes + report.gap_bytes

    def _reckon(self) -> None:
        found = [bytes(record.raw) for record in read(self.stream)]
        assert (0, 0) == settle(self.acknowledged, self.acknowledged, found)

    def teardown(self) -> None:
        """Let every follower catch up, and count."""
        if not hasattr(self, "stream"):
            return
        for watcher in self.watchers:
            watcher.look()
            assert self.acknowledged == watcher.seen
            watcher.close()
        self._reckon()
        self.writer.close()
        shutil.rmtree(self.folder)
        assert not os.path.exists(self.folder)


TestSoak = Soak.TestCase
TestSoak.settings = settings(
    max_examples=scaled(40, 150),
    stateful_step_count=scaled(20, 40),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
