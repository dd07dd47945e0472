"""The command line of mutation testing of the Python package."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING

from conformance.mutation import survivors
from conformance.mutation.python import listing, reach, samples
from conformance.mutation.python.score import Fate, is_enough, report
from conformance.mutation.python.workshop import FOLDER, Workshop, WorkshopError
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
"""The mutants that no test can catch."""
_WIDTH = 160


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
    add("--resume", action="store_true", help="ask no mutant again that an interrupted run of this seed killed")
    add(
        "--publish",
        metavar="TEXT",
        help="put the score into samples.json and the page; TEXT is what it is a score of",
    )
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
    modules = {name: listing.loaded(name) for name in listing.mutated_names() if name.startswith(starts)}
    every = [mutant for module in modules.values() for mutant in module.mutants if listing.is_asked(mutant)]
    mutants = listing.sample(every, options.sample, seed)
    _say(f"{len(mutants)} of {len(every)} mutants, seed {seed[:12]}")
    began = time.monotonic()
    found = reach.recorded(tuple(options.tests) or ("",), is_fresh=options.record)
    _say(f"which test executes what is known after {time.monotonic() - began:.0f} s")
    fates = _Sweep(modules, found, Fates(seed, is_resumed=options.resume)).run(mutants, options.jobs)
    stale = known.unknown(every) if starts == ("",) else []
    result = Findings(fates, known, stale)
    for line in report(result):
        _say(line)
    if options.publish:
        whole = sum(map(listing.is_asked, listing.every_mutant()))
        samples.publish(samples.Sample.of(seed, fates, whole, options.publish, known))
        samples.write_page(known)
    return 0 if is_enough(result, options.least) else 1


class Fates:
    """What became of the mutants of one sample, kept on disk as each is known."""

    def __init__(self, seed: str, *, is_resumed: bool, folder: str = FOLDER) -> None:
        """Begin a new list for *seed*, or go on with the one that is there if *is_resumed*."""
        self._path = os.path.join(folder, f"fates-{seed[:40]}.jsonl")
        if not is_resumed:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def known(self, mutants: Sequence[Mutant]) -> dict[int, Fate]:
        """Return the killed ones of *mutants*, by their index. A survivor is asked again: it may have got a test."""
        if not os.path.exists(self._path):
            return {}
        with open(self._path, encoding="utf-8") as file:
            entries = {entry["key"]: entry for entry in map(json.loads, file)}
        return {
            at: Fate(mutant, entries[mutant.key]["reason"], entries[mutant.key]["asked"])
            for at, mutant in enumerate(mutants)
            if entries.get(mutant.key, {}).get("reason") is not None
        }

    def add(self, fate: Fate) -> None:
        """Keep *fate*."""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"key": fate.mutant.key, "reason": fate.reason, "asked": fate.asked}) + "\n")


class _Sweep:
    """Asks mutants, several at once, each in a copy of the tree."""

    def __init__(self, modules: Mapping[str, Module], found: Reach, kept: Fates) -> None:
        self._modules, self._found, self._kept = modules, found, kept
        # A module applies a change to its one tree for a moment.
        self._lock = threading.Lock()

    def run(self, mutants: Sequence[Mutant], jobs: int) -> list[Fate]:
        """Return what became of each of *mutants*, in their order."""
        waiting: queue.SimpleQueue[tuple[int, Mutant]] = queue.SimpleQueue()
        fates = self._kept.known(mutants)
        for at, mutant in enumerate(mutants):
            if at not in fates:
                waiting.put((at, mutant))
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
            batches = list(self._found.asked(mutant))
        reason, asked = None, 0
        for tests in batches:
            asked += len(tests)
            reason = reason or self._failure(workshop, mutant, source, tests)
        fate = Fate(mutant, reason, asked)
        with self._lock:
            self._kept.add(fate)
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
