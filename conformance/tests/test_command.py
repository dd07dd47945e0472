"""The command line: its output and its exit status."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import command, registry
from conformance.command import BAD, GOOD, USAGE, main
from conformance.tests.adapters_for_tests import HEAD, program

pytestmark = pytest.mark.slow

ORACLE = f"{sys.executable} -m conformance.oracle"
TOPIC = ["--select", "toy-v1/step-skipped"]
RIGHT = "for request in ask():\n    say({'id': request['id'], **oracle.answer(request)})\n"
WRONG = "for request in ask():\n    say({'id': request['id'], **oracle.answer(request), 'valid': False})\n"
FORGETFUL = """
seen = []
for request in ask():
    is_right = request["stream"] not in seen
    seen.append(request["stream"])
    answer = oracle.answer(request)
    say({"id": request["id"], **answer, "valid": answer["valid"] is is_right})
"""
"""It is right about a stream that it has not seen."""


@pytest.fixture(autouse=True)
def in_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where ``conformance`` can be imported."""
    monkeypatch.chdir(registry.ROOT)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit status, standard output and standard error."""
    code = main(list(arguments))
    found = capsys.readouterr()
    return code, found.out, found.err


def test_first_failures_are_shown_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of one program per question says how long it takes, and shows its first failures before its end."""
    monkeypatch.setattr(command, "_LONG_SECONDS", 0.0)
    crash = HEAD.replace("sys.exit(oneshot(oracle, sys.argv[2], sys.argv[3:]))", "sys.exit(3)")
    wrong = " ".join(program(tmp_path, "", head=crash))
    asked = ["--adapter", wrong, "--select", "toy-v1/step-skipped/o*", "--mode", "oneshot"]
    code, said, early = shown(capsys, *asked)
    assert BAD == code
    assert "With --lines it is started once;" in early
    names = [line for line in said.splitlines() if line.startswith("ERROR  toy-v1/step-skipped/")]
    assert len(names) == len(set(names)) >= 1, "a failure is shown once"
    assert "ERROR " not in early


def test_baseline_makes_a_wrong_adapter_pass_until_it_is_fixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failure is shown with its folder and reason; known failures do not fail a run until one of them passes."""
    known = str(tmp_path / "known.json")
    wrong = ["--adapter", " ".join(program(tmp_path, WRONG)), *TOPIC]
    code, said, _ = shown(capsys, *wrong, "--write-baseline", known)
    assert BAD == code
    assert "valid is False, expected True" in said
    assert "conformance/cases/toy-v1/step-skipped/" in said
    Path(known).write_text(Path(known).read_text().replace("say why", "not today"))
    assert GOOD == shown(capsys, *wrong, "--baseline", known)[0]
    program(tmp_path, RIGHT)
    code, said, _ = shown(capsys, *wrong, "--baseline", known)
    assert BAD == code
    assert "XPASS" in said


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ([], "--adapter is missing"),
        (["--adapter", "/no/such/program"], "does not start"),
        (["--adapter", ORACLE, "--select", "toy-v1/no-such-topic"], "nothing to ask"),
        (["--adapter", ORACLE, *TOPIC, "--baseline", "/no/such/file"], "No such file"),
        (["kill", "--only", "unknown"], "no mutant is named 'unknown'"),
        (["registered", "--only", "unknown"], "the registry has no 'unknown'; it has python, "),
    ],
)
def test_nothing_can_be_asked(capsys: pytest.CaptureFixture[str], arguments: list[str], fact: str) -> None:
    """If nothing can be asked, the status is 2 and the reason is on standard error."""
    code, _, complaint = shown(capsys, *arguments)
    assert USAGE == code
    assert fact in complaint


def test_answer_that_changes_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that is wrong when it is asked again fails with --repeat alone; the report has the number."""
    report = tmp_path / "report.json"
    asked = ["--adapter", " ".join(program(tmp_path, FORGETFUL)), "--jobs", "1", "--report", str(report)]
    one = ["--select", "toy-v1/step-skipped/one-missing"]
    assert GOOD == shown(capsys, *asked, *one)[0]
    assert 1 == json.loads(report.read_text())["corpus"]["rounds"]
    code, said, _ = shown(capsys, *asked, *one, "--repeat", "2")
    assert BAD == code
    assert "the answer changed: pass at first, fail when asked again" in said
    assert "1 of 1 questions failed" in said
    program(tmp_path, RIGHT)
    code, said, _ = shown(capsys, *asked, *TOPIC, "--repeat", "3")
    assert GOOD == code
    assert "; each question asked 3 times" in said
    assert 3 == json.loads(report.read_text())["corpus"]["rounds"]
    code, _, complaint = shown(capsys, *asked, "--repeat", "0")
    assert (USAGE, True) == (code, "--repeat is 0, and must be 1 or more" in complaint)


