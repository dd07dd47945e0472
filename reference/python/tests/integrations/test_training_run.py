"""What all integrations have in common: starting, resuming, ending, ranks, and a log that never stops the training."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logged_runs import events, findings, kinds
from toyspec.core.writing.environment import TrainingProcess
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun


def run_in(root: Path, **options: Any) -> TrainingRun:
    """Return a run below *root* that starts with its first value, without measuring the machine."""
    return TrainingRun(RunOptions(root=root, system_seconds=0.0, **options), Start(framework="test"))


def test_run_starts_with_its_first_value(tmp_path: Path) -> None:
    """Settings that come before the first value are in run_start, with the packages and the command line."""
    run = run_in(tmp_path, name="line", tags=["a"])
    run.add_config({"lr": 0.1, "api_key": "secret"})
    run.log({"loss": 2.5}, step=1)
    run.end()
    first = events(tmp_path)[0]
    assert {"lr": 0.1, "api_key": "***"} == first["config"]
    assert ("line", ["a"]) == (first["name"], first["tags"])
    assert first["packages"].keys() >= {"python", "toyspec"}
    assert first["argv"]
    assert [] == findings(tmp_path)


def test_later_settings_are_kept_in_a_note(tmp_path: Path) -> None:
    """run_start is written once; what comes after is not lost, and has no secret either."""
    run = run_in(tmp_path)
    run.log({"loss": 2.5}, step=1)
    run.add_config({"lr": 0.1, "token": "secret"})
    run.end()
    (note,) = [event for event in events(tmp_path) if event["kind"] == "note"]
    assert 'settings: {"lr":0.1,"token":"***"}' == note["text"]


def test_values_may_come_in_any_order_of_steps(tmp_path: Path) -> None:
    """A step that repeats or goes back is legal as plain values, and run_end names the largest."""
    run = run_in(tmp_path)
    for step in (1, 3, 2, 3):
        run.log({"loss": 1.0}, step=step)
    run.end()
    assert ["run_start", *["scalars"] * 4, "run_end"] == kinds(tmp_path)
    assert 3 == events(tmp_path)[-1]["final_step"]
    assert [] == findings(tmp_path)


def test_steps_that_repeat_become_plain_values(tmp_path: Path) -> None:
    """A step event counts up; what comes again at the same step is not lost."""
    run = run_in(tmp_path)
    run.log_step(1, {"loss": 2.5})
    run.log_step(1, {"loss": 2.4})
    run.end()
    assert ["run_start", "step", "scalars", "run_end"] == kinds(tmp_path)


def test_number_that_is_not_a_count_goes_into_extra(tmp_path: Path) -> None:
    """A framework may call something tokens that is not a count."""
    run = run_in(tmp_path)
    run.log_step(1, {"loss": 2.5, "tokens": 0.5})
    run.end()
    assert (2.5, {"tokens": 0.5}) == (events(tmp_path)[1]["loss"], events(tmp_path)[1]["extra"])


def test_named_run_continues_where_its_training_resumes(tmp_path: Path) -> None:
    """A second start whose first step is later than the first of the log resumes before that step."""
    first = run_in(tmp_path, run_id="demo")
    for step in (1, 2, 3, 4):
        first.log({"loss": 1.0 * step}, step=step)
    first.close()
    second = run_in(tmp_path, run_id="demo")
    second.log({"loss": 3.5}, step=3)
    second.end()
    resumed = [event for event in events(tmp_path) if event["kind"] == "run_resume"]
    assert [2] == [event["from_step"] for event in resumed]
    assert [] == findings(tmp_path)


def test_named_run_that_begins_again_keeps_the_earlier_log(tmp_path: Path) -> None:
    """A second start at the first step is another training: the earlier log moves to a side file."""
    for _ in range(2):
        run = run_in(tmp_path, run_id="demo")
        run.log({"loss": 1.0}, step=1)
        run.close()
    assert ["events.jsonl", "events.jsonl.prev"] == sorted(path.name for path in (tmp_path / "demo").iterdir())


def test_training_after_the_end_goes_on_in_the_run(tmp_path: Path) -> None:
    """A finished log is extended, after a resumption that says from where and which settings have changed."""
    first = run_in(tmp_path, run_id="demo", config={"lr": 0.1, "size": 3})
    first.log({"loss": 1.0}, step=1)
    first.end()
    second = TrainingRun(RunOptions(root=tmp_path, run_id="demo", system_seconds=0.0, config={"lr": 0.2, "size": 3}))
    second.start(Start(framework="test", resumed_step=1))
    second.log({"loss": 1.0}, step=2)
    second.end()
    assert ["demo"] == [path.name for path in tmp_path.iterdir()]
    assert ["run_start", "scalars", "run_end", "run_resume", "scalars", "run_end"] == kinds(tmp_path)
    resumed = events(tmp_path)[3]
    assert (1, {"lr": 0.2}) == (resumed["from_step"], resumed["config"])


@pytest.mark.parametrize(("ranks", "expected"), [("first", []), ("all", ["demo/events.rank-1.jsonl"])])
def test_other_ranks_write_only_when_asked(tmp_path: Path, ranks: Any, expected: list[str]) -> None:
    """The first process writes; with ``ranks="all"`` each has a stream of its own in the bundle."""
    run = TrainingRun(RunOptions(root=tmp_path, run_id="demo", ranks=ranks, system_seconds=0.0))
    run.start(Start(framework="test", process=TrainingProcess(1, 2, "RANK")))
    run.log({"loss": 1.0}, step=1)
    run.end()
    found = list(tmp_path.rglob("*.jsonl"))
    assert expected == [path.relative_to(tmp_path).as_posix() for path in found]
    for path in found:
        start = json.loads(path.read_text().splitlines()[0])
        assert ("demo", 1, 2) == (start["run_id"], start["rank"], start["world_size"])


def test_log_that_cannot_be_written_does_not_stop_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file where the root should be costs one message, and one at the end with the count."""
    root = tmp_path / "file"
    root.write_text("")
    run = run_in(root)
    for step in (1, 2):
        run.log({"loss": 1.0}, step=step)
        run.log_step(step, {"loss": 1.0})
        run.evaluate("held-out", {"loss": 1.0})
        run.note("text")
    run.end()
    messages = capsys.readouterr().err.splitlines()
    assert 2 == len(messages)
    assert "9 records were not written" in messages[1]


