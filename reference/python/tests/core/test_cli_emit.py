from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import command, environment, toyspec
from toyspec.core.checker import check
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.command_line.parsers import UsageError
from toyspec.core.commands.emit import event_of
from toyspec.core.writing.run_writer import RunWriter


def events(directory: Path) -> list[dict[str, Any]]:
    """Return the events of the run in *directory*."""
    return [json.loads(line) for line in (directory / "events.jsonl").read_bytes().splitlines()]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Give the directory of a run that has begun."""
    assert main(["emit", str(tmp_path / "demo"), "run_start", "model.arch=llama"]) == exit_codes.OK
    return tmp_path / "demo"


def test_a_run_of_values_ends_where_they_do(run: Path) -> None:
    """A run without steps ends at the largest step of its values, and is resumed from there, as from a program."""
    members = '{"values":{"loss":0.5},"step":7}'
    assert main(["emit", str(run), "scalars", "--json", members]) == exit_codes.OK
    assert main(["emit", str(run), "run_resume"]) == exit_codes.OK
    assert main(["emit", str(run), "scalars", "--json", members]) == exit_codes.OK
    assert main(["emit", str(run), "run_end"]) == exit_codes.OK
    assert ([7], [7]) == tuple(
        [event[key] for event in events(run) if key in event] for key in ("from_step", "final_step")
    )


def test_secrets_are_hidden(tmp_path: Path) -> None:
    """Settings, command lines and errors are redacted as those of a program are."""
    assert (
        main(["emit", str(tmp_path), "run_start", "run_id=a", "config.api_key=K", 'argv=["--token=K"]'])
        == exit_codes.OK
    )
    assert main(["emit", str(tmp_path), "run_end", "reason=errored", "error=postgres://u:K@h"]) == exit_codes.OK
    start, end = events(tmp_path)
    assert ({"api_key": "***"}, ["--token=***"], "postgres://***@h") == (start["config"], start["argv"], end["error"])


def test_a_whole_run_from_a_shell(tmp_path: Path) -> None:
    """Separate processes write one run that a check finds nothing wrong with."""
    script = (
        ("run_start", "model.arch=llama", "config.lr=3e-4"),
        ("step", "loss=2.5"),
        ("step", "loss=2"),
        ("run_end",),
    )
    for words in script:
        done = toyspec("emit", "demo", *words, cwd=tmp_path)
        assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
    (report,) = check(tmp_path / "demo").files
    assert ("complete", []) == (report.state, report.findings)
    start, first, second, end = events(tmp_path / "demo")
    assert ("demo", {"lr": 0.0003}, 0.0) == (start["run_id"], start["config"], start["t"])
    assert [(1, 2.5), (2, 2.0)] == [(each["step"], each["loss"]) for each in (first, second)]
    assert ("completed", 2, 2.0) == (end["reason"], end["final_step"], end["final_loss"])
    assert 0.0 < first["t"] < second["t"] < end["t"] < 60.0


def test_time_goes_on_from_the_start(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time t is that since started_at, and never less than that of the record before."""
    began = time.time()
    for now in (began + 100.0, began + 50.0, began - 1000.0):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert main(["emit", str(run), "note", "text=x"]) == exit_codes.OK
    _, first, *others = events(run)
    assert 99.0 < first["t"] < 101.0
    assert [first["t"]] * 2 == [each["t"] for each in others]


