"""Adds to the core what a sweep of mutants does not ask: each statement, and each mutant that is made by hand.

python -m conformance.authoring.core_questions
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from conformance import first_questions
from conformance.corpus import questions_of, selected
from conformance.kill_score import kill_all
from conformance.pipes import quietly
from conformance.probes.question import ROLES
from conformance.statements import musts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.cases import Case
    from conformance.probes.question import Question

_SMALL_BYTES = 10_000


def missing(names: Sequence[str], questions: Sequence[Question]) -> Iterator[str]:
    """Yield questions that *names* lack: one for each pair of a MUST and a role of which *questions* has any."""
    known = set(names)
    asked = {pair for question in questions if question.name in known for pair in _pairs(question)}
    for question in questions:
        if new := {pair for pair in _pairs(question) if pair not in asked}:
            asked |= new
            yield question.name


def _pairs(question: Question) -> set[tuple[str, str]]:
    """Return the MUSTs of its role that a question is about, each with the role."""
    case: Case = question.case
    return {(statement, question.role) for statement in {*case.accepts, *case.rejects} & musts_of([question.role])}


def main() -> None:
    """Write the list with what it lacked, and print how many questions were added."""
    names = first_questions.names()
    before = len(names)
    killers = [kill.question for kill in kill_all() if kill.question is not None]
    names += [name for name in dict.fromkeys(killers) if name not in names]
    questions = questions_of(list(selected(())), ROLES)
    small = sorted(questions, key=lambda question: len(question.case.data) > _SMALL_BYTES)
    names += missing(names, small)
    with open(first_questions.PATH, "w", encoding="utf-8", newline="\n") as file:
        file.write(first_questions.as_text(names))
    sys.stdout.write(f"{len(names) - before} questions were added to {before}\n")


if __name__ == "__main__":
    sys.exit(quietly(main))
