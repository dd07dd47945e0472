"""Questions that are drawn: the oracle answers each, and what is wrong once in thousands of answers is found."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pytest

from conformance.fresh import fresh_questions, hunt
from conformance.inside import Inside, reasons_of
from conformance.oracle.adapter import Message, Oracle
from conformance.oracle.writing import Writing
from conformance.probes.question import ROLES, Stage
from conformance.reports.human import conclusion
from conformance.reports.run import Run
from conformance.revisions import CURRENT
from conformance.verdicts import Result

pytestmark = pytest.mark.slow


def stage_of(oracle: Oracle, folder: Path) -> Stage:
    """Return the stage of an adapter in this process."""
    return Stage(Inside(oracle), partial(tempfile.mkdtemp, dir=folder), oracle.hello())


def test_the_oracle_answers_what_is_drawn(tmp_path: Path) -> None:
    """Each role is asked, a seed draws the same again, and the oracle, which gives the answers, has them."""
    asked = list(fresh_questions(1, 60, ROLES))
    assert set(ROLES) == {question.role for question in asked}
    again = fresh_questions(1, 60, ROLES)
    assert [question.case.why for question in asked] == [question.case.why for question in again]
    stage = stage_of(Oracle(), tmp_path)
    assert [] == [question.name for question in asked if reasons_of(question, stage)]


class Lying(Oracle):
    """Counts one record more in a stream that has a null."""

    def read(self, request: Message) -> Message:
        """Answer as a reader."""
        answer = super().read(request)
        return answer | {"count": answer["count"] + (b"null" in request.get("stream", b""))}


class TimedByAll(Writing):
    """Takes the time of records of unknown kinds for that of the run, too."""

    def counts_time(self, members: object) -> bool:
        """Return that each record takes part."""
        return True


class Counting(Oracle):
    """Writes as it does."""

    writing_type = TimedByAll


@pytest.mark.parametrize(("oracle", "small"), [(Lying(), "stream 'null'"), (Counting(), '"kind": "mine"')])
def test_a_difference_is_found_and_shrunk(oracle: Oracle, small: str, tmp_path: Path) -> None:
    """An implementation with one other answer is caught, and the input is cut down to what shows it."""
    _, found = hunt({"other": stage_of(oracle, tmp_path)}, 1, 0.0, CURRENT, least=250)
    assert [] != [difference for difference in found if small in difference]
    assert max(map(len, found)) < 700


def test_the_conclusion_names_the_seed() -> None:
    """Who has a failure can ask the same questions again."""
    question = next(fresh_questions(7, 5, ROLES))
    results = [Result(question=question, verdict="pass")]
    run = Run(hello=Oracle().hello(), results=results, required=1, seed=7)
    assert "questions of seed 7" in conclusion(run)
