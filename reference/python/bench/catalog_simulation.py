"""Builds a catalog of runs that are generated, not read, by the real build: what ten million of them cost."""

from __future__ import annotations

import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from scale_runs import day, write_runs
from toyspec import build_catalog
from toyspec.core.runs.walking import Stream
from toyspec.core.workers.crews import Finished
from toyspec.core.workers.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.catalog.reading_runs import Job, ReadRun
    from toyspec.core.workers.crews import Call

_TEMPLATES = 200
_MOST_LISTED = 100_000
_SLOT = re.compile(rb'run-\d{8}|2026-\d\d-\d\d|(?<="seed":)\d+|(?<=\\"seed\\":)\d+|\d+\.\d{4,}')
_QUERY = 'select count(*), avg("last.loss") from runs where "config.lr" > 0.0005'


class Simulated(NamedTuple):
    """What a catalog of so many runs costs."""

    runs: int
    build: float
    """Seconds to write it, when every row is there."""
    size: int
    """Bytes of its files."""
    peak: int
    """Most memory of the build, in bytes."""
    disk: int
    """Most bytes on the disk while it is written, itself included."""
    first: float
    """Seconds of ``toyspec ls --catalog DIR -n 20``."""
    first_peak: int
    whole: float | None
    """Seconds of ``toyspec ls --catalog DIR``, the whole table; None of more runs than a table has."""
    query: float
    """Seconds of a query over all runs."""
    query_peak: int


class _Rows:
    """Workers that do not read: a run gets the row of a real one, with a name, a day and numbers of its own."""

    def __init__(self, templates: list[ReadRun]) -> None:
        self._parts = [(_SLOT.split(each.line), _SLOT.findall(each.line)) for each in templates]
        self._results = [each._replace(line=b"") for each in templates]
        self._done: list[Finished] = []
        self.size = 1
        self.seconds = 0.0
        """Time that the rows took to make."""

    def start(self, _: Call) -> _Rows:
        """See Workers."""
        return self

    def submit(self, key: int, items: list[Any]) -> None:
        """See Crew."""
        began = time.perf_counter()
        self._done.append(Finished(key, [self._made(item) for item in items]))
        self.seconds += time.perf_counter() - began

    def finished(self) -> list[Finished]:
        """See Crew."""
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        """See Crew."""

    def _made(self, job: Job) -> ReadRun:
        stream = job.stream
        number = int(stream.path[-21:-13])
        texts, slots = self._parts[number % len(self._parts)]
        chance = random.Random(number)
        # A value that is twice in a row, as that of a metric and in its column, stays the same.
        values = {slot: _value(slot, number, chance) for slot in dict.fromkeys(slots)}
        made = [texts[0]]
        for text, slot in zip(texts[1:], slots, strict=True):
            made += (values[slot], text)
        line = b"".join(made).replace(b'"identity":""', b'"identity":"%s"' % stream.identity.encode())
        return self._results[number % len(self._parts)]._replace(line=line)


def _value(slot: bytes, number: int, chance: random.Random) -> bytes:
    if slot.startswith(b"run-"):
        return b"run-%08d" % number
    if slot.startswith(b"2026-"):
        return day(number).encode()
    if slot.isdigit():
        return b"%d" % number
    return b"%.17g" % (float(slot) * (0.9 + 0.2 * chance.random()))


def simulate(directory: str, count: int) -> Simulated:
    """Return what a catalog of *count* runs costs; the reading of the runs, and the making of rows, is left out."""
    out = os.path.join(directory, f"simulated-{count}")
    rows = _Rows(_templates(directory))

    def listed(root: str, *_: object, **__: object) -> Iterator[Stream]:
        for number in range(count):
            path = os.path.join(root, f"run-{number:08}", "events.jsonl")
            yield Stream(path, len(path) + 5000, root, identity=f"{number}-1795000000000000000-{number}")

    with mock.patch("toyspec.catalog.records.find_records", listed), _most_on_disk(out) as disk:
        began = time.perf_counter()
        build_catalog(os.path.join(directory, "templates"), out=out, workers=rows)
        seconds = time.perf_counter() - began - rows.seconds
    peak, size = most_memory(), _size(out)
    first, first_peak = _command("ls", "--catalog", out, "-n", "20")
    whole = _command("ls", "--catalog", out)[0] if count <= _MOST_LISTED else None
    query, query_peak = _command("query", "--catalog", out, _QUERY)
    return Simulated(count, seconds, size, peak, max(disk), first, first_peak, whole, query, query_peak)


