"""All questions about a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.probes import checkers, followers, readers, sessions, summarizers, writers
from conformance.session_cases import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from conformance.cases import Case
    from conformance.probes.question import Question

_OF_ROLE = {
    "reader": readers.questions,
    "summarizer": summarizers.questions,
    "checker": checkers.questions,
    "writer": writers.questions,
    "canonical-writer": writers.canonical_questions,
    "follower": followers.questions,
}


def questions(case: Case, roles: Collection[str]) -> Iterator[Question]:
    """Yield what implementations with *roles* are asked about *case*."""
    if isinstance(case, Session):
        if "writer" in roles:
            yield from sessions.questions(case)
        return
    for role, of_role in _OF_ROLE.items():
        if role in roles:
            yield from of_role(case)
