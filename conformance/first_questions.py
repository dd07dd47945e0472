"""The core: the questions that a sweep needed to catch every mutant, a small part of the corpus that is asked first.

``nox -s mutants -- --core conformance/core.json`` writes the list again; ``python -m
conformance.authoring.core_questions`` then adds questions for the mutants that are made by hand and for each MUST.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from conformance.corpus import matches, questions_of
from conformance.loading import CASES, load_folder
from conformance.revisions import is_asked
from conformance.session_cases import SESSIONS, load_session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from conformance.cases import Case
    from conformance.probes.question import Question

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "core.json")
_SESSIONS = "sessions/"
_FEW = 16


def names(path: str = PATH) -> list[str]:
    """Return the names of the questions, the ones that catch most mutants first."""
    with open(path, encoding="utf-8") as file:
        found: list[str] = json.load(file)["questions"]
    return found


def as_text(questions: Iterable[str]) -> str:
    """Return the content of the file for these names."""
    return json.dumps({"questions": list(questions)}, indent=0, ensure_ascii=False) + "\n"


def parts(roles: Collection[str], revision: str, patterns: Collection[str] = ()) -> Iterator[list[Question]]:
    """Yield the core of *revision* for *roles* about cases that match *patterns*: a few questions, then the rest.

    The cases of a part are loaded when it is taken, and no others. The first questions are one to each role: where
    a role is not right at all, its failure is among the first answers.
    """
    mine = _each_role_first([name for name in names() if _role(name) in roles])
    for part in (mine[:_FEW], mine[_FEW:]):
        order = {name: index for index, name in enumerate(part)}
        every = _cases(order, revision)
        cases = [case for case in every if not patterns or any(matches(case, pattern) for pattern in patterns)]
        found = [question for question in questions_of(cases, roles) if question.name in order]
        yield sorted(found, key=lambda question: order[question.name])


def _each_role_first(names: list[str]) -> list[str]:
    """Return *names* in their order, after the first of each role."""
    first = {_role(name): name for name in reversed(names)}.values()
    return [*(name for name in names if name in first), *(name for name in names if name not in first)]


def _role(name: str) -> str:
    """Return the role that the question *name* is for, as in ``case [role detail]``."""
    return name.rpartition(" [")[2].rstrip("]").partition(" ")[0]


def _cases(questions: Iterable[str], revision: str) -> Iterator[Case]:
    for folder in dict.fromkeys(name.rpartition(" [")[0].partition("#")[0] for name in questions):
        if folder.startswith(_SESSIONS):
            session = load_session(os.path.join(SESSIONS, folder.removeprefix(_SESSIONS)))
            if is_asked(session.since, session.until, revision):
                yield session
        else:
            yield from load_folder(os.path.join(CASES, folder), CASES, revision)
