"""The command line of mutation testing."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, TextIO

from conformance import first_questions
from conformance.mutation import survivors
from conformance.mutation.memory import FOLDER, Memory
from conformance.mutation.score import Findings, page, report
from conformance.mutation.subjects import MODULES
from conformance.mutation.sweep import Corpus, Sweep, all_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.mutation.sites import Mutant
    from conformance.mutation.sweep import Fate

_DESCRIPTION = """\
Make mutants of the oracle, each with one small change, and ask every one the questions of the corpus that execute
the changed statement, until one fails. A mutant that survives fails the command unless survivors.json lists it with
a reason; a listed one that is killed fails it too. Findings are kept in build/mutants/, so that a sweep that was
ended goes on, and a sweep after a new case asks only what is new.
"""
_NEWS_SECONDS = 30.0


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="mutants", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--module", action="append", default=[], choices=tuple(MODULES), help="mutate this module alone (repeatable)")
    add("--sample", type=int, metavar="N", help="ask N mutants, always the same ones")
    add("--jobs", type=int, default=2, metavar="N", help="number of processes (default: 2)")
    add("--page", metavar="FILE", help="put the score of a full sweep into a page of the site")
    add("--core", metavar="FILE", help="write the questions of a full sweep that killed a mutant: the core")
    add("--survivors", metavar="FILE", help="write the survivors that are not listed, in the form of survivors.json")
    add("--memory", default=FOLDER, metavar="FOLDER", help="where findings are kept (default: build/mutants)")
    options = parser.parse_args(arguments)
    if not hasattr(os, "fork"):
        sys.stderr.write("mutants: this system cannot copy a process (fork); run it on Linux or macOS\n")
        return 2
    return _sweep(options)


def chosen(mutants: Sequence[Mutant], size: int | None) -> list[Mutant]:
    """Return *size* of *mutants*, chosen by their names alone, in their order; all where *size* is None."""
    if size is None:
        return list(mutants)
    by_hash = sorted(mutants, key=lambda mutant: hashlib.sha256(mutant.key.encode()).digest())
    kept = {mutant.key for mutant in by_hash[:size]}
    return [mutant for mutant in mutants if mutant.key in kept]


def _sweep(options: argparse.Namespace) -> int:
    listed = survivors.load()
    modules, memory = all_modules(), Memory(options.memory)
    names = options.module or MODULES
    every = [mutant for module in modules for mutant in module.mutants]
    mutants = chosen([mutant for mutant in every if mutant.module in names], options.sample)
    corpus = Corpus(modules, memory, options.jobs)
    for problem in corpus.problems:
        _say(f"NOT ASKED {problem} (the oracle itself fails here)")
    _say(f"{len(mutants)} mutants, {len(corpus.questions)} questions")
    fates: list[Fate] = []
    Sweep(modules, corpus, memory, listed.entries).run(mutants, options.jobs, _Progress(fates, len(mutants)))
    order = {mutant.key: index for index, mutant in enumerate(mutants)}
    fates.sort(key=lambda fate: order[fate.mutant.key])
    found = Findings(fates, listed, listed.unknown(every))
    for line in report(found):
        _say(line)
    if options.survivors:
        with open(options.survivors, "w", encoding="utf-8") as file:
            json.dump([survivors.as_json(fate.mutant) for fate in found.survivors], file, indent=2)
    is_good = found.is_good and not corpus.problems
    if is_good and not options.sample and not options.module:
        _publish(options, corpus, memory, mutants, page(found, listed))
    return 0 if is_good else 1


def _publish(
    options: argparse.Namespace, corpus: Corpus, memory: Memory, mutants: Sequence[Mutant], score: Iterator[str]
) -> None:
    """Write what a full sweep found, where *options* ask for it."""
    if options.page:
        from conformance import page as pages

        pages.put(options.page, "mutants", score)
    if options.core:
        names = {digest: question.name for digest, question in zip(corpus.digests, corpus.questions, strict=True)}
        killers = Counter(names[killer] for mutant in mutants if (killer := memory.killer(mutant.key)) in names)
        with open(options.core, "w", encoding="utf-8") as file:
            file.write(
                first_questions.as_text(
                    name for name, _ in sorted(killers.items(), key=lambda item: (-item[1], item[0]))
                )
            )


class _Progress:
    """Collects fates, and reports now and then how many there are."""

    def __init__(self, fates: list[Fate], count: int) -> None:
        self._fates, self._count = fates, count
        self._next = time.monotonic() + _NEWS_SECONDS

    def __call__(self, fate: Fate) -> None:
        self._fates.append(fate)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _NEWS_SECONDS
            _say(f"{len(self._fates)} of {self._count} mutants", sys.stderr)


def _say(line: str, to: TextIO | None = None) -> None:
    """Print *line* at once."""
    file = to or sys.stdout
    file.write(f"{line}\n")
    file.flush()
