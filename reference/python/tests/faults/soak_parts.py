"""Writers, followers and repairs for the soaks: the library's own, and broken ones that have to be caught."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import toyspec
from toyspec.core.reading.follower import follow
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.appending import Repair, repair
from toyspec.core.writing.run_writer import RunWriter

MARK = b"\x1e\n"
"""What a follower notes where another file begins."""
ANOTHER_FILE = frozenset({"rotated", "replaced", "truncated"})
"""Events after which a follower begins again."""


class SoakWriter(Protocol):
    """What the soaks do with a writer."""

    def run_start(self) -> None:
        """Write the first record."""

    def run_resume(self, from_step: int) -> None:
        """Write that the run goes on."""

    def step(self, step: int, *, loss: float) -> None:
        """Write a step."""

    def note(self, text: str) -> None:
        """Write a text."""

    def run_end(self) -> None:
        """Write the last record."""

    def close(self) -> None:
        """Release the file."""


WriterOpening = Callable[[Path, Any], SoakWriter]


def library(run: Path, exist: Any) -> SoakWriter:
    """Return the writer of the library."""
    return RunWriter(run, exist=exist, on_error="raise")


def buffered(run: Path, exist: Any) -> SoakWriter:
    """Return a broken writer that keeps what it is given for a while in its own memory."""
    held: list[tuple[int, bytes]] = []

    def write(descriptor: int, data: bytes | memoryview) -> int:
        held.append((descriptor, bytes(data)))
        if len(held) > 20:
            flush()
        return len(data)

    def flush() -> None:
        while held:
            os.write(*held.pop(0))

    def close(descriptor: int) -> None:
        flush()
        os.close(descriptor)

    return RunWriter(run, exist=exist, on_error="raise", calls=SystemCalls(write=write, close=close))


def in_two_writes(run: Path, exist: Any) -> SoakWriter:
    """Return a broken writer that writes a record, then its LF."""

    def write(descriptor: int, data: bytes | memoryview) -> int:
        os.write(descriptor, data[:-1])
        time.sleep(0)
        return len(data) - 1 + os.write(descriptor, data[-1:])

    return RunWriter(run, exist=exist, on_error="raise", calls=SystemCalls(write=write))


class Gluing:
    """A broken writer that resumes without reading what is after the last LF."""

    def __init__(self, run: Path, exist: str) -> None:
        run.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (os.O_TRUNC if exist == "replace" else 0)
        self._descriptor = os.open(run / "events.jsonl", flags, 0o600)

    def _write(self, **record: Any) -> None:
        os.write(self._descriptor, json.dumps({**record, "t": time.monotonic()}).encode() + b"\n")

    def run_start(self) -> None:
        """Write it."""
        self._write(kind="run_start", schema="toy/v1", run_id="run")

    def run_resume(self, from_step: int) -> None:
        """Write it."""
        self._write(kind="run_resume", from_step=from_step)

    def step(self, step: int, *, loss: float) -> None:
        """Write it."""
        self._write(kind="step", step=step, loss=loss)

    def note(self, text: str) -> None:
        """Write it."""
        self._write(kind="note", text=text)

    def run_end(self) -> None:
        """Write it."""
        self._write(kind="run_end", reason="completed")

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)


WRITERS: dict[str, WriterOpening] = {
    "library": library,
    "buffered": buffered,
    "two-writes": in_two_writes,
    "gluing": Gluing,
}


Begun = Callable[[int], None]


def library_follower(stream: Path, notes: Path, pause: float, begun: Begun) -> None:
    """Note every record and every change of file until the run ends."""
    runs, is_new = 0, True
    with notes.open("wb", buffering=0) as out:
        for item in follow(stream, until="forever", poll_seconds=pause):
            if isinstance(item, toyspec.Record):
                out.write(bytes(item.raw) + b"\n")
                if is_new:
                    runs, is_new = runs + 1, False
                    begun(runs)
                if item.kind == "run_end":
                    return
            elif item.kind in ANOTHER_FILE:
                is_new = True
                out.write(MARK)


def naive_follower(stream: Path, notes: Path, pause: float, begun: Begun) -> None:
    """Be broken: take what a read gives as lines, and go over to a new file without reading the old one to its end."""
    runs = 0
    with notes.open("wb", buffering=0) as out:
        while True:
            try:
                file = stream.open("rb")
            except FileNotFoundError:
                time.sleep(pause)
                continue
            with file:
                out.write(MARK * bool(runs))
                runs += 1
                inode = os.fstat(file.fileno()).st_ino
                while _inode(stream) == inode:
                    line = file.readline()
                    if line:
                        out.write(line.rstrip(b"\n") + b"\n")
                        begun(runs)
                    if b'"run_end"' in line:
                        return
                    time.sleep(0 if line else pause)


def _inode(path: Path) -> int | None:
    """Return the inode of the file at *path*; None while there is none, as between two files."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


FOLLOWERS: dict[str, Callable[[Path, Path, float, Begun], None]] = {
    "library": library_follower,
    "naive": naive_follower,
}


Repairing = Callable[..., Repair]


def cuts_a_record(path: Path, *, dry_run: bool = False) -> Repair:
    """Be broken: cut off the last committed record as well."""
    done = repair(path, dry_run=dry_run)
    if done.change == "cut":
        data = path.read_bytes()
        os.truncate(path, data[:-1].rfind(b"\n") + 1)
    return done


def isolates(path: Path, *, dry_run: bool = False) -> Repair:
    """Be broken: end the fragment with an LF, which commits it."""
    done = repair(path, dry_run=True)
    if not dry_run and done.fragment_bytes:
        with path.open("ab") as file:
            file.write(b"\n")
    return done


def throws_away(path: Path, *, dry_run: bool = False) -> Repair:
    """Be broken: keep nothing of what is cut."""
    done = repair(path, dry_run=dry_run)
    if done.torn_path is not None:
        Path(done.torn_path).write_bytes(b"")
    return done


def asks_for_no_lock(path: Path, *, dry_run: bool = False) -> Repair:
    """Be broken: cut without asking whether another process writes."""
    data = path.read_bytes()
    committed = data.rfind(b"\n") + 1
    fragment = len(data) - committed
    aside = None
    if fragment and not dry_run:
        aside = f"{path}.torn-{committed}"
        Path(aside).write_bytes(data[committed:])
        os.truncate(path, committed)
    return Repair(
        path=str(path),
        change="none" if not fragment else "would-cut" if dry_run else "cut",
        records=data.count(b"\n"),
        committed_bytes=committed,
        fragment_bytes=fragment,
        torn_path=aside,
    )


REPAIRS: dict[str, Repairing] = {
    "library": repair,
    "cuts-a-record": cuts_a_record,
    "isolates": isolates,
    "throws-away": throws_away,
    "asks-for-no-lock": asks_for_no_lock,
}
