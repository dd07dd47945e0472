"""Predicts how long work takes with more workers than this machine has, from what one worker was measured to need."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from scale_runs import write_logs, write_runs
from toyspec import build_catalog, check
from toyspec.convert import export_runs, import_runs
from toyspec.core.workers.crews import Finished
from toyspec.core.workers.processes import Processes, cores

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.workers.crews import Call, Crew, Workers

_PREDICTED = (1, 2, 16, 256)
_FEWEST = 2
"""The fewest batches that a cost per run and one per byte are fitted to."""


class _Batch(NamedTuple):
    items: int
    size: int
    wall: float
    cpu: float


class _Timed:
    """Workers that note what each batch costs, and how long the process that gives them out waits for them."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.batches: list[_Batch] = []
        self.waited = 0.0
        self.first = self.last = 0.0

    def start(self, call: Call) -> Crew:
        """See Workers."""
        self._crew = self._workers.start(partial(_timed, call=call))
        self.size = self._crew.size
        self._given: dict[int, list[Any]] = {}
        self.first = self.first or time.perf_counter()
        return self

    def submit(self, key: int, items: list[Any]) -> None:
        """See Crew."""
        self._given[key] = items
        self._crew.submit(key, items)

    def finished(self) -> list[Finished]:
        """See Crew."""
        began = time.perf_counter()
        found = self._crew.finished()
        self.last = time.perf_counter()
        self.waited += self.last - began
        return [self._noted(each) for each in found]

    def _noted(self, finished: Finished) -> Finished:
        items = self._given.pop(finished.key)
        if finished.lost is not None:
            return finished
        wall, cpu, results = finished.results
        self.batches.append(_Batch(len(items), sum(map(_size, items)), wall, cpu))
        return Finished(finished.key, results)

    def close(self) -> None:
        """See Crew."""
        self._crew.close()


def _size(item: Any) -> int:
    # A source of an import, a job of a catalog, or a stream itself.
    size: int = getattr(item, "run", getattr(item, "stream", item)).size
    return size


def _timed(items: list[Any], call: Call) -> list[Any]:
    began, cpu = time.perf_counter(), time.process_time()
    results = call(items)
    return [time.perf_counter() - began, time.process_time() - cpu, results]


class Parameters(NamedTuple):
    """What one worker needed for a job, in seconds."""

    alone: float
    """Before the first batch and after the last one, when no worker can help: listing, and writing the tables."""
    coordinator: float
    """Work of the process that gives out the batches, for each batch, while workers work."""
    gap: float
    """From the end of a batch until its worker has begun the next one."""
    run: float
    """Work of a worker for each run."""
    megabyte: float
    """Work of a worker for each megabyte that it reads, on top of that for each run."""
    work: float
    """Work of the workers, all in all."""
    largest: float
    """The longest batch: it may be the last to end."""
    batches: int

    def seconds(self, workers: int, machine: int | None = None) -> float:
        """Return the predicted time with *workers*; they share *machine* cores, by default each has its own."""
        shared = (self.work + self.batches * self.gap) / workers + (self.largest if workers > 1 else 0.0)
        bounds = [shared, self.batches * self.coordinator]
        if machine is not None and workers >= machine:
            bounds.append((self.work + self.batches * self.coordinator) / machine)
        return self.alone + max(bounds)

    @property
    def enough(self) -> int:
        """The number of workers from which on the coordinator is what limits the speed."""
        return max(1, round((self.work / self.batches + self.gap) / self.coordinator))


class Job(NamedTuple):
    """A command, its parameters, and what was measured with one and two workers."""

    name: str
    runs: int
    parameters: Parameters
    measured: dict[int, float]


