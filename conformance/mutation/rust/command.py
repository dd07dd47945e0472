"""The command line: ``nox -s mutants_rust``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from conformance.commands import clean_up_when_terminated
from conformance.corpus import questions_of, selected, version
from conformance.mutation import survivors
from conformance.mutation.memory import question_digests
from conformance.mutation.rust.findings import Fate, Memory
from conformance.mutation.rust.listing import ListingError, listed, sample
from conformance.mutation.rust.replay import Recording, RecordingError
from conformance.mutation.rust.score import page
from conformance.mutation.rust.workshop import Workshop, WorkshopError
from conformance.mutation.score import Findings, report
from conformance.probes.question import ROLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.mutation.rust.listing import Mutant
    from conformance.mutation.survivors import Survivors

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "survivors.json")
SAMPLE = 300
"""As many as have been looked at; `--sample 600` goes on in the same order."""
_WIDTH = 200
_MEMORY_BYTES = 8 << 30
_DESCRIPTION = """\
Let cargo-mutants list the mutants of the Rust crate, build a fixed sample of them, one at a time, and ask each one
the questions of the corpus until one fails. The tests of the crate run for those that answer everything right. A
mutant that survives both fails the command unless survivors.json lists it with a reason; a listed one that is killed
fails it too. Findings are kept in build/mutants-rust/, so that a sweep that was ended goes on.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="mutants-rust", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sample", type=int, default=SAMPLE, metavar="N", help=f"number of mutants (default: {SAMPLE}; 0: all)")
    add("--file", action="append", default=[], metavar="NAME", help="only mutants of src/NAME.rs (repeatable)")
    add("--list", action="store_true", help="list the mutants of the sample without building them")
    add("--page", metavar="FILE", help="put the score into a page of the site")
    add("--survivors", metavar="FILE", help="write the survivors that are not listed, in the form of survivors.json")
    options = parser.parse_args(arguments)
    clean_up_when_terminated()
    try:
        every = listed()
        mutants = sample(
            [mutant for mutant in every if not options.file or mutant.module in options.file], options.sample or None
        )
        if options.list:
            for mutant in mutants:
                _say(f"{mutant.module}: {mutant.function} ({mutant.operator}): {mutant.original} -> {mutant.mutated}")
            return 0
        known = survivors.load(PATH, {mutant.module for mutant in every})
        fates = Sweep(known).run(mutants)
    except (ListingError, WorkshopError, RecordingError) as error:
        sys.stderr.write(f"mutants-rust: {error}\n")
        return 2
    return _conclude(fates, every, known, options)


class Sweep:
    """Asks mutants one after the other: first all of them the corpus, then the tests what has survived it."""

    def __init__(self, known: Survivors) -> None:
        _limit_memory()
        self._known = known
        self._workshop = Workshop()
        self._memory = Memory(self._workshop.folder)
        self._questions = questions_of(selected(()), ROLES)
        self._names = {question.name for question in self._questions}
        self._digests = question_digests(self._questions)
        self._corpus = version()
        self._memory.keep_questions(self._corpus, self._digests)
        self._recordings: dict[str, Recording] = {}
        self._is_sound = False

    def run(self, mutants: Sequence[Mutant]) -> list[Fate]:
        """Return what became of each of *mutants*; raise WorkshopError or RecordingError."""
        fates = []
        for number, mutant in enumerate(mutants, 1):
            fate = self._memory.fate(mutant, self._names)
            if fate is None or (fate.by in {"tests", None} and self._memory.asked(mutant) != self._corpus):
                fate = self._asked(f"{number} of {len(mutants)}", mutant, fate)
            fates.append(fate)
        for index, fate in enumerate(fates):
            # No test is expected to kill what is listed.
            if fate.by is None and not fate.is_tested and self._known.reason(fate.mutant) is None:
                fates[index] = self._tested(fate.mutant)
        return fates

    def _asked(self, what: str, mutant: Mutant, before: Fate | None) -> Fate:
        """Ask *mutant* the corpus, without the questions that it answered right *before*."""
        recording = self._recording(self._memory.asked(mutant) if before else "")
        started = time.monotonic()
        with self._workshop.changed(mutant):
            fate, question = self._tried(mutant, recording, before)
        self._memory.note(fate, question, self._corpus)
        said = f"{fate.by}: {fate.reason}" if fate.by else f"answers {recording.size} questions"
        _say(f"{what}, {time.monotonic() - started:.0f} s: {mutant.module}: {mutant.function}: {said}"[:_WIDTH])
        return fate

    def _tried(self, mutant: Mutant, recording: Recording, before: Fate | None) -> tuple[Fate, str | None]:
        """Return what became of *mutant*, and the question that killed it."""
        failure = self._workshop.build()
        if failure is not None:
            return Fate(mutant, "compiler", failure), None
        if killer := recording.killer(self._workshop.adapter, mutant.module):
            return Fate(mutant, "corpus", ": ".join(killer)), killer[0]
        return before or Fate(mutant, None, None, len(self._questions)), None

    def _tested(self, mutant: Mutant) -> Fate:
        """Run the tests of the crate for *mutant*."""
        self._demand_sound()
        started = time.monotonic()
        with self._workshop.changed(mutant):
            failure = self._workshop.test()
        fate = Fate(mutant, "tests" if failure else None, failure, len(self._questions), is_tested=True)
        self._memory.note(fate, None, self._corpus)
        said = failure or "SURVIVED"
        _say(f"tests, {time.monotonic() - started:.0f} s: {mutant.module}: {mutant.function}: {said}"[:_WIDTH])
        return fate

    def _demand_sound(self) -> None:
        """Raise WorkshopError if a test of the unchanged crate fails."""
        if not self._is_sound:
            failure = self._workshop.test()
            if failure is not None:
                raise WorkshopError(f"the crate fails its tests without any change: {failure}")
            self._is_sound = True

    def _recording(self, asked: str) -> Recording:
        """Return the recording of all questions that are not in the set *asked*."""
        if asked not in self._recordings:
            done = self._memory.questions(asked)
            pairs = zip(self._questions, self._digests, strict=True)
            questions = [question for question, digest in pairs if digest not in done]
            _say(f"{len(questions)} questions to the unchanged crate")
            folder = os.path.join(self._workshop.folder, f"recording-{len(self._recordings)}")
            self._recordings[asked] = Recording(self._workshop.unchanged(), questions, folder)
        return self._recordings[asked]


def _conclude(fates: Sequence[Fate], every: Sequence[Mutant], known: Survivors, options: argparse.Namespace) -> int:
    """Print and write what was found; return the exit status."""
    viable = [fate for fate in fates if fate.by != "compiler"]
    found = Findings(viable, known, known.unknown(every))
    for line in report(found):
        _say(line)
    _say(f"{len(fates) - len(viable)} more do not compile")
    _say(f"{sum(fate.by == 'tests' for fate in viable)} are killed by the tests of the crate, not by the corpus")
    if options.survivors:
        with open(options.survivors, "w", encoding="utf-8") as file:
            json.dump([survivors.as_json(fate.mutant) for fate in found.survivors], file, indent=2)
    if options.page and found.is_good and not options.file:
        from conformance import page as pages

        pages.put(options.page, "mutants-rust", page(viable, found, known, len(every)))
    return 0 if found.is_good else 1


def _limit_memory() -> None:
    """Let no mutant fill the memory of the machine."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, hard))


def _say(line: str) -> None:
    """Print *line* at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
