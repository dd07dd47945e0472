"""Checks any writer by what it leaves on the disk when calls fail or others write as well."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from pathlib import Path
from typing import Literal

import msgspec

from faults.tally import count, settle
from faults.writers import WRITERS
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import SystemCalls
from toyspec.testing import FailingCalls

LINES = [b'{"kind":"note","t":%d.0,"text":"%s"}' % (number, b"x" * 40 * number) for number in range(1, 7)]


class Verdict(msgspec.Struct):
    """What a writer did wrong."""

    faults: int = 0
    """Number of ways in which the system failed it."""
    lost: int = 0
    """Records that it acknowledged and that are not there."""
    invented: int = 0
    """Records that are there and were never written, or twice."""
    damaged: int = 0
    """Streams with an unreadable line."""
    believed: int = 0
    """Records that it acknowledged after a failed sync, or of which a part was reported as failed."""


def fail_every_call(
    writer: str,
    folder: Path,
    *,
    error: int,
    lasting: Literal["once", "for-ever"],
    effect: Literal["error", "short-write"],
) -> Verdict:
    """Let the first call of *writer* fail, then the second, and so on; return what that led to."""
    verdict = Verdict()
    for at in itertools.count(1):
        path = str(folder / f"{writer}-{error}-{lasting}-{effect}-{at}.jsonl")
        failing = FailingCalls(at=at, error=error, lasting=lasting, effect=effect)
        acknowledged, synced_after_failure = _write(writer, path, failing)
        if not failing.was_hit:
            count("faults injected", verdict.faults)
            return verdict
        verdict.faults += 1
        verdict.believed += synced_after_failure
        _reckon(verdict, path, acknowledged)
    return verdict


def share(writer: str, folder: Path, *, count_each: int) -> Verdict:
    """Let two processes write one file through *writer* at the same time; return what was lost."""
    path, verdict = str(folder / f"{writer}-shared.jsonl"), Verdict(faults=1)
    gate, opener = os.pipe()
    children = []
    for name in (b"a", b"b"):
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.read(gate, 1)
            _write_as(writer, path, name, count_each)
        children.append(child)
    os.close(opener)
    os.close(gate)
    for child in children:
        os.waitpid(child, 0)
    acknowledged: list[bytes] = []
    for notes in folder.glob("acknowledged-*"):
        acknowledged += notes.read_bytes().split(b"\n")[:-1]
    found = _found(path, verdict)
    verdict.lost = len(set(acknowledged) - set(found))
    verdict.invented = len(found) - len(set(found))
    assert acknowledged
    count("faults injected")
    return verdict


def _write(writer: str, path: str, failing: FailingCalls) -> tuple[list[bytes], int]:
    acknowledged: list[bytes] = []
    believed = 0
    has_failed = False
    calls = _Noting(failing)
    with contextlib.suppress(OSError):
        file = WRITERS[writer](path, calls.table)
        for line in LINES:
            with contextlib.suppress(OSError):
                file.append(line)
                acknowledged.append(line)
                has_failed = has_failed or calls.sync_failed
                believed += has_failed
        file.close()
    return acknowledged, believed


class _Noting:
    """Notes in ``sync_failed`` whether a sync has failed."""

    def __init__(self, failing: FailingCalls) -> None:
        self.sync_failed = False
        self._fsync = failing.calls.fsync
        self.table: SystemCalls = msgspec.structs.replace(failing.calls, fsync=self._sync)

    def _sync(self, descriptor: int) -> None:
        try:
            self._fsync(descriptor)
        except OSError as error:
            self.sync_failed = self.sync_failed or error.errno == errno.EIO
            raise


def _reckon(verdict: Verdict, path: str, acknowledged: list[bytes]) -> None:
    found = _found(path, verdict)
    lost, invented = settle(LINES, acknowledged, found)
    verdict.lost += lost
    verdict.invented += invented


def _found(path: str, verdict: Verdict) -> list[bytes]:
    if not os.path.exists(path):
        return []
    reading = read(path, mode="salvage")
    found = [bytes(record.raw) for record in reading]
    verdict.damaged += reading.report.state == "damaged"
    return found


def _write_as(writer: str, path: str, name: bytes, count_each: int) -> None:
    acknowledged = b""
    try:
        file = WRITERS[writer](path, SystemCalls())
        for number in range(count_each):
            line = b'{"kind":"note","t":0.0,"text":"%s %d"}' % (name, number)
            file.append(line)
            acknowledged += line + b"\n"
    finally:
        Path(path).with_name(f"acknowledged-{name.decode()}").write_bytes(acknowledged)
        os._exit(0)
