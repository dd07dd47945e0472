"""The command line: its output and its exit status."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from conformance import command, registry
from conformance.command import BAD, GOOD, USAGE, main
from conformance.tests.adapters_for_tests import HEAD, program

pytestmark = pytest.mark.slow

ORACLE = f"{sys.executable} -m conformance.oracle"
TOPIC = ["--select", "toy-v1/step-skipped"]
WRONG = "for request in ask():\n    say({'id': request['id'], **oracle.answer(request), 'valid': False})\n"


@pytest.fixture(autouse=True)
def in_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where ``conformance`` can be imported."""
    monkeypatch.chdir(registry.ROOT)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit status, standard output and standard error."""
    code = main(list(arguments))
    found = capsys.readouterr()
    return code, found.out, found.err


def test_right_adapter(capsys: pytest.CaptureFixture[str]) -> None:
    """A right adapter gives status 0, and the counts."""
    code, said, _ = shown(capsys, "--adapter", ORACLE, *TOPIC)
    assert GOOD == code
    assert "no failure in the selected part of the corpus" in said


def test_wrong_adapter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong adapter gives status 1 and the case, with its folder and its reason."""
    code, said, _ = shown(capsys, "--adapter", " ".join(program(tmp_path, WRONG)), *TOPIC)
    assert BAD == code
    assert "valid is False, expected True" in said
    assert "conformance/cases/toy-v1/step-skipped/" in said


def test_first_failures_are_shown_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of one program per question says how long it takes, and shows its first failures before its end."""
    monkeypatch.setattr(command, "_LONG_SECONDS", 0.0)
    crash = HEAD.replace("sys.exit(oneshot(oracle, sys.argv[2], sys.argv[3:]))", "sys.exit(3)")
    wrong = " ".join(program(tmp_path, "", head=crash))
    code, _, early = shown(capsys, "--adapter", wrong, "--select", "toy-v1/step-skipped/o*", "--mode", "oneshot")
    assert BAD == code
    assert "With --lines it is started once;" in early
    assert "ERROR  toy-v1/step-skipped/" in early


def test_baseline_makes_a_wrong_adapter_pass_until_it_is_fixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known failures do not fail a run; when one of them passes, the run fails."""
    known = tmp_path / "known.json"
    wrong = " ".join(program(tmp_path, WRONG))
    assert BAD == shown(capsys, "--adapter", wrong, *TOPIC, "--write-baseline", str(known))[0]
    known.write_text(known.read_text().replace("say why", "not today"))
    assert GOOD == shown(capsys, "--adapter", wrong, *TOPIC, "--baseline", str(known))[0]
    right = WRONG.replace(", 'valid': False", "")
    code, said, _ = shown(capsys, "--adapter", " ".join(program(tmp_path, right)), *TOPIC, "--baseline", str(known))
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


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The questions of a topic can be listed without starting an adapter."""
    code, said, _ = shown(capsys, "list", *TOPIC, "--role", "checker")
    assert GOOD == code
    assert "toy-v1/step-skipped/one-missing [checker]" in said.splitlines()


def test_selection_by_statement(capsys: pytest.CaptureFixture[str]) -> None:
    """Cases can be selected by the statement that they prove."""
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
    assert (
        GOOD
        == shown(capsys, "doctor", "--adapter", " ".join(program(tmp_path, WRONG.replace(", 'valid': False", ""))))[0]
    )
    code, said, _ = shown(capsys, "doctor", "--adapter", " ".join(program(tmp_path, WRONG)))
    assert BAD == code
    assert "WRONG  --lines: checker of a complete stream" in said


def test_doctor_asks_for_the_roles_of_the_hello(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor sends no request for a role that the adapter does not have."""
    body = """
for request in ask():
    assert request["role"] == "writer"
    answer = oracle.answer(request)
    say({"id": request["id"], **answer, "stream": base64.b64encode(answer["stream"]).decode()})
"""
    writer = program(tmp_path, body, head=HEAD.replace('["checker"]', '["writer"]'))
    assert GOOD == shown(capsys, "doctor", "--adapter", " ".join(writer))[0]


def test_toolchain_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toolchain that is missing is named; it is a failure only in CI."""
    entries = json.loads(Path(registry.REGISTRY).read_text())["implementations"]
    python = next(entry for entry in entries if entry["name"] == "python")
    other = python | {"name": "cobol", "needs": [["no-such-compiler", "--version"]], "install": "a compiler"}
    path = tmp_path / "implementations.json"
    path.write_text(json.dumps({"implementations": [python, other]}))
    loaded = registry.load(str(path))
    monkeypatch.setattr(registry, "load", lambda: loaded)
    monkeypatch.delenv("CI", raising=False)
    code, said, _ = shown(capsys, "registered", "--select", "toy-v1/step-skipped/one-missing")
    assert GOOD == code
    assert "cobol: not asked: `no-such-compiler --version` does not run; install a compiler" in said
    monkeypatch.setenv("CI", "true")
    assert BAD == shown(capsys, "registered", "--select", "toy-v1/step-skipped/one-missing")[0]


def test_build_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed build is a failure everywhere, and the end of its output is shown."""
    entries = json.loads(Path(registry.REGISTRY).read_text())["implementations"]
    python = next(entry for entry in entries if entry["name"] == "python")
    broken = python | {"name": "broken", "build": [["{python}", "-c", "import sys; sys.exit('missing semicolon')"]]}
    path = tmp_path / "implementations.json"
    path.write_text(json.dumps({"implementations": [python, broken]}))
    loaded = registry.load(str(path))
    monkeypatch.setattr(registry, "load", lambda: loaded)
    monkeypatch.delenv("CI", raising=False)
    code, said, _ = shown(capsys, "registered", "--select", "toy-v1/step-skipped/one-missing")
    assert BAD == code
    assert "missing semicolon" in said


def test_registry_is_well_formed() -> None:
    """Every implementation that is registered has its folder, roles that exist and a unique name."""
    loaded = registry.load()
    assert len({entry.name for entry in loaded}) == len(loaded)
    assert [] == [entry.name for entry in loaded if not Path(entry.folder).is_dir()]
    assert {"reader", "writer", "canonical-writer"} <= set.intersection(*(set(entry.roles) for entry in loaded))
