"""Every observable statement and every rule is proven: by cases of the corpus, or by a test that names it."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import toyspec
from conformance.cases import Case
from conformance.loading import load
from conformance.session_cases import load as load_sessions
from toyspec.core.errors import ToyspecError

ROOT = Path(__file__).resolve().parents[3]
REQUIREMENTS = json.loads((ROOT / "spec/requirements.json").read_bytes())["requirements"]
BY_ID = {entry["id"]: entry for entry in REQUIREMENTS}
OBSERVABLE = [entry["id"] for entry in REQUIREMENTS if "observable" in entry]
RULES = [rule["id"] for rule in json.loads((ROOT / "schemas/rules.json").read_bytes())["rules"]]
# A case gives bytes to those who read. Tests show what a writer gets and what a directory looks like.
TESTED = frozenset({"writer", "canonical-writer", "follower"})
DIRECTORIES = frozenset({"bundle/walk", "bundle/walk-regular", "reading/no-writes"})


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Return the cases of the corpus."""
    return list(load())


@pytest.fixture(scope="module")
def accepted(cases: list[Case]) -> frozenset[str]:
    """Return the statements and rules that some case accepts."""
    return frozenset(name for case in cases for name in case.accepts)


@pytest.fixture(scope="module")
def rejected(cases: list[Case]) -> frozenset[str]:
    """Return the statements and rules that some case rejects."""
    return frozenset(name for case in cases for name in case.rejects)


@pytest.fixture(scope="module")
def tested() -> frozenset[str]:
    """Return the statements that some test or some session of a writer names."""
    folders = ("reference/python/tests", "conformance/tests")
    by_tests = {
        statement for folder in folders for path in (ROOT / folder).glob("test_*.py") for statement in named_in(path)
    }
    return frozenset(by_tests.union(*((*session.accepts, *session.rejects) for session in load_sessions())))


def named_in(path: Path) -> Iterator[str]:
    """Yield the arguments of each mark ``proves`` in the Python file *path*, without importing it."""
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "proves":
            yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


@pytest.mark.parametrize("statement", OBSERVABLE)
def test_statement_is_proven(
    statement: str, accepted: frozenset[str], rejected: frozenset[str], tested: frozenset[str]
) -> None:
    """A statement has a case that is accepted and one that is rejected; those about writing may have a test."""
    may_be_tested = statement in DIRECTORIES or TESTED.issuperset(BY_ID[statement]["applies"])
    if not (may_be_tested and statement in tested):
        assert statement in accepted, "no case accepts it"
        assert statement in rejected, "no case rejects it"


@pytest.mark.parametrize("rule", RULES)
def test_rule_is_proven(rule: str, accepted: frozenset[str], rejected: frozenset[str]) -> None:
    """A rule has a case that breaks it, and one that comes close and does not."""
    assert f"rules/{rule}" in rejected
    assert f"rules/{rule}" in accepted


def test_named_statements_exist(accepted: frozenset[str], rejected: frozenset[str], tested: frozenset[str]) -> None:
    """No case and no test names a statement that there is none of."""
    assert set() == (accepted | rejected | tested) - BY_ID.keys()


START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n'
STEP = b'{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
END = b'{"kind":"run_end","t":2.0,"reason":"completed"}\n'
ENTRY = b'{"step":1,"wall_time_ms":1.0,"loss":2.5,"grad_norm":1.0,"throughput_samples_per_sec":1.0,"extra":{}}\n'


def bundle(root: Path, data: bytes, name: str = "events.jsonl") -> Path:
    """Return the directory of a run with the stream *data*."""
    folder = root / "run"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(data)
    return folder


@pytest.mark.proves("bundle/run-id-safe")
@pytest.mark.parametrize("run_id", ["", ".", "..", "../up", "a/b", "-rf", "a b", "é", "x" * 129, "a\n", "~root"])
def test_run_id_that_is_not_a_safe_name_is_refused(tmp_path: Path, run_id: str) -> None:
    """A writer makes no directory for an id that is not a plain name."""
    with pytest.raises(ValueError):
        toyspec.RunWriter(tmp_path / "run", run_id=run_id)
    assert [] == os.listdir(tmp_path)


