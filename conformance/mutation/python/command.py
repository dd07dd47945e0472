"""The command line of mutation testing of the Python package."""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.mutation import survivors
from conformance.mutation.python import listing, reach
from conformance.mutation.python.score import is_enough, page, report
from conformance.mutation.python.workshop import Workshop, WorkshopError
from conformance.mutation.score import Findings
from conformance.mutation.subjects import HERE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.mutation.python.reach import Reach
    from conformance.mutation.python.workshop import Test
    from conformance.mutation.sites import Module, Mutant

_DESCRIPTION = """\
Make mutants of the Python package, each with one small change, and run the tests that execute the changed statement
until one fails. Which tests these are is recorded once, and again for test files that change, in build/mutants-python/.
The seed is the digest of the commit, so that each commit asks other mutants. A mutant that survives lacks a test, or
is in survivors.json with the reason why no test can catch it.
"""
SURVIVORS = os.path.join(HERE, "python", "survivors.json")
_WIDTH = 160


@dataclass(frozen=True)
class Fate:
    """What became of one mutant."""

    mutant: Mutant
    reason: str | None
    """What a test says; None where it survived."""
    asked: int
    """Number of tests that it was asked."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="mutants-python", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sample", type=int, default=300, metavar="N", help="ask N mutants (default: 300)")
    add("--seed", metavar="TEXT", help="what decides which (default: the digest of the commit)")
    add("--only", action="append", default=[], metavar="START", help="modules that begin so, as view/ (repeatable)")
    add(
        "--tests",
        action="append",
        default=[],
        metavar="START",
        help="test files that begin so, as test_view (repeatable)",
    )
    add("--jobs", type=int, default=2, metavar="N", help="number of mutants in parallel (default: 2)")
    add("--least", type=float, default=95.0, metavar="PERCENT", help="fail below this adjusted score (default: 95)")
    add("--record", action="store_true", help="record again which test executes what")
    add("--page", metavar="FILE", help="put the score into a page of the site")
    add("--survivors", metavar="FILE", help="write the survivors that are not listed, in the form of survivors.json")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except WorkshopError as error:
        sys.stderr.write(f"mutants-python: {error}\n")
        return 1


def _run(options: argparse.Namespace) -> int:
    seed = options.seed or listing.commit()
    names = listing.module_names()
    known = survivors.load(SURVIVORS, names)
    starts = tuple(options.only) or ("",)
    modules = {name: listing.loaded(name) for name in names if name.startswith(starts)}
    every = [mutant for module in modules.values() for mutant in module.mutants if listing.is_asked(mutant)]
    mutants = listing.sample(every, options.sample, seed)
    _say(f"{len(mutants)} of {len(every)} mutants, seed {seed[:12]}")
    began = time.monotonic()
    found = reach.recorded(tuple(options.tests) or ("",), is_fresh=options.record)
    _say(f"which test executes what is known after {time.monotonic() - began:.0f} s")
    fates = _Sweep(modules, found).run(mutants, options.jobs)
    stale = known.unknown(every) if starts == ("",) else []
    result = Findings(fates, known, stale)
    for line in report(result):
        _say(line)
    if options.survivors:
        with open(options.survivors, "w", encoding="utf-8") as file:
            json.dump([survivors.as_json(fate.mutant) for fate in result.survivors], file, indent=2)
    if options.page:
        from conformance import page as pages

        pages.put(options.page, "mutants-python", page(result, known, len(every)))
    return 0 if is_enough(result, options.least) else 1


class _Sweep:
    """Asks mutants, several at once, each in a copy of the tree."""

    def __init__(self, modules: Mapping[str, Module], found: Reach) -> None:
        self._modules, self._found = modules, found
        # A module applies a change to its one tree for a moment.
        self._lock = threading.Lock()

    def run(self, mutants: Sequence[Mutant], jobs: int) -> list[Fate]:
        """Return what became of each of *mutants*, in their order."""
        waiting: queue.SimpleQueue[tuple[int, Mutant]] = queue.SimpleQueue()
        for item in enumerate(mutants):
            waiting.put(item)
        fates: dict[int, Fate] = {}
        errors: list[BaseException] = []

        def work(workshop: Workshop) -> None:
            try:
                while not waiting.empty() and not errors:
                    at, mutant = waiting.get_nowait()
                    fates[at] = self._asked(workshop, mutant)
            except queue.Empty:
                pass
            except BaseException as error:  # noqa: BLE001  (raised again below)
                errors.append(error)

        threads = [threading.Thread(target=work, args=(Workshop(f"job-{job}"),), daemon=True) for job in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return [fates[at] for at in range(len(mutants))]

    def _asked(self, workshop: Workshop, mutant: Mutant) -> Fate:
        began = time.monotonic()
        module = self._modules[mutant.module]
        with self._lock:
            source = listing.changed(module, mutant)
            batches = list(self._found.asked(module, mutant))
        reason, asked = None, 0
        for tests in batches:
            asked += len(tests)
            reason = reason or self._failure(workshop, mutant, source, tests)
        fate = Fate(mutant, reason, asked)
        said = reason or f"SURVIVED {fate.asked} tests: {mutant.original} -> {mutant.mutated}"
        _say(f"{time.monotonic() - began:4.0f} s  {mutant.module}: {mutant.function}: {said}"[:_WIDTH])
        return fate

    def _failure(self, workshop: Workshop, mutant: Mutant, source: str, tests: Sequence[Test]) -> str | None:
        """Return what one of *tests* says about *mutant*, whose module has *source*; None where all pass."""
        left = list(tests)
        while left:
            with workshop.changed(mutant.module, source):
                failed = workshop.failure(left)
            if failed is None:
                return None
            # What fails at times, or takes long on a busy machine, says nothing about the change.
            doubtful = [test for test in left if test.is_contended and test.name in failed.tests] or (
                left if failed.is_late else []
            )
            if not doubtful or workshop.failure(doubtful) is None:
                return failed.reason
            left = [test for test in left if test not in doubtful]
        return None


def _say(line: str) -> None:
    """Print *line* at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
