"""The statements that a run proves, and the page that shows them, from made-up results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from conformance import page
from conformance.corpus import questions_of, selected
from conformance.kill_score import Kill
from conformance.mutants.all_mutants import ALL
from conformance.probes.question import Question
from conformance.proven import IN_PART, KNOWN, NOT_ASKED, NOT_KEPT, proven_text
from conformance.reports.run import Run
from conformance.revisions import CURRENT
from conformance.verdicts import Result, Verdict

HELLO = {"name": "x", "version": "1", "language": "C", "roles": ["checker"], "profiles": ["toy/v1"]}


@pytest.fixture(scope="module")
def question() -> Question:
    """Return a question about a case that proves statements."""
    return questions_of(selected(["toy-v1/step-skipped/one-missing"]), ["checker"])[0]


def exceptions(question: Question, *verdicts: Verdict) -> dict[str, dict[str, str]]:
    """Return the exceptions of an implementation with these verdicts on one question."""
    results = [Result(question=replace(question, detail=str(n)), verdict=verdict) for n, verdict in enumerate(verdicts)]
    run = Run(hello=HELLO, results=results, required=len(results))
    found: dict[str, dict[str, str]] = json.loads(proven_text([run]))["implementations"][0]["except"]
    return found


@pytest.mark.parametrize(
    ("verdicts", "limit"),
    [
        (("pass", "fail"), NOT_KEPT),
        (("pass", "error", "xfail"), NOT_KEPT),
        (("xpass",), NOT_KEPT),
        (("pass", "xfail"), KNOWN),
        (("pass", "untestable"), IN_PART),
        (("untestable", "not-applicable"), NOT_ASKED),
        (("not-applicable",), NOT_ASKED),
    ],
)
def test_worst_outcome_is_named(question: Question, verdicts: tuple[Verdict, ...], limit: str) -> None:
    """Each statement of the case is an exception in the tested role, with the worst verdict."""
    expected = {"rules/step-skipped": {"checker": limit}, "stream/steps-dense": {"checker": limit}}
    assert expected == exceptions(question, *verdicts)


def test_file_names_roles_and_profiles(question: Question) -> None:
    """An entry has the members of the hello, and the tested roles."""
    run = Run(hello=HELLO, results=[Result(question=question, verdict="pass")], required=1)
    entry = json.loads(proven_text([run]))["implementations"][0]
    about = {"name": "x", "language": "C", "revision": CURRENT}
    assert about | {"roles": ["checker"], "profiles": ["toy/v1"], "except": {}} == entry


def test_page_counts_mutants_by_role_and_names_those_that_are_not_caught() -> None:
    """The score counts the mutants of each role; a survivor is named with its defect."""
    mutant = ALL["first-key-wins"]
    lines = list(page.kills([Kill(mutant, "case [reader]", 3), Kill(mutant, None, 9)]))
    assert "The corpus catches **1 of 2** mutants." == lines[0]
    assert f"| {mutant.role} | 2 | 1 |" in lines
    assert f"Not caught: `first-key-wins`. {mutant.about}" == lines[-1]