def measure(directory: str, count: int) -> list[Job]:
    """Return what *count* runs cost to check, to put into a catalog, to import and to export."""
    runs, logs = os.path.join(directory, "model-runs"), os.path.join(directory, "model-logs")
    write_runs(runs, count)
    write_logs(logs, count // 10)
    numbers = iter(range(1000))

    def place() -> str:
        return os.path.join(directory, f"model-{next(numbers)}")

    return [
        _job("check", count, lambda workers: check(runs, workers=workers)),
        _job("catalog build", count, lambda workers: build_catalog(runs, out=place(), workers=workers)),
        _job("import of JSON Lines", count // 10, lambda workers: import_runs([logs], place(), workers=workers)),
        _job("export to CSV", count, lambda workers: export_runs("csv", [runs], place(), workers=workers)),
    ]


def _job(name: str, runs: int, work: Callable[[Workers], object]) -> Job:
    """Measure the parameters in one pass with one worker, and the times in passes of their own."""
    work(Processes(1))  # imports what is imported when used, and brings the files into memory
    timed = _Timed(Processes(1))
    began = time.perf_counter()
    work(timed)
    ended = time.perf_counter()
    measured = {}
    for workers in (1, 2):
        start = time.perf_counter()
        work(Processes(workers))
        measured[workers] = time.perf_counter() - start
    return Job(name, runs, _parameters(timed, ended - began), measured)


def _parameters(timed: _Timed, total: float) -> Parameters:
    between, count = timed.last - timed.first, len(timed.batches)
    wall = sum(batch.wall for batch in timed.batches)
    run, byte = _costs(timed.batches)
    return Parameters(
        alone=total - between,
        coordinator=max(between - timed.waited, 1e-9) / count,
        gap=max(between - wall, 0.0) / count,
        run=run,
        megabyte=byte * 1e6,
        work=wall,
        largest=max(batch.wall for batch in timed.batches),
        batches=count,
    )


def _costs(batches: list[_Batch]) -> tuple[float, float]:
    """Return the seconds of processor time for each run and for each byte that fit best."""
    items = sum(batch.items**2 for batch in batches)
    both = sum(batch.items * batch.size for batch in batches)
    sizes = sum(batch.size**2 for batch in batches)
    of_items = sum(batch.items * batch.cpu for batch in batches)
    of_sizes = sum(batch.size * batch.cpu for batch in batches)
    divisor = items * sizes - both**2
    if len(batches) < _FEWEST or divisor <= 0:
        return of_items / items, 0.0
    run, byte = (of_items * sizes - of_sizes * both) / divisor, (of_sizes * items - of_items * both) / divisor
    if byte < 0:
        return of_items / items, 0.0
    return (run, byte) if run >= 0 else (0.0, of_sizes / sizes)


def tables(jobs: list[Job]) -> list[str]:
    """Return the lines of two tables: the parameters, and the predicted times beside the measured ones."""
    here = cores()
    lines = [
        "| command | runs | alone | coordinator, a batch | between batches | a run | a megabyte |",
        "|---|---|---|---|---|---|---|",
    ]
    for job in jobs:
        found = job.parameters
        small = (found.coordinator, found.gap, found.run, found.megabyte)
        costs = " | ".join(f"{seconds * 1e3:.2f} ms" for seconds in small)
        lines.append(f"| {job.name} | {job.runs:,} | {found.alone:.2f} s | {costs} |")
    heads = [f"{workers} {'worker' if workers == 1 else 'workers'}" for workers in _PREDICTED]
    lines += ["", f"| runs/s, predicted | {' | '.join(heads)} | enough workers |", "|---|---|---|---|---|---|"]
    for job in jobs:
        rates = []
        for workers in _PREDICTED:
            measured = job.measured.get(workers)
            seconds = job.parameters.seconds(workers, here if measured is not None else None)
            beside = "" if measured is None else f" (measured {job.runs / measured:,.0f})"
            rates.append(f"{job.runs / seconds:,.0f}{beside}")
        lines.append(f"| {job.name} | {' | '.join(rates)} | {job.parameters.enough:,} |")
    return lines
