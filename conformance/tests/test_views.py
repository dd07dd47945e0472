"""The views that cases expect, and those that follow from their records and findings."""

from __future__ import annotations

from dataclasses import replace

from conformance.cases import Case, Finding
from conformance.comparing import value_differences
from conformance.views import summary

STEPS = (
    {"kind": "run_start", "t": {"float": "0.0"}, "run_id": "x"},
    {"kind": "step", "t": {"float": "1.0"}, "step": {"int": "1"}, "loss": {"float": "2.5"}},
)


def toy_case(*findings: Finding) -> Case:
    """Return a case of a run with one step."""
    data = b'{"kind":"run_start"}\n\n{"kind":"step"}\n'
    return Case(
        name="x",
        folder="x",
        why="",
        files={"events.jsonl": data},
        stream="events.jsonl",
        profile="toy/v1",
        state="torn",
        records=STEPS,
        findings=findings,
    )


def test_summaries_that_are_spelled_out_are_right(plain_cases: list[Case]) -> None:
    """A summary in a case file is the one that follows from records and findings."""
    chosen = [case for case in plain_cases if case.summary is not None]
    assert len(chosen) > 50
    assert [] == [error for case in chosen for error in value_differences(case.summary, summary(case), case.name)]


def test_cases_about_views_spell_them_out(plain_cases: list[Case]) -> None:
    """A case of the topic views has a summary, and proves a statement about views."""
    for case in plain_cases:
        if "/views/" in case.name:
            assert case.summary is not None, case.name
            assert any(name.startswith("views/") for name in (*case.accepts, *case.rejects)), case.name


def test_findings_are_of_the_line_that_they_name() -> None:
    """An invalid member is left out of the record on its line; blank lines count."""
    assert [{"float": "2.5"}] == summary(toy_case())["loss_curve"]
    invalid = Finding(rule="wrong-type", line=3, pointer="/loss")
    assert [] == summary(toy_case(invalid))["loss_curve"]
    assert [{"float": "2.5"}] == summary(toy_case(replace(invalid, line=1)))["loss_curve"]


def test_order_of_lines_makes_no_member_invalid() -> None:
    """A finding about the order of lines leaves the step in the views."""
    assert {"int": "1"} == summary(toy_case(Finding(rule="step-goes-backwards", line=3, pointer="/step")))["steps"]


def test_summary_is_loaded(plain_cases: list[Case]) -> None:
    """A case has the summary that its file lists."""
    case = next(case for case in plain_cases if case.name == "kaun-v1/views/empty")
    assert {"run_id": "empty", "tags": {}} == case.summary
