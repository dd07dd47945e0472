"""Verdicts, baselines and reports, from made-up results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from conformance import baseline, statements
from conformance.baseline import BaselineError, Entry
from conformance.corpus import questions_of, selected
from conformance.escaping import markdown, markup, printable
from conformance.probes.expected import file_differences
from conformance.probes.question import Question
from conformance.reports import human, machine
from conformance.reports.matrix import badge_json, badge_svg, matrix
from conformance.reports.published import report_of
from conformance.reports.run import Run
from conformance.revisions import newest
from conformance.session_cases import load as load_sessions
from conformance.statements import musts_of
from conformance.verdicts import VERDICTS, Result, Tally, Verdict

HELLO = {"name": "x", "version": "1", "language": "C", "roles": ["checker"], "profiles": ["toy/v1"]}
EVIL = "\x1b[31mred\n::error::<script>|\u202e\ud800"


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    """Return a few questions."""
    return questions_of(selected(["toy-v1/step-skipped"]), ["checker"])


def made(questions: list[Question], *verdicts: Verdict, required: int | None = None, name: str = "x") -> Run:
    """Return a run with one result for each of *verdicts*."""
    results = [
        Result(question=question, verdict=verdict, reasons=(EVIL,) if verdict != "pass" else ())
        for question, verdict in zip(questions, verdicts, strict=False)
    ]
    return Run(hello=HELLO | {"name": name}, results=results, required=required or len(results), corpus="abc", cases=9)


def test_every_question_has_a_name_of_its_own() -> None:
    """Every question of the corpus has a unique name, so that a baseline can name it."""
    names = [question.name for question in questions_of(selected(()), ["reader", "writer", "checker", "follower"])]
    assert len(set(names)) == len(names)


def test_only_good_verdicts_make_a_good_run(questions: list[Question]) -> None:
    """A run is good when nothing failed, xpassed or broke, something was asked, and no required question was missed."""
    good = {verdict for verdict in VERDICTS if made(questions, "pass", verdict).is_good}
    assert {"fail", "xpass", "error"} == set(VERDICTS) - good
    assert not made(questions, "not-applicable", "not-applicable").is_good
    assert not Tally().is_good
    assert not made(questions, "pass", "pass", required=3).is_good


def test_failures_with_one_reason_are_shown_three_times(questions: list[Question]) -> None:
    """What goes wrong everywhere for one reason does not hide what goes wrong for another."""
    run = made(questions, "fail", "fail", "fail", "fail", "fail")
    other = Result(question=questions[5], verdict="error", reasons=("no answer",))
    shown = list(human.failures(replace(run, results=[*run.results, other])))
    assert 3 == sum(line.startswith("FAIL") for line in shown)
    assert any(line.startswith("ERROR") for line in shown)
    assert f"and 2 more for the same reason: {printable(EVIL)}" == shown[-1]


def test_known_failures(questions: list[Question]) -> None:
    """A failure or crash that the baseline names is xfail, one that passes xpass; an entry of no question is stale."""
    stale = Entry("toy-v1/no-such-case [checker]", "later")
    entries = [Entry("toy-v1/step-skipped/* [checker]", "later"), stale]
    results, unused = baseline.apply(entries, made(questions, "fail", "error", "not-applicable", "pass").results)
    assert ["xfail", "xfail", "not-applicable", "xpass"] == [result.verdict for result in results]
    assert ("known failure: later",) == results[3].reasons
    assert [stale] == unused


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("{", "is not JSON"),
        ("[]", "must have a list named known_failures"),
        ('{"known_failures": [{"question": "x"}]}', "must be an object with the members question and reason"),
        ('{"known_failures": [{"question": "x", "reason": " "}]}', "must give the reason why"),
        ('{"known_failures": [{"question": "x", "reason": "say why"}]}', "must give the reason why"),
        ('{"known_failures": [{"question": 1, "reason": "x"}]}', "must be text"),
    ],
)
def test_baseline_that_is_wrong(tmp_path: Path, text: str, fact: str) -> None:
    """A baseline that is not well formed, or gives no reason, is refused with its place."""
    path = tmp_path / "known.json"
    path.write_text(text)
    with pytest.raises(BaselineError, match=fact):
        baseline.load(str(path))


def test_baseline_that_was_written(tmp_path: Path, questions: list[Question]) -> None:
    """A baseline that the runner wrote lacks only the reasons."""
    path = tmp_path / "known.json"
    path.write_text(baseline.as_text(made(questions, "fail", "pass", "error").results))
    with pytest.raises(BaselineError, match="must give the reason why"):
        baseline.load(str(path))
    path.write_text(path.read_text().replace(baseline.UNEXPLAINED, "not today"))
    assert [questions[0].name, questions[2].name] == [entry.question for entry in baseline.load(str(path))]


def test_junit_is_xml(questions: list[Question]) -> None:
    """The report for CI systems can be parsed, has the right counts, and is valid XML for any text."""
    run = made(questions, "pass", "fail", "error", "xfail", "xpass", "untestable", "not-applicable", name=EVIL)
    root = ET.fromstring("\n".join(machine.junit(run)))
    assert ("7", "2", "1") == (root.get("tests"), root.get("failures"), root.get("errors"))
    assert 3 == len(root.findall(".//skipped"))
    assert 2 == len(root.findall(".//failure"))


def test_jsonl(questions: list[Question]) -> None:
    """The report in JSON Lines has a hello, each result and a summary."""
    first, *results, last = map(json.loads, machine.jsonl(made(questions, "pass", "fail")))
    assert HELLO == first["hello"]
    assert ["pass", "fail"] == [result["verdict"] for result in results]
    assert {"required": 2, "expected": 2, "ran": 2, "good": False, "verdicts": {"pass": 1, "fail": 1}} == last[
        "summary"
    ]


def test_text_is_harmless(questions: list[Question]) -> None:
    """Text from an adapter cannot act in a terminal, begin a line of a CI log, or break a table."""
    run = made(questions, "fail", "error", name=EVIL)
    shown = [*human.lines(run), *matrix([run]), badge_svg(run), *machine.junit(run)]
    text = "\n".join(shown)
    assert all(character == "\n" or (character.isprintable()) for character in text.rstrip("\n"))
    assert [] == [line for line in text.splitlines() if line.startswith("::")]
    assert "<script>" not in "".join(matrix([run])) + badge_svg(run) + "".join(machine.junit(run))


def test_escapes() -> None:
    """Control characters, direction marks and lone surrogates are shown as escapes."""
    assert r"\x1b[31m \u202e \ud800 \U000e0001" == printable("\x1b[31m \u202e \ud800 \U000e0001")
    assert "&lt;a&gt;&amp;&quot;" == markup('<a>&"')
    assert r"a\|b\`c" == markdown("a|b`c")


def test_claim(questions: list[Question]) -> None:
    """A good run of everything ends in a claim with roles, profiles, revisions, the corpus, and its limits."""
    unasked = len(musts_of(["checker"]) - {*questions[0].case.accepts, *questions[0].case.rejects})
    claim = human.conclusion(made(questions, "pass"))
    assert unasked > 0
    assert (
        f"x 1 (C) conforms as checker; toy/v1 revision {newest()['toy/v1']}; corpus abc of 9 cases; "
        f"{unasked} MUSTs of these roles were not asked"
    ) == claim
    assert "; 1 of 2 questions were untestable; " in human.conclusion(made(questions, "pass", "untestable"))


def test_claim_names_what_the_hello_leaves_out(questions: list[Question]) -> None:
    """Modes and capabilities that an implementation lacks are in its claim."""
    left_out = [
        Result(question=question, verdict="not-applicable", reasons=(f"needs {what}",))
        for question, what in zip(
            questions[1:], ("mode salvage", "capability session", "capability bundle"), strict=False
        )
    ]
    good = Result(question=questions[0], verdict="pass")
    hello = HELLO | {"modes": ["tail", "strict"]}
    run = Run(hello=hello, results=[good, *left_out], required=4, corpus="abc", cases=9)
    assert "; modes tail, strict only; without bundle, session; " in human.conclusion(run)


def test_claim_names_what_only_sessions_show() -> None:
    """A writer that names no sessions conforms, but neither claim nor badge is silent about what nothing showed."""
    session = questions_of(load_sessions(), ["writer"])[0]
    written = next(iter(questions_of(selected(("toy-v1/step-skipped",)), ["writer"])))
    results = [
        Result(question=written, verdict="pass", seconds=0.25),
        Result(question=session, verdict="not-applicable", reasons=("needs capability session",)),
    ]
    run = Run(hello=HELLO | {"roles": ["writer"]}, results=results, required=2)
    assert "; without session; it was not shown that a record is in the file" in human.conclusion(run)
    assert "writer (without session)" == json.loads(badge_json(run))["message"]
    assert [written.name, session.name] == list(report_of(run, None)["corpus"]["slowest"])


@pytest.mark.parametrize(("verdict", "message"), [("pass", "checker"), ("fail", "does not conform")])
def test_badge(questions: list[Question], verdict: Verdict, message: str) -> None:
    """A badge names the proven roles, and is green only if everything passed."""
    run = made(questions, verdict)
    assert message == json.loads(badge_json(run))["message"]
    assert f"toyspec: {message}" == ET.fromstring(badge_svg(run)).get("aria-label")


def test_deviation_does_not_deny_conformance(questions: list[Question]) -> None:
    """A run with a deviation conforms; the report lists it, and the claim counts it."""
    run = made(questions, "pass", "deviation")
    assert run.is_good
    assert "; deviations from SHOULDs: 1;" in human.conclusion(run)
    assert [f"DEVIATION {questions[1].name}"] == [line for line in human.lines(run) if line.startswith("DEVIATION")]


@pytest.mark.parametrize(
    ("name", "verdict", "expected"),
    [
        ("run-id-with-a-space", "fail", "deviation"),
        ("run-id-with-a-space", "error", "error"),
        ("errored", "fail", "fail"),
    ],
)
def test_failure_of_a_should_is_a_deviation(name: str, verdict: Verdict, expected: Verdict) -> None:
    """A failure, not a crash, of a case that proves only SHOULDs is a deviation, unless it has a MUST too."""
    (question,) = questions_of(selected([f"sessions/toy-v1/{name}"]), ["writer"])
    result = statements.decided(Result(question=question, verdict=verdict, reasons=("why",)))
    assert (expected, "why") == (result.verdict, result.reasons[-1])


def test_changed_files_are_shown() -> None:
    """Each file that is missing, new or different is named with what was expected and what was found."""
    found = file_differences({"a": b"12345", "b": b"x", "same": b""}, {"a": b"129", "c": b"yy", "same": b""})
    assert [
        "the file 'a' changed: it has 3 bytes, expected 5; at byte 2 it has '9', expected '345'",
        "the file 'b' changed: it is missing, expected 1 bytes",
        "the file 'c' changed: it exists with 2 bytes, expected no such file",
    ] == found


def test_claim_says_which_shoulds_were_asked() -> None:
    """The claim has the number that was asked, or those that the implementation does not keep."""
    (question,) = questions_of(selected(["sessions/toy-v1/run-id-with-a-space"]), ["writer"])
    result = Result(question=question, verdict="pass")
    run = Run(hello=HELLO | {"roles": ["writer"]}, results=[result], required=1)
    every = len(statements.shoulds_of(["writer"]))
    assert f"; follows every SHOULD that was asked: 1 of {every}; " in human.conclusion(run)
    departs = replace(run, hello={**run.hello, "departs_from": ["encoding/non-finite-named"]})
    assert "; without the SHOULDs encoding/non-finite-named, as its hello says; " in human.conclusion(departs)
    assert "follows every SHOULD" not in human.conclusion(departs)
    assert ["encoding/non-finite-named"] == report_of(departs, None)["corpus"]["departs_from"]
