"""The corpus as a whole: its cases, its questions and its version."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from conformance import frozen
from conformance.loading import CASES, find, load_folder
from conformance.probes.roles import questions
from conformance.revisions import CURRENT
from conformance.session_cases import SESSIONS, Session
from conformance.session_cases import load as load_sessions
from conformance.statements import minimal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from conformance.cases import Case
    from conformance.probes.question import Question

MINIMAL_KINDS = frozenset({"run_start", "step", "run_end"})
"""The kinds that every emitter writes."""


def selected(patterns: Collection[str], root: str = CASES, revision: str = CURRENT) -> Iterator[Case]:
    """Yield the cases of *revision* below *root* that match one of *patterns*; all of them if there are no patterns.

    A pattern is the path of a case or of a folder above it, may have ``*`` and ``?``, or is ``proves:`` and a
    requirement.
    """
    beginnings = tuple(_beginning(pattern) for pattern in patterns) or ("",)
    # To load a case takes longer than to look at its name.
    folders = (folder for folder in find(root) if _named(folder, root).startswith(beginnings))
    found = itertools.chain.from_iterable(load_folder(folder, root, revision) for folder in folders)
    sessions = load_sessions(revision=revision) if root == CASES else iter(())
    for case in itertools.chain(found, sessions):
        if not patterns or any(matches(case, pattern) for pattern in patterns):
            yield case


@cache
def cases(patterns: tuple[str, ...], revision: str) -> list[Case]:
    """Return what `selected` yields, read once for all implementations that are asked."""
    return list(selected(patterns, revision=revision))


def _beginning(pattern: str) -> str:
    """Return how the path of each folder begins that has a case of *pattern*."""
    return "" if pattern.startswith("proves:") else re.split(r"[*?[#]", pattern.rstrip("/"))[0]


def _named(folder: str, root: str) -> str:
    return os.path.relpath(folder, root).replace(os.sep, "/")


def questions_of(cases: Iterable[Case], roles: Collection[str]) -> list[Question]:
    """Return all questions about *cases* to an implementation with *roles*."""
    return [question for case in cases for question in questions(case, roles)]


def minimal_questions(questions: Iterable[Question]) -> list[Question]:
    """Return those of *questions* that an emitter can answer which knows no more than ``spec/minimal.md``."""
    return [question for question in questions if _is_minimal(question)]


def _is_minimal(question: Question) -> bool:
    case = question.case
    if question.role != "writer" or question.detail == "misuse" or case.profile != "toy/v1":
        return False
    is_new = not isinstance(case, Session) or (len(case.runs) == 1 and case.runs[0].get("exist") == "replace")
    kinds = {record.get("kind") for record in case.records if isinstance(record, dict)}
    return is_new and kinds <= MINIMAL_KINDS and not minimal().isdisjoint((*case.accepts, *case.rejects))


@cache
def version(revision: str = CURRENT) -> str:
    """Return a short digest of the corpus: of its list for an earlier *revision*, else of every file."""
    if revision != CURRENT:
        return frozen.digest(revision)[:12]
    digest = hashlib.sha256()
    for root in (CASES, SESSIONS):
        for folder, names, files in os.walk(root):
            names.sort()
            for name in sorted(files):
                path = os.path.join(folder, name)
                digest.update(os.path.relpath(path, root).replace(os.sep, "/").encode() + b"\0")
                with open(path, "rb") as file:
                    digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()[:12]


def matches(case: Case, pattern: str) -> bool:
    """Return whether *pattern* selects *case*."""
    if pattern.startswith("proves:"):
        return pattern.removeprefix("proves:") in (*case.accepts, *case.rejects)
    pattern = pattern.rstrip("/")
    return (
        case.name == pattern or case.name.startswith((f"{pattern}/", f"{pattern}#")) or fnmatchcase(case.name, pattern)
    )