@pytest.mark.parametrize(
    ("ending", "expected"),
    [("pass", "completed"), ("raise KeyError('x')", "errored"), ("raise KeyboardInterrupt", "interrupted")],
)
def test_run_ends_with_the_program(tmp_path: Path, ending: str, expected: str) -> None:
    """Frameworks do not call their callbacks when an exception ends the training; the exit of the program does."""
    program = f"""
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun
from toyspec.core.writing.environment import TrainingProcess
run = TrainingRun(RunOptions(root="runs"), Start(framework="test"))
run.log({{"loss": 1.0}}, step=1)
{ending}
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert expected == events(tmp_path)[-1]["reason"]
    assert [] == findings(tmp_path)


def test_every_value_is_written_or_counted(tmp_path: Path) -> None:
    """Numbers, booleans and texts are written, nested ones with a slash; what is none of these is counted in a note."""
    run = run_in(tmp_path)
    run.log({"a": 1, "b": {"c": True, "d": "text"}, "e": None, "f": [1, 2], "g": float("nan")}, step=1)
    run.end()
    scalars, note = events(tmp_path)[1:3]
    assert {"a": 1.0, "b/c": 1.0, "e": None, "g": None} == scalars["values"]
    assert ({"b/d": "text"}, {"g": "nan"}) == (scalars["texts"], scalars["nonfinite"])
    assert ("left-out", {"f": 1}) == (note["topic"], note["left_out"])


def test_two_values_with_one_name_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A framework that gives a name in two ways gets the later value, and one line that reports this."""
    run = run_in(tmp_path)
    for step in (1, 2):
        run.log_step(step, {"a/b": 1.0, "a": {"b": 2.0}})
    run.end()
    assert [{"a/b": 2.0}] * 2 == [event["extra"] for event in events(tmp_path) if event["kind"] == "step"]
    assert 1 == capsys.readouterr().err.count("two values of one record have this name")
    assert 2 == sum(event["left_out"]["extra/a/b"] for event in events(tmp_path) if event["kind"] == "note")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_full_disk_does_not_stop_the_training(tmp_path: Path) -> None:
    """A file that may not grow any more loses records, the program goes on, and what is there stays readable."""
    program = """
import resource, signal
from toyspec.integrations.training_run import run_of
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
run = run_of("test", "runs", {"system_seconds": 0.0})
run.log({"loss": 1.0}, step=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
for step in range(1, 200):
    run.log({"loss": 1.0}, step=step)
print("trained")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert (0, b"trained\n") == (done.returncode, done.stdout)
    assert b"were not written" in done.stderr
    (path,) = tmp_path.rglob("events.jsonl")
    assert 20 < path.read_bytes().count(b"\n") < 200
    assert path.read_bytes().endswith(b"\n")
