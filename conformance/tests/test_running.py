"""Asking adapters: order of answers, deadlines, and crashes with their causes."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from conformance.adapters import Adapter, AdapterError
from conformance.conversations import Conversation
from conformance.corpus import questions_of, selected
from conformance.one_shots import OneShots
from conformance.oracle.adapter import Oracle
from conformance.probes.question import Question
from conformance.running import run, topics_in_turn
from conformance.tests.adapters_for_tests import HEAD, program
from conformance.transcript import Transcript
from conformance.verdicts import Result


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    """Return the questions to checkers about one topic."""
    return questions_of(selected(["toy-v1/step-skipped"]), ["checker"])


def asked(command: list[str], questions: list[Question], **options: object) -> list[Result]:
    """Return the results of asking the adapter that *command* starts."""
    adapter = Adapter(command, **options)  # type: ignore[arg-type]  # each test knows what it gives
    adapter.ask_hello()
    return run(adapter, questions)


def verdicts(results: list[Result]) -> dict[str, int]:
    """Return how often each verdict was given."""
    found = [result.verdict for result in results]
    return {verdict: found.count(verdict) for verdict in found}


RIGHT = "for request in ask():\n    say({'id': request['id'], **oracle.answer(request)})\n"


def test_right_adapter_passes_in_both_modes(tmp_path: Path, questions: list[Question]) -> None:
    """A right adapter passes every question, and the results have the order of the questions."""
    command = program(tmp_path, RIGHT)
    for mode, some in (("lines", questions), ("oneshot", questions[:4])):
        results = asked(command, some, mode=mode)
        assert {"pass": len(some)} == verdicts(results)
        assert some == [result.question for result in results]


def test_first_questions_are_about_different_topics() -> None:
    """Where each question starts a program, the first ones are about all topics, and none is left out."""
    questions = questions_of(selected(["toy-v1/step-skipped", "toy-v1/torn", "toy-v1/strings"]), ["reader", "checker"])
    order = topics_in_turn(questions)
    first = {(questions[index].role, questions[index].case.name.rpartition("/")[0]) for index in order[:6]}
    assert 6 == len(first)
    assert list(range(len(questions))) == sorted(order)


def test_answers_in_any_order(tmp_path: Path, questions: list[Question]) -> None:
    """An adapter may answer the second request before the first."""
    body = """
import itertools, threading
def answer(request, wait):
    time.sleep(wait)
    say({'id': request['id'], **oracle.answer(request)})
for request, wait in zip(ask(), itertools.cycle([0.05, 0.0])):
    threading.Thread(target=answer, args=(request, wait)).start()
"""
    assert {"pass": len(questions)} == verdicts(asked(program(tmp_path, body), questions))


def test_only_the_cause_of_a_crash_is_an_error(tmp_path: Path, questions: list[Question]) -> None:
    """Of the questions in flight at a crash, only the one that caused it is an error."""
    victim = questions[3]
    body = f"""
for request in ask():
    if request['stream'] == {victim.case.data!r}:
        os.abort()
    say({{'id': request['id'], **oracle.answer(request)}})
"""
    results = asked(program(tmp_path, body), questions)
    assert {"pass": len(questions) - 1, "error": 1} == verdicts(results)
    (bad,) = [result for result in results if result.verdict == "error"]
    assert victim == bad.question
    assert "terminated by signal 6" in bad.reasons[0]


@pytest.mark.slow
def test_only_a_late_answer_is_an_error(tmp_path: Path, questions: list[Question]) -> None:
    """A question that is never answered is an error after the deadline, and the others still pass."""
    victim = questions[1]
    body = f"""
for request in ask():
    if request['stream'] == {victim.case.data!r}:
        time.sleep(3600)
    say({{'id': request['id'], **oracle.answer(request)}})
"""
    start = time.monotonic()
    results = asked(program(tmp_path, body), questions, deadline=1.0)
    assert ["error"] == [result.verdict for result in results if result.question == victim]
    assert {"pass": len(questions) - 1, "error": 1} == verdicts(results)
    assert time.monotonic() - start < 1800


@pytest.mark.parametrize("connection", [Conversation, OneShots])
def test_large_records_have_more_time(tmp_path: Path, connection: type[Conversation | OneShots]) -> None:
    """Each MiB of a request, in its records too, adds a second to the deadline."""
    head = """
import json, sys, time
if sys.argv[1] == "--oneshot":
    sys.stdin.read()
    time.sleep(1.0)
    sys.exit(1)
print(json.dumps({"hello": HELLO}), flush=True)
for line in sys.stdin:
    time.sleep(1.0)
    print(json.dumps({"id": json.loads(line)["id"], "outcome": "refused"}), flush=True)
