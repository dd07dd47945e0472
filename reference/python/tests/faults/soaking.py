"""Lets processes write, follow, kill and rotate: ``python -m faults.soaking SECONDS SEED [WRITER FOLLOWER]``.

One writer at a time logs as fast as it can until it is killed; then the run is resumed, or its file is renamed and a
new run begins in its place. Followers look at the path all the time. Files and followers are reckoned up at the end.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

import toyspec
from faults.killing import lacks_its_lf
from faults.soak_parts import FOLLOWERS, MARK, WRITERS, WriterOpening

FOLLOWING = 3
ACKNOWLEDGED, STEP, BEGUN = 0, 1, 2
PATIENCE_SECONDS = 300.0


class Account(msgspec.Struct):
    """What a soak came to."""

    kills: int = 0
    inside: int = 0
    """Kills that left a fragment."""
    unterminated: int = 0
    """Fragments that ``lacks_its_lf`` finds."""
    runs: int = 0
    acknowledged: int = 0
    lost: int = 0
    """Acknowledged records that are not in a file, and records of a file that a later one took back."""
    invented: int = 0
    """Records that no writer wrote, and unreadable lines."""
    unfollowed: int = 0
    """Runs that a follower gave in another way than their file has them."""


class Soak:
    """One soak; see the module."""

    def __init__(self, folder: Path, chance: random.Random, writer: WriterOpening) -> None:
        self.account = Account()
        self._run = folder / "run"
        self.stream = self._run / "events.jsonl"
        self._chance = chance
        self._writer = writer
        # Each item is stored at once, so that a kill cannot catch half a number.
        self.shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
        self.runs: list[list[bytes]] = []
        self._found: list[bytes] = []

    def go_on(self, end: float) -> None:
        """Write, kill, resume and rotate until *end*, then let the last run come to its end."""
        while time.monotonic() < end:
            self._write_and_kill("resume" if self._found else "replace")
            if self._found and self._chance.random() < 0.3:
                self._rotate()
        self._write_and_end("resume" if self._found else "replace")
        self.runs.append(self._found)
        self.account.runs = len(self.runs)

    def reckon(self, notes: bytes) -> None:
        """Compare what a follower has noted with what is in the files."""
        seen = [part.split(b"\n")[:-1] for part in notes.split(MARK)]
        for number in range(max(len(seen), len(self.runs))):
            if seen[number : number + 1] != self.runs[number : number + 1]:
                self.account.unfollowed += 1

    def _write_and_kill(self, exist: str) -> None:
        before = self.shared[ACKNOWLEDGED] = len(self._found)
        child = _fork(lambda: self._log(exist))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.shared[ACKNOWLEDGED] == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(self._chance.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.account.kills += 1
        self._count()

    def _write_and_end(self, exist: str) -> None:
        self.shared[ACKNOWLEDGED] = len(self._found)
        child = _fork(lambda: self._log(exist, records=20))
        os.waitpid(child, 0)
        self._count()

    def _log(self, exist: str, *, records: int = sys.maxsize) -> None:
        writer = self._writer(self._run, exist)
        if exist == "replace":
            self.shared[STEP] = 0
            writer.run_start()
        else:
            writer.run_resume(self.shared[STEP])
        self.shared[ACKNOWLEDGED] += 1
        for number in range(records):
            if number % 7:
                self.shared[STEP] += 1
                writer.step(self.shared[STEP], loss=0.5)
            else:
                writer.note("ü" * self._chance.choice([0, 100, 4000, 30_000]))
            self.shared[ACKNOWLEDGED] += 1
        writer.run_end()
        self.shared[ACKNOWLEDGED] += 1
        writer.close()

    def _count(self) -> None:
        reading = toyspec.read(self.stream, mode="salvage")
        found = [bytes(record.raw) for record in reading]
        acknowledged = self.shared[ACKNOWLEDGED]
        old, self._found = self._found, found
        self.account.inside += reading.report.fragment is not None
        self.account.unterminated += lacks_its_lf(reading.report)
        self.account.acknowledged += acknowledged - len(old)
        self.account.lost += max(0, acknowledged - len(found)) + sum(
            1 for index, record in enumerate(old) if found[index : index + 1] != [record]
        )
        self.account.invented += max(0, len(found) - acknowledged - 1) + len(reading.report.gaps)

    def _rotate(self) -> None:
        """Put the file aside, once every follower has it open: who looks too seldom for that can see nothing of it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while min(self.shared[BEGUN : BEGUN + FOLLOWING]) <= len(self.runs) and time.monotonic() < deadline:
            time.sleep(0.001)
        self.stream.rename(self.stream.with_name(f"old-{len(self.runs)}"))
        self.runs.append(self._found)
        self._found = []


def _fork(act: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            act()
            status = 0
        os._exit(status)
    return child


def soak(seconds: float, seed: int, writer: str, follower: str) -> Account:
    """Let it all happen for so long; return what it came to."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = Soak(folder, chance, WRITERS[writer])
        children = []
        for number in range(FOLLOWING):
            notes = folder / f"seen-{number}"
            pause = chance.uniform(0, 0.01)

            def begun(runs: int, number: int = number) -> None:
                made.shared[BEGUN + number] = runs

            children.append(_fork(lambda n=notes, p=pause, b=begun: FOLLOWERS[follower](made.stream, n, p, b)))  # type: ignore[misc]
        made.go_on(time.monotonic() + seconds)
        deadline = time.monotonic() + PATIENCE_SECONDS
        for child in children:
            while os.waitpid(child, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                time.sleep(0.01)
        for number in range(FOLLOWING):
            made.reckon((folder / f"seen-{number}").read_bytes())
        return made.account


def main() -> None:
    """Print the account as JSON."""
    parts = sys.argv[3:5] if len(sys.argv) > 3 else ["library", "library"]
    account = soak(float(sys.argv[1]), int(sys.argv[2]), parts[0], parts[1])
    sys.stdout.write(json.dumps(msgspec.to_builtins(account)))


if __name__ == "__main__":
    main()