@pytest.mark.parametrize("started_at", ["0000-01-01T00:00:00Z", "2016-12-31T23:59:60Z", "soon", 5, None])
def test_start_that_tells_no_time(started_at: Any, tmp_path: Path) -> None:
    """Where the start of the run is not known, time stays at the last record."""
    start = {"kind": "run_start", "schema": "toy/v1", "t": 7.5, "run_id": "demo", "started_at": started_at}
    (tmp_path / "events.jsonl").write_text(json.dumps(start) + "\n")
    assert main(["emit", str(tmp_path), "note", "text=x"]) == exit_codes.OK
    assert 7.5 == events(tmp_path)[1]["t"]


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["step", "loss=abc"], "/loss must be a number"),
        (["step", "step=1.0"], "step"),
        (["step", "t=-1"], "t"),
        (["note"], "text"),
        (["run_end", "reason=done"], "reason"),
        (["run_start"], "a second run_start"),
        (["run_end", "ended_at=yesterday"], "ended_at"),
    ],
)
def test_invalid_event_is_refused(words: list[str], fact: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An event that would make the stream invalid is not written; the message says why, the status is 1."""
    before = (run / "events.jsonl").read_bytes()
    assert main(["emit", str(run), *words]) == exit_codes.FINDINGS
    shown = capsys.readouterr().err
    assert fact in shown
    assert "nothing was written" in shown
    assert before == (run / "events.jsonl").read_bytes()


def test_steps_cannot_go_back(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A step that repeats is refused until a run_resume goes back; each phase has steps of its own."""
    for _ in range(3):
        main(["emit", str(run), "step"])
    assert main(["emit", str(run), "step", "step=2"]) == exit_codes.FINDINGS
    assert main(["emit", str(run), "run_resume", "from_step=1"]) == exit_codes.OK
    assert main(["emit", str(run), "step", "step=2"]) == exit_codes.OK
    assert main(["emit", str(run), "step", "phase=eval"]) == exit_codes.OK
    found = [(each.get("phase"), each["step"]) for each in events(run) if each["kind"] == "step"]
    assert [(None, 1), (None, 2), (None, 3), (None, 2), ("eval", 1)] == found


def test_no_run_is_made_by_accident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An event for a run that has not begun makes no directory and tells how to begin."""
    assert main(["emit", str(tmp_path / "demo"), "step", "loss=1"]) == exit_codes.USAGE
    assert "run_start`" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


def test_name_that_is_not_a_run_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory whose name is not a safe run id needs one to be given."""
    assert main(["emit", str(tmp_path / "a b"), "run_start"]) == exit_codes.FINDINGS
    assert "run_id=NAME" in capsys.readouterr().err
    assert main(["emit", str(tmp_path / "a b"), "run_start", "run_id=a-b"]) == exit_codes.OK


def test_ended_run_is_left_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After run_end comes a run_resume."""
    assert main(["emit", str(run), "run_end"]) == exit_codes.OK
    assert main(["emit", str(run), "note", "text=x"]) == exit_codes.FINDINGS
    assert "the run has ended; write run_resume first" in capsys.readouterr().err
    assert main(["emit", str(run), "run_resume", "from_step=0"]) == exit_codes.OK
    assert main(["emit", str(run), "note", "text=x"]) == exit_codes.OK


def test_fragment_is_moved_to_a_side_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a record that a killed writer left is kept in a file beside the stream before anything is appended."""
    with open(run / "events.jsonl", "ab") as file:
        file.write(b'{"kind":"st')
    assert main(["emit", str(run), "note", "text=x"]) == exit_codes.OK
    (kept,) = run.glob("events.jsonl.torn-*")
    assert b'{"kind":"st' == kept.read_bytes()
    assert ["run_start", "note"] == [each["kind"] for each in events(run)]


def test_damaged_run_is_left_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is appended to a damaged stream."""
    with open(run / "events.jsonl", "ab") as file:
        file.write(b"x\n")
    before = (run / "events.jsonl").read_bytes()
    assert main(["emit", str(run), "note", "text=x"]) == exit_codes.USAGE
    assert "line 2 is damaged" in capsys.readouterr().err
    assert before == (run / "events.jsonl").read_bytes()


def test_another_writer_is_waited_for(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process writes the run, emit waits; when that takes too long, it gives up with status 2."""
    with RunWriter(run, exist="resume") as writer:
        writer.run_resume(0)
        with monkeypatch.context() as patch:
            patch.setattr("toyspec.core.commands.emit._LOCK_SECONDS", 0.05)
            assert main(["emit", str(run), "note", "text=x"]) == exit_codes.USAGE
        assert "nothing was written" in capsys.readouterr().err
        waiting = subprocess.Popen(command("emit", str(run), "note", "text=x"), env=environment())
        time.sleep(0.5)
        assert waiting.poll() is None
        writer.close()
    assert exit_codes.OK == waiting.wait(timeout=300)
    assert ["run_start", "run_resume", "note"] == [each["kind"] for each in events(run)]


def test_processes_take_turns(run: Path) -> None:
    """Events of many processes at once are all in the stream, each on a line of its own."""
    processes = [subprocess.Popen(command("emit", str(run), "note", f"text={n}"), env=environment()) for n in range(8)]
    assert [exit_codes.OK] * 8 == [process.wait(timeout=300) for process in processes]
    assert set(map(str, range(8))) == {each["text"] for each in events(run)[1:]}


def test_json_from_standard_input(run: Path) -> None:
    """--json - reads members from standard input; words come on top."""
    done = toyspec("emit", str(run), "eval", "loss=2", "--json", "-", stdin=b'{"name":"held-out","loss":1}')
    assert done.returncode == exit_codes.OK
    assert ("held-out", 2.0) == (events(run)[1]["name"], events(run)[1]["loss"])


def test_unknown_member_is_written_and_reported(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key or kind that the schema does not know is legal, but a remark names the nearest that it knows."""
    assert main(["emit", str(run), "step", "los=1"]) == exit_codes.OK
    assert "did you mean 'loss'?" in capsys.readouterr().err
    assert main(["emit", str(run), "notes", "x=1"]) == exit_codes.OK
    assert "did you mean 'note'?" in capsys.readouterr().err
    assert [1, 1] == [events(run)[1]["los"], events(run)[2]["x"]]


@pytest.mark.parametrize(
    ("kind", "words", "members"),
    [
        ("step", ["loss=2.5", "tokens=7"], {"loss": 2.5, "tokens": 7}),
        ("step", ["loss=nan", "lr=-Infinity", "extra.mfu=inf"], {"loss": None, "lr": None, "extra": {"mfu": None}}),
        ("note", ["text=5"], {"text": "5"}),
        ("note", ["text=a=b"], {"text": "a=b"}),
        ("note", ["text="], {"text": ""}),
        ("note", ['text="x"'], {"text": '"x"'}),
        ("run_start", ["git.sha=1234567", "git.dirty=true"], {"git": {"sha": "1234567", "dirty": True}}),
        ("run_start", ["config.a.b=1", "config.a.c=x"], {"config": {"a": {"b": 1, "c": "x"}}}),
        ("run_start", ["config.list=[1,2]", "config.nan=nan"], {"config": {"list": [1, 2], "nan": "nan"}}),
        ("news", ["a=1", "b=one"], {"a": 1, "b": "one"}),
    ],
)
def test_words_become_members(kind: str, words: list[str], members: dict[str, Any]) -> None:
    """A value is JSON or a string; the schema decides where it says string or number."""
    assert {"kind": kind, **members} == event_of(kind, words, None)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["loss"], None),
        (["=1"], None),
        (["a=1", "a.b=2"], None),
        ([], "[]"),
        ([], '{"a":1,"a":2}'),
        ([], '{"a":NaN}'),
        ([], '{"kind":"note"}'),
        ([], "{"),
    ],
)
def test_words_that_make_no_event(words: list[str], text: str | None) -> None:
    """What cannot be an event is wrong usage, said before anything is opened."""
    with pytest.raises(UsageError):
        event_of("step", words, text)


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A call without a kind gets an error about the kind, not about the members, which may be absent."""
    assert exit_codes.USAGE == main(["emit", "demo"])
    assert "toyspec emit: the following arguments are required: KIND\n" in capsys.readouterr().err


def test_a_refused_start_leaves_nothing(tmp_path: Path) -> None:
    """Neither a file nor a directory, and with --replace the earlier run as it was."""
    wrong = ["emit", str(tmp_path / "runs/demo"), "run_start", "phase=night"]
    assert exit_codes.FINDINGS == main(wrong)
    assert [] == list(tmp_path.iterdir())
    assert exit_codes.OK == main(["emit", str(tmp_path / "runs/demo"), "run_start"])
    before = (tmp_path / "runs/demo/events.jsonl").read_bytes()
    assert exit_codes.FINDINGS == main(wrong)
    assert [("events.jsonl", before)] == [(path.name, path.read_bytes()) for path in (tmp_path / "runs/demo").iterdir()]