@pytest.mark.proves("bundle/walk")
def test_directory_is_searched_for_streams_by_name(tmp_path: Path) -> None:
    """Checking a directory takes the streams in and below it, and no file of another name."""
    for name in ("a/events.jsonl", "a/b/metrics.jsonl", "a/events.jsonl.prev", "c/log.jsonl", "c/Events.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(ENTRY if "metrics" in name else START + END)
    report = toyspec.check(tmp_path, dialect=None)
    found = {Path(file.path).relative_to(tmp_path).as_posix() for file in report.files}
    assert {"a/events.jsonl", "a/b/metrics.jsonl"} == found
    assert [] == report.errors


@pytest.mark.proves("bundle/walk-regular")
def test_pipes_and_linked_directories_are_passed_over(tmp_path: Path) -> None:
    """A named pipe would block whoever opens it, and a link to a directory may lead in a circle."""
    good = tmp_path / "good"
    good.mkdir()
    (good / "events.jsonl").write_bytes(START + END)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/events.jsonl")
    (tmp_path / "circle").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "linked").symlink_to(good, target_is_directory=True)
    assert [str(good / "events.jsonl")] == [file.path for file in toyspec.check(tmp_path).files]


@pytest.mark.proves("reading/no-writes")
@pytest.mark.parametrize("data", [START + STEP + END, START + STEP + b'{"ki', START + b"{\n" + STEP, b""])
def test_reading_and_checking_change_nothing(tmp_path: Path, data: bytes) -> None:
    """Whatever the state, the directory holds the same bytes before and after."""
    folder = bundle(tmp_path, data)
    (folder / "run.json").write_bytes(b"{")
    before = {entry.name: Path(entry).read_bytes() for entry in os.scandir(folder)}
    list(toyspec.read(folder, mode="salvage"))
    toyspec.check(folder)
    list(toyspec.follow(folder, idle_seconds=0, poll_seconds=0))
    assert before == {entry.name: Path(entry).read_bytes() for entry in os.scandir(folder)}


@pytest.mark.proves("writing/own-kinds-and-keys")
def test_own_kinds_and_keys_are_written_and_read(tmp_path: Path) -> None:
    """A record of unknown kind and a member with an unknown key come back as they were given."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        run.write({"kind": "checkpoint", "path": "weights/step_1.gguf"})
        run.write({"kind": "note", "text": "x", "author": "me"})
    records = [record.value for record in toyspec.read(tmp_path / "a")]
    assert "weights/step_1.gguf" == records[1]["path"]
    assert "me" == records[2]["author"]


@pytest.mark.proves("writing/existing-run")
@pytest.mark.proves("writing/replaced-kept")
def test_new_run_replaces_the_old_one_and_keeps_it(tmp_path: Path) -> None:
    """The records of a new run never follow those of another; the old stream is moved to a side file."""
    folder = bundle(tmp_path, START + STEP + END)
    with toyspec.RunWriter(folder) as run:
        run.run_start()
    assert ["run_start", "run_end"] == [record.kind for record in toyspec.read(folder)]
    assert START + STEP + END == (folder / "events.jsonl.prev").read_bytes()


@pytest.mark.proves("writing/append-refused")
def test_damaged_log_is_not_appended_to(tmp_path: Path) -> None:
    """A damaged metrics log is refused when it is opened, and keeps its bytes."""
    data = ENTRY + b"{\n"
    path = bundle(tmp_path, data, "metrics.jsonl") / "metrics.jsonl"
    with pytest.raises(ToyspecError):
        toyspec.MetricsLog.open(path)
    assert data == path.read_bytes()


@pytest.mark.proves("toy/run_start/git-omitted")
def test_git_is_left_out_without_a_commit(tmp_path: Path) -> None:
    """Without a commit id run_start has no git."""
    with toyspec.start_run(tmp_path, run_id="a", git=""):
        pass
    assert "git" not in next(iter(toyspec.read(tmp_path / "a")))


@pytest.mark.proves("toy/run_start/os-lower-case")
@pytest.mark.proves("toy/run_start/started-at-utc")
def test_host_and_start_are_written_in_one_way(tmp_path: Path) -> None:
    """The name of the system is in lower case, the start in UTC in whole seconds."""
    with toyspec.start_run(tmp_path, run_id="a", git=None):
        pass
    start = next(iter(toyspec.read(tmp_path / "a")))
    assert start["host"]["os"] == start["host"]["os"].lower()
    assert len("2026-05-31T09:30:00Z") == len(start["started_at"])
    assert start["started_at"].endswith("Z")