@contextmanager
def _most_on_disk(directory: str) -> Iterator[list[int]]:
    """Look at the size of *directory* every second until the end of the block, and yield the list of the sizes."""
    found, is_over = [0], threading.Event()

    def look() -> None:
        while not is_over.wait(1):
            found.append(_size(directory))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
        found.append(_size(directory))


def _size(directory: str) -> int:
    """Return the bytes of the files below *directory* as they are on the disk."""
    total = 0
    for place, _, files in os.walk(directory):
        for file in files:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(place, file)).st_blocks * 512
    return total


def _templates(directory: str) -> list[ReadRun]:
    """Return what a catalog has of real runs."""
    root = os.path.join(directory, "templates")
    if not os.path.isdir(root):
        write_runs(root, _TEMPLATES)
    kept: list[ReadRun] = []

    class Keeping:
        size = 1

        def start(self, call: Call) -> Any:
            self._crew = Processes(1).start(call)
            return self

        def submit(self, key: int, items: list[Any]) -> None:
            self._crew.submit(key, items)

        def finished(self) -> list[Finished]:
            found = self._crew.finished()
            kept.extend(result for each in found for result in each.results)
            return found

        def close(self) -> None:
            self._crew.close()

    build_catalog(root, out=os.path.join(directory, "of-templates"), workers=Keeping())
    assert len(kept) == _TEMPLATES
    return kept


def sentence(found: dict[str, Any]) -> str:
    """Return what was found, for a page."""
    count, seconds = found["runs"], found["build"]
    whole = "" if found["whole"] is None else f"; the whole table takes {found['whole']:.2f} s"
    return (
        f"A catalog of {count:,} runs that were generated, each with a row of its own, is written in {seconds:,.0f} s "
        f"({count / seconds:,.0f} rows/s) with {found['peak'] / 1e6:,.0f} MB of memory. Its files have "
        f"{found['size'] / 1e6:,.0f} MB, {found['size'] / count:.0f} bytes a run; while they are written, "
        f"{found['disk'] / 1e9:,.1f} GB of disk are needed. `toyspec ls --catalog -n 20` takes "
        f"{found['first']:.2f} s and {found['first_peak'] / 1e6:,.0f} MB there{whole}. A query over all runs takes "
        f"{found['query']:.2f} s and {found['query_peak'] / 1e6:,.0f} MB."
    )


# It imports nothing else: what a command imports is a part of its time.
_COMMAND = """
import sys
from toyspec.core.command_line.main import main
code = main(sys.argv[1:])
with open("/proc/self/status") as file:
    sys.stderr.write(file.read())
sys.exit(code)
"""
_TIMES = 5


def _command(*arguments: str) -> tuple[float, int]:
    """Return the wall time of a command of toyspec in seconds, the median, and its most memory in bytes."""
    times, most = [], 0
    for _ in range(_TIMES):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _COMMAND, *arguments],
            check=True, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        times.append(time.perf_counter() - began)
        most = max(most, _most_memory(done.stderr))
    return statistics.median(times), most


def most_memory() -> int:
    """Return the most memory that this program has had, in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        return _most_memory(file.read())


def _most_memory(status: str) -> int:
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def in_a_process(directory: str, count: int) -> Simulated:
    """Return what ``simulate`` returns, from a process that does nothing else."""
    command = [sys.executable, os.path.abspath(__file__), directory, str(count)]
    return Simulated(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(simulate(sys.argv[1], int(sys.argv[2]))._asdict()))