def test_hello_departs_from_a_should_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A MUST is not left out by name."""
    for statement, status in (("rules/media-missing", GOOD), ("encoding/utf-8", USAGE), ("no/such", USAGE)):
        head = HEAD.replace('"roles"', f'"departs_from": ["{statement}"], "roles"')
        adapter = " ".join(program(tmp_path, RIGHT, head=head))
        code, said, complaint = shown(capsys, "--adapter", adapter, "--select", "toy-v1/step-skipped/one-missing")
        assert status == code, said
        assert (status == USAGE) == (f"departs from {statement}, which is not a SHOULD" in complaint)


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The questions of a topic, or about a statement, can be listed without starting an adapter."""
    code, said, _ = shown(capsys, "list", *TOPIC, "--role", "checker")
    assert GOOD == code
    assert "toy-v1/step-skipped/one-missing [checker]" in said.splitlines()
    _, said, _ = shown(capsys, "list", "--select", "proves:writing/resume-refused")
    assert {"sessions/toy-v1/goes-on-after-its-end [writer]", "sessions/toy-v1/resumed-damaged [writer]"} <= set(
        said.splitlines()
    )


def test_reports_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each report goes to the file that is named for it."""
    names = {"jsonl": "r.jsonl", "junit": "r.xml", "matrix": "r.md", "badge": "r.svg", "transcript": "t.jsonl"}
    options = [part for option, name in names.items() for part in (f"--{option}", str(tmp_path / name))]
    assert GOOD == shown(capsys, "--adapter", ORACLE, "--select", "toy-v1/step-skipped/one-missing", *options)[0]
    assert [] == [name for name in names.values() if not (tmp_path / name).read_text()]
    assert json.loads((tmp_path / "r.jsonl").read_text().splitlines()[-1])["summary"]["good"]


def test_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor finds nothing wrong with a right adapter, and names the duty that a wrong one breaks."""
    asked = ["doctor", "--adapter", " ".join(program(tmp_path, RIGHT))]
    assert GOOD == shown(capsys, *asked)[0]
    program(tmp_path, WRONG)
    code, said, _ = shown(capsys, *asked)
    assert BAD == code
    assert "WRONG  --lines: checker of a complete stream" in said
    # It sends no request for a role that the adapter does not have.
    body = """
for request in ask():
    assert request["role"] == "writer"
    answer = oracle.answer(request)
    say({"id": request["id"], **answer, "stream": base64.b64encode(answer["stream"]).decode()})
"""
    program(tmp_path, body, head=HEAD.replace('["checker"]', '["writer"]'))
    assert GOOD == shown(capsys, *asked)[0]


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (
            {"needs": [["no-such-compiler", "--version"]], "install": "a compiler"},
            "other: not asked: `no-such-compiler --version` does not run; install a compiler",
        ),
        ({"build": [["{python}", "-c", "import sys; sys.exit('missing semicolon')"]]}, "missing semicolon"),
    ],
)
def test_implementation_that_cannot_be_built(
    change: dict[str, Any],
    fact: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A toolchain that is missing is named, and a failure only in CI; a failed build is one everywhere."""
    entries = json.loads(Path(registry.REGISTRY).read_text())["implementations"]
    python = next(entry for entry in entries if entry["name"] == "python")
    path = tmp_path / "implementations.json"
    path.write_text(json.dumps({"implementations": [python, python | {"name": "other"} | change]}))
    loaded = registry.load(str(path))
    monkeypatch.setattr(registry, "load", lambda: loaded)
    monkeypatch.delenv("CI", raising=False)
    asked = ["registered", "--select", "toy-v1/step-skipped/one-missing"]
    code, said, _ = shown(capsys, *asked)
    assert (GOOD if "needs" in change else BAD) == code
    assert fact in said
    monkeypatch.setenv("CI", "true")
    assert BAD == shown(capsys, *asked)[0]


def test_registry_is_well_formed() -> None:
    """Every implementation that is registered has its folder, roles that exist and a unique name."""
    loaded = registry.load()
    assert len({entry.name for entry in loaded}) == len(loaded)
    assert [] == [entry.name for entry in loaded if not Path(entry.folder).is_dir()]
    assert {"reader", "writer", "canonical-writer"} <= set.intersection(*(set(entry.roles) for entry in loaded))