"""
    adapter = Adapter(program(tmp_path, "", head=head.replace("HELLO", repr(Oracle().hello()))), deadline=0.5)
    channel = connection(adapter)
    records = [{"kind": "note", "t": {"float": "0.0"}, "text": ""}]
    try:
        with pytest.raises(AdapterError, match=r"no answer within 0\.5 seconds"):
            channel.ask({"role": "writer", "profile": "toy/v1", "records": records})
        channel = channel if connection is OneShots else connection(adapter)
        records[0]["text"] = "x" * (8 << 20)
        assert "refused" == channel.ask({"role": "writer", "profile": "toy/v1", "records": records})["outcome"]
    finally:
        channel.close()


ONESHOT = "    sys.exit(oneshot(oracle, sys.argv[2], sys.argv[3:]))"


@pytest.mark.parametrize(
    ("role", "end", "verdict", "reason"),
    [
        (
            "checker",
            "sys.stderr.write('no idea'); sys.stderr.flush(); os._exit(3)",
            "error",
            ".*exit status 3.*no idea.*",
        ),
        ("writer", "sys.exit('no such kind')", "fail", ".*no such kind.*"),
        ("checker", "sys.stderr.write('no such thing'); sys.exit(77)", "untestable", "no such thing"),
    ],
)
def test_ends_in_oneshot_mode(tmp_path: Path, role: str, end: str, verdict: str, reason: str) -> None:
    """A status other than 0, 1 (refused) and 77 (untestable) is a crash; standard error is in the reason."""
    head = HEAD.replace('["checker"]', f'["{role}"]').replace(ONESHOT, f"    {end}")
    (question, *_) = questions_of(selected(["toy-v1/step-skipped"]), [role])
    (result,) = asked(program(tmp_path, "", head=head), [question], mode="oneshot")
    assert verdict == result.verdict
    assert re.fullmatch(reason, result.reasons[0], re.DOTALL)


def test_untestable(tmp_path: Path, questions: list[Question]) -> None:
    """An adapter may answer that its library cannot do what is asked."""
    body = "for request in ask():\n    say({'id': request['id'], 'untestable': 'no such thing here'})\n"
    assert {"untestable": len(questions)} == verdicts(asked(program(tmp_path, body), questions))


@pytest.mark.parametrize(
    ("capabilities", "role", "reason"),
    [
        ([], "checker", "needs capability line_limit"),
        ({"reader": ["line_limit"]}, "checker", "needs capability line_limit"),
        ({"reader": ["line_limit"]}, "reader", ""),
    ],
)
def test_not_applicable(capabilities: object, role: str, reason: str, tmp_path: Path) -> None:
    """A question that needs a capability that the hello does not name, for all roles or for this one, is not asked."""
    head = HEAD.replace("hello() | {", f'hello() | {{"capabilities": {capabilities}, ')
    head = head.replace('"roles": ["checker"]', '"roles": ["reader", "checker"]')
    questions = questions_of(selected(["toy-v1/line-too-long/one-beyond-the-limit"]), [role])
    results = asked(program(tmp_path, RIGHT, head=head), questions)
    assert {"not-applicable" if reason else "pass": len(questions)} == verdicts(results)
    assert not reason or (reason,) == results[0].reasons


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ("sys.exit(4)", "exit status 4"),
        ("print('{\"hello\": {}}')", "has no member protocol"),
        ("print('hello')", "stray output on standard output: b'hello"),
        ("print('{}'); print('{}')", "printed 2 lines"),
        ("", "printed 0 lines"),
    ],
)
def test_hello_that_is_wrong(tmp_path: Path, body: str, fact: str) -> None:
    """A wrong hello raises an error with the reason."""
    with pytest.raises(AdapterError, match=fact):
        Adapter(program(tmp_path, body, head="import sys\n")).ask_hello()


def test_program_that_does_not_start() -> None:
    """A command that cannot be started is named."""
    with pytest.raises(AdapterError, match="does not start"):
        Adapter("/no/such/program").ask_hello()


def test_what_an_adapter_starts_ends_with_it(tmp_path: Path, questions: list[Question]) -> None:
    """A process that the adapter started itself does not outlive the run."""
    body = f"""
import subprocess
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])
open({str(tmp_path / "child")!r}, 'w').write(str(child.pid))
{RIGHT}"""
    asked(program(tmp_path, body), questions[:1])
    child = int((tmp_path / "child").read_text())
    for _ in range(50):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"process {child} is still there")


def test_transcript(tmp_path: Path, questions: list[Question]) -> None:
    """A transcript has every message of both sides."""
    path = tmp_path / "talk.jsonl"
    with path.open("w") as file:
        asked(program(tmp_path, RIGHT), questions[:3], transcript=Transcript(file))
    lines = path.read_text().splitlines()
    assert 3 == sum('"to"' in line for line in lines)
    assert 4 == sum('"from"' in line for line in lines)  # the hello and three answers


@pytest.mark.parametrize("answers_first", [False, True])
def test_no_crash_goes_unreported(tmp_path: Path, answers_first: bool) -> None:
    """An adapter that crashes at every ninth request, whatever it asks, has an error for each crash."""
    # Each crash costs 9 to 11 questions, those in flight among them: the fourth is never at the last one, after which
    # a program is not needed any more.
    questions = questions_of(selected(["toy-v1/fields"]), ["checker"])[:44]
    say = "say({'id': request['id'], **oracle.answer(request)})"
    crashes = tmp_path / "crashes"
    body = f"""
import signal
for number, request in enumerate(ask(), 1):
    if number % 9 == 0:
        {say if answers_first else "pass"}
        open({str(crashes)!r}, 'a').write('x')
        os.kill(os.getpid(), signal.SIGSEGV)
    {say}
"""
    errors = [result for result in asked(program(tmp_path, body), questions) if result.verdict == "error"]
    assert 4 == len(crashes.read_text()) == len(errors)
    assert all("signal 11" in result.reasons[0] for result in errors)
