"""Kills writers at random moments and counts what is lost: ``python -m faults.killing WRITER BYTES KILLS SEED``.

The writer is a fork of this small process. It notes in shared memory which records are acknowledged: that costs no
system call, so that a kill can hit any moment of the loop.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

import toyspec
from faults.writers import WRITERS

PAGE_BYTES = mmap.PAGESIZE
ACKNOWLEDGED, IS_OPEN = 0, 1


class Toll(msgspec.Struct):
    """What a number of kills did."""

    kills: int = 0
    inside: int = 0
    """Kills that left a fragment."""
    unexplained: int = 0
    """Fragments that no kill inside one write leaves: such a write is cut between two pages."""
    unterminated: int = 0
    """Fragments that ``lacks_its_lf`` finds."""
    acknowledged: int = 0
    lost: int = 0
    invented: int = 0


def lacks_its_lf(report: toyspec.ReadReport) -> bool:
    """Return whether the fragment is a record without its LF that no kill inside one write leaves.

    Such a kill leaves one only where a page of memory ends just before the LF: of records of all sizes, one in 4,096.
    """
    return report.uncommitted is not None and report.size % PAGE_BYTES != 0


def record(number: int, size: int) -> bytes:
    """Return record *number*, about *size* bytes long; its text depends on both."""
    head = b'{"kind":"note","t":%d.0,"text":"' % number
    return head + (b"%d " % number * (size // 4))[: max(0, size - len(head) - 2)] + b'"}'


def kill_loop(writer: str, size: int, kills: int, seed: int) -> Toll:
    """Kill *writer* so often while it writes records of *size* bytes; return the toll."""
    chance, toll = random.Random(seed), Toll()
    # Each item is stored at once, so that a kill cannot catch half a number; struct.pack_into clears it first.
    shared = memoryview(mmap.mmap(-1, PAGE_BYTES)).cast("q")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "events.jsonl")
        for number in range(kills):
            shared[ACKNOWLEDGED] = shared[IS_OPEN] = 0
            child = os.fork()
            if child == 0:
                _write_for_ever(writer, path, size, shared)
            # Beside a load, or with a slow disk, a writer comes to nothing in a few milliseconds: half have begun.
            _kill(child, shared, ACKNOWLEDGED if number % 2 else IS_OPEN, chance.uniform(0, 0.006))
            _reckon(toll, path, size, shared[ACKNOWLEDGED])
            os.unlink(path)
    return toll


def killed(writer: str, *, size: int, kills: int, seed: int = 0) -> Toll:
    """Run ``kill_loop`` in a small process of its own."""
    arguments = [writer, str(size), str(kills), str(seed)]
    here = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "faults.killing", *arguments],
        env={**os.environ, "PYTHONPATH": str(here)},
        capture_output=True,
        text=True,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Toll)


def _write_for_ever(writer: str, path: str, size: int, shared: memoryview[int]) -> None:
    lines = [record(number, size) for number in range(64)]
    file = WRITERS[writer](path, toyspec.core.system_calls.SYSTEM_CALLS)
    shared[IS_OPEN] = 1
    number = 0
    while True:
        file.append(lines[number] if number < 64 else record(number, size))
        number += 1
        shared[ACKNOWLEDGED] = number


def _kill(child: int, shared: memoryview[int], begun: int, delay: float) -> None:
    """Kill *child* so many seconds after it has set the item *begun*."""
    deadline = time.monotonic() + 300
    while not shared[begun] and time.monotonic() < deadline:
        time.sleep(0.0002)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _reckon(toll: Toll, path: str, size: int, acknowledged: int) -> None:
    with toyspec.read(path, mode="salvage") as reading:
        found = [bytes(item.raw) for item in reading]
        report = reading.report
    expected = [record(number, size) for number in range(max(acknowledged, len(found)))]
    toll.kills += 1
    toll.acknowledged += acknowledged
    toll.lost += max(0, acknowledged - len(found))
    toll.invented += sum(1 for one, other in zip(found, expected, strict=False) if one != other) + len(report.gaps)
    toll.invented += max(0, len(found) - acknowledged - 1)
    if report.fragment is not None:
        toll.inside += 1
        toll.unexplained += report.size % PAGE_BYTES != 0
        toll.unterminated += lacks_its_lf(report)


def main() -> None:
    """Print the toll as JSON."""
    writer, size, kills, seed = sys.argv[1], *map(int, sys.argv[2:])
    sys.stdout.write(json.dumps(msgspec.to_builtins(kill_loop(writer, size, kills, seed))))


if __name__ == "__main__":
    main()
