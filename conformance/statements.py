"""Statements of the specification: which of them an implementation must keep, and which it should."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from conformance.format_facts import REQUIREMENTS
from conformance.revisions import CURRENT, FIRST_LISTED, as_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conformance.cases import Case
    from conformance.verdicts import Result


def decided(result: Result) -> Result:
    """Return *result*; a failure in a case that proves only SHOULDs and MAYs becomes a deviation."""
    if result.verdict != "fail" or not is_advice(result.question.case):
        return result
    case = result.question.case
    names = ", ".join(sorted({*case.accepts, *case.rejects}))
    return result.named("deviation", f"deviates from {names}, which no MUST demands")


def is_advice(case: Case) -> bool:
    """Return whether *case* proves statements, and none of them is a MUST."""
    statements = {*case.accepts, *case.rejects}
    return bool(statements) and not any(is_binding(statement) for statement in statements)


def is_binding(statement: str) -> bool:
    """Return whether *statement* is a MUST or a MUST NOT; a statement that is not in the list is one."""
    return _keywords().get(statement, "MUST").startswith("MUST")


def musts_of(roles: Iterable[str], revision: str = CURRENT) -> set[str]:
    """Return the statements of *revision* that bind at least one of *roles*."""
    return _of(roles, revision, "MUST")


def shoulds_of(roles: Iterable[str], revision: str = CURRENT) -> set[str]:
    """Return the statements of *revision* that advise at least one of *roles*."""
    return _of(roles, revision, "SHOULD")


def is_should(statement: str) -> bool:
    """Return whether *statement* is a SHOULD or a SHOULD NOT of the list."""
    return _keywords().get(statement, "").startswith("SHOULD")


def _of(roles: Iterable[str], revision: str, keyword: str) -> set[str]:
    asked = set(roles)
    return {
        entry["id"]
        for entry in _entries()
        if entry["keyword"].startswith(keyword)
        and asked & set(entry["applies"])
        and as_numbers(entry.get("since", FIRST_LISTED)) <= as_numbers(revision)
    }


@cache
def minimal() -> frozenset[str]:
    """Return the statements that every emitter needs: those of the page ``spec/minimal.md``."""
    return frozenset(entry["id"] for entry in _entries() if entry.get("level") == "minimal")


@cache
def _keywords() -> dict[str, str]:
    return {entry["id"]: entry["keyword"] for entry in _entries()}


@cache
def _entries() -> list[dict[str, Any]]:
    with open(REQUIREMENTS, encoding="utf-8") as file:
        found: list[dict[str, Any]] = json.load(file)["requirements"]
        return found
