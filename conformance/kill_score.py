"""Checks that the corpus kills every mutant, for the reason that the mutant declares."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.adapters import Adapter
from conformance.corpus import selected
from conformance.inside import Inside, reasons_of
from conformance.mutants.all_mutants import ALL
from conformance.probes.question import Stage
from conformance.probes.roles import questions
from conformance.registry import ROOT
from conformance.running import run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from conformance.cases import Case
    from conformance.mutants.mutant import Mutant
    from conformance.probes.question import Question
    from conformance.verdicts import Result

_PROGRAM_SECONDS = 1.0
_MAX_PROGRAM_QUESTIONS = 40


@dataclass(frozen=True)
class Kill:
    """The outcome for one mutant."""

    mutant: Mutant
    question: str | None
    """Name of the first question that killed it for the declared reason; None if it survived."""
    asked: int
    """Number of questions up to that one."""
    other: str | None = None
    """The first other reason for which it failed."""

    @property
    def is_killed(self) -> bool:
        """True when a question killed it."""
        return self.question is not None


def kill_all(names: Collection[str] = (), *, jobs: int = 1) -> list[Kill]:
    """Return the outcomes for the mutants with *names*, by default for all, in the order of their list."""
    chosen = [mutant for name, mutant in ALL.items() if not names or name in names]
    cases = _by_statement(chosen)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        return list(pool.map(lambda mutant: _kill(mutant, cases[mutant.where or mutant.proves]), chosen))


def report(kills: Sequence[Kill]) -> Iterator[str]:
    """Yield the survivors and the score."""
    for kill in kills:
        if not kill.is_killed:
            yield f"SURVIVED  {kill.mutant.name}: {kill.mutant.about}"
            where = kill.mutant.where or kill.mutant.proves
            yield f"          {kill.asked} questions about {where} did not fail for: {kill.mutant.reason}"
            if kill.other:
                yield f"          it failed for another reason: {kill.other}"
    killed = sum(kill.is_killed for kill in kills)
    yield f"kill score: {killed} of {len(kills)} mutants"


def _by_statement(mutants: Sequence[Mutant]) -> Mapping[str, list[Case]]:
    """Return the cases that prove each wanted statement, small ones first."""
    wanted = {mutant.where or mutant.proves for mutant in mutants}
    found: dict[str, list[Case]] = defaultdict(list)
    for case in selected(()):
        for statement in {*case.accepts, *case.rejects} & wanted:
            found[statement].append(case)
    for cases in found.values():
        cases.sort(key=lambda case: ("#" in case.name, len(case.data) > 100_000))
    return found


def _kill(mutant: Mutant, cases: Sequence[Case]) -> Kill:
    profile = getattr(mutant.make, "profile", None)
    asked = (
        question
        for case in cases
        if profile is None or case.profile in {profile, None}
        for question in questions(case, [mutant.role])
    )
    return _kill_program(mutant, asked) if mutant.is_program else _kill_inside(mutant, asked)


def _kill_inside(mutant: Mutant, asked: Iterator[Question]) -> Kill:
    """Ask a mutant in this process; requests and answers pass through JSON as they would in a pipe."""
    count, other = 0, None
    adapter = mutant.make()
    hello = adapter.hello()
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        stage = Stage(Inside(adapter), lambda: tempfile.mkdtemp(dir=folder), hello)
        for question in asked:
            if question.needs.missing(hello, question.role):
                continue
            count += 1
            reasons = reasons_of(question, stage)
            if any(re.search(mutant.reason, reason) for reason in reasons):
                return Kill(mutant, question.name, count)
            other = other or (reasons[0] if reasons else None)
    return Kill(mutant, None, count, other)


def _kill_program(mutant: Mutant, asked: Iterator[Question]) -> Kill:
    """Ask a mutant that runs as a program."""
    command = [sys.executable, "-m", "conformance.mutants", mutant.name]
    adapter = Adapter(command, directory=ROOT, deadline=_PROGRAM_SECONDS)
    adapter.ask_hello()
    chosen = [question for question, _ in zip(asked, range(_MAX_PROGRAM_QUESTIONS), strict=False)]

    def kills(result: Result) -> bool:
        return any(re.search(mutant.reason, reason) for reason in result.reasons)

    adapter.at_once = 1  # so that the same question kills it every time
    results = run(adapter, chosen, enough=kills)
    killer = next((result for result in results if kills(result)), None)
    other = next((result.reasons[0] for result in results if result.reasons), None)
    return Kill(mutant, killer.question.name if killer else None, len(results), None if killer else other)
