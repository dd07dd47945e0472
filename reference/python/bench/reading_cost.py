"""What reading costs beside the bare library, listing many runs, and looking at one that stands still."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

from measuring import Row, alternating, programs, ratio, single, spread
from streams import small_bundles, toy_steps
from toyspec.core.generated.toy_v1 import ToyV1Record
from toyspec.core.reading.follower import follow
from toyspec.core.reading.reader import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GROUP = "reader"
_CHUNK_BYTES = 1 << 18
_BUNDLES = 10_000
# Each line is decoded into plain objects first, which proves that it is readable.
_MOST = 4
_LOOKS = 100
_LS = "import sys; from toyspec.core.command_line.main import run; sys.exit(run())"
_CALLS = ("stat", "fstat", "lstat", "open", "read", "lseek", "close", "scandir")


def rows(folder: Path, size: int) -> Iterator[Row]:
    """Yield the ratios for reading *size* records, the time of a list of runs, and the calls of a look."""
    path = toy_steps(folder / "read.jsonl", size // 2)
    data = path.read_bytes()
    times = alternating(
        {
            "chunks": lambda: _sum_in_chunks(path),
            "whole": lambda: sum(record.t for record in msgspec.json.Decoder(ToyV1Record).decode_lines(data)),
            "events": lambda: sum(event.t for event in read(path).events()),
            "typed": lambda: sum(record.event.t for record in read(path)),
            "values": lambda: sum(record.value["t"] for record in read(path)),
            "objects": lambda: sum(record["t"] for record in msgspec.json.Decoder().decode_lines(data)),
        }
    )
    for name, title in (("events", "typed events"), ("typed", "records with typed events")):
        yield ratio(_GROUP, f"{title}, against typed decoding in chunks", times[name], times["chunks"], most=_MOST)
        yield ratio(_GROUP, f"{title}, against typed decoding of all at once", times[name], times["whole"], most=_MOST)
    yield ratio(_GROUP, "records with plain values, against plain decoding at once", times["values"], times["objects"])
    yield from _listing(folder)
    yield single(_GROUP, "calls of a look at an idle stream", "calls", _calls_of_a_look(path), most=1)


def _sum_in_chunks(path: Path) -> float:
    """Read a file in chunks and decode them, as a program would that keeps its memory small."""
    decoder, rest, total = msgspec.json.Decoder(ToyV1Record), b"", 0.0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            end = chunk.rfind(b"\n") + 1
            total += sum(record.t for record in decoder.decode_lines(rest + chunk[:end]))
            rest = chunk[end:]
    return total


def _listing(folder: Path) -> Iterator[Row]:
    runs = small_bundles(folder / "list", _BUNDLES, 100)
    commands = {
        "ends": [sys.executable, "-c", _LS, "ls", str(runs)],
        "full": [sys.executable, "-c", _LS, "ls", "--full", str(runs)],
    }
    times = programs(commands, rounds=3)
    yield spread(_GROUP, f"`toyspec ls`, {_BUNDLES:,} bundles of 100 steps, with its start", "s", times["ends"], most=1)
    yield ratio(_GROUP, "`toyspec ls --full`, against `toyspec ls`", times["full"], times["ends"])


def _calls_of_a_look(path: Path) -> float:
    """Return how many system calls a look at a stream costs at which nothing happens."""
    calls: list[str] = []
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            calls.clear()

    with contextlib.ExitStack() as stack:
        for name in _CALLS:
            stack.enter_context(mock.patch.object(os, name, _counted(name, calls)))
        for _ in follow(path, until="forever", sleep=sleep, stop=lambda: looks > _LOOKS):
            pass
        # Closing the file at the end is not a poll.
        return (len(calls) - calls.count("close")) / _LOOKS


def _counted(name: str, calls: list[str]) -> Any:
    call = getattr(os, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return call(*arguments, **options)

    return counted
