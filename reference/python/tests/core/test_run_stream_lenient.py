"""What a run does with calls that are not as they should be, where nothing may stop the training: whole streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import toyspec
from toyspec.core.format.canonical import encode
from toyspec.core.writing import logged_values, open_runs
from toyspec.core.writing.companions import CompanionOrder, CompanionProcess, Companionship
from toyspec.core.writing.logged_values import writable
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import ManualClock


def begun(folder: Path, **options: Any) -> RunWriter:
    """Return a run that has started."""
    options = {"run_id": "r", "clock": ManualClock(), "resuming": "by-itself", "exist": "resume", **options}
    run = RunWriter(folder / "r", **options)
    if run.lacks_start:
        run.run_start(host="", started_at="")
    return run


def stream(folder: Path, name: str = "events.jsonl") -> list[dict[str, Any]]:
    """Return the records after the first, without their times."""
    lines = (folder / "r" / name).read_bytes().splitlines()[1:]
    hidden = ("t", "ended_at", "resumed_at")
    return [{key: value for key, value in json.loads(line).items() if key not in hidden} for line in lines]


Call = Callable[[Any], None]


def test_id_of_a_resumed_stream_is_its_own(tmp_path: Path) -> None:
    """Without an id the writer takes that of the stream; another one is refused with both."""
    begun(tmp_path).abandon()
    (tmp_path / "r").rename(tmp_path / "moved")
    with RunWriter(tmp_path / "moved", exist="resume", resuming="by-itself") as run:
        assert "r" == run.run_id
    with pytest.raises(ValueError, match="the stream to resume belongs to run r, not to q; give that run id, or"):
        RunWriter(tmp_path / "moved", run_id="q", exist="resume")


def test_end_of_a_run_that_has_ended_adds_nothing(tmp_path: Path) -> None:
    """Neither a second end nor leaving a run that was only opened writes a record; a note opens it again."""
    run = begun(tmp_path)
    run.run_end("aborted")
    run.run_end("errored")
    before = stream(tmp_path)
    assert [{"kind": "run_end", "reason": "aborted"}] == before
    begun(tmp_path).run_end()
    begun(tmp_path).abandon()
    assert before == stream(tmp_path)
    run.note("again")
    run.close()
    expected = [
        {"kind": "run_resume", "from_step": 0}, {"kind": "note", "text": "again"},
        {"kind": "run_end", "reason": "aborted"},
    ]  # fmt: skip
    assert before + expected == stream(tmp_path)


@pytest.mark.parametrize(
    ("leave", "ended"),
    [
        (lambda run: run.close(), []),
        (lambda run: run.__exit__(ValueError, ValueError("bad"), None), ["errored"]),
        (lambda run: run.run_end("errored"), ["errored"]),
    ],
)
def test_end_that_was_refused_is_not_completed(tmp_path: Path, leave: Call, ended: list[str]) -> None:
    """A reason that no reader knows does not say success: without another end the run has none."""
    run: Any = begun(tmp_path)
    run.run_end("failed")
    leave(run)
    first, *others = stream(tmp_path)
    fact = "run_end is invalid: reason is 'failed'; it must be one of 'aborted', 'completed', 'errored', 'interrupted'"
    text = f"left out: run_end ({fact})"
    assert {"kind": "note", "text": text, "topic": "left-out", "dropped": {"run_end": 1}} == first
    assert ended == [each["reason"] for each in others]


def test_end_that_was_lost_is_written_again_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk may take the end of a run; once there is room, the run ends for the reason that was given."""
    run: Any = begun(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(run._stream, "end", lambda _: None)
        run.run_end("aborted")
    run.close()
    assert [{"kind": "run_end", "reason": "aborted"}] == stream(tmp_path)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SystemExit(3), ("interrupted", "signal SIGTERM", 3)),
        (ValueError("bad"), ("interrupted", "signal SIGTERM, then ValueError: bad", None)),
    ],
)
def test_a_signal_is_asked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException | None, expected: tuple[str, str, int | None]
) -> None:
    """A run that a signal has interrupted is interrupted, whatever the program did then."""
    run = begun(tmp_path)
    monkeypatch.setitem(open_runs._program.signals, open_runs._key(run.events_path), signal.SIGTERM)
    run.__exit__(type(error) if error else None, error, None)
    end = stream(tmp_path)[-1]
    assert expected == (end["reason"], end["error"], end.get("exit_code"))


@pytest.mark.parametrize("most", range(60, 200, 7))
def test_as_much_of_a_record_as_fits_is_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept has at most the size of a line, and each part that is left out would not fit beside it."""
    monkeypatch.setattr(logged_values, "MAX_LINE_BYTES", most)
    record: dict[str, Any] = {
        "kind": "scalars", "t": 0.0, "step": 1, "values": {f"a{at}": at + 0.5 for at in range(6)},
        "texts": {"x": "y" * 20, "z": "w"}, "epoch": 1.0,
    }  # fmt: skip
    kept, left_out = writable("scalars", record, lambda members: len(encode(dict(members))))
    assert len(encode(kept)) <= most
    lost = dict(left_out)
    assert {f"the record would have more than {most} bytes; write it to a file"} >= set(lost.values())
    places = {name: ("values", name) for name in record["values"]}
    places |= {f"texts/{name}": ("texts", name) for name in record["texts"]}
    for name, (key, inner) in places.items():
        assert (inner in kept.get(key, {})) != (name in lost)
        whole = {**kept, key: {**kept.get(key, {}), inner: record[key][inner]}}
        assert (len(encode(whole)) > most) == (name in lost)
    assert ("epoch" in kept) != ("epoch" in lost)


def test_wrong_choices_say_what_may_be_chosen(tmp_path: Path) -> None:
    """The message has the value and the choices."""
    for options, fact in (
        ({"ranks": "some"}, "ranks is 'some'; pass 'first' for one log, or 'all' for one of each process"),
        ({"wait_seconds": -1}, "wait_seconds is -1; it must be a number of seconds ≥ 0"),
        ({"exist": "append"}, "exist is 'append'"),
        ({"durability": "none"}, "durability is 'none'"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"companions": ["wandb"]}, "companions has 'wandb'; pass such as toyspec.System()"),
        ({"mirrors": []}, "start_run() got an unexpected keyword argument 'mirrors'"),
        ({"run_id": "../x"}, "run id '../x' is not allowed"),
        ({"root": "s3://bucket/r"}, "s3://bucket/r is an address; write the run into a folder, and copy that there"),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            toyspec.start_run(**{"root": tmp_path, **options})  # type: ignore[arg-type]
        assert str(caught.value).startswith(fact)
    assert [] == os.listdir(tmp_path)


def test_companion_of_a_parent_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A forked child neither ends the process that goes along with the run, nor waits for it.

    Where it is late it goes on by itself: what is said has the number of its process, which is not waited for again.
    """

    def late(seconds: float) -> None:
        raise subprocess.TimeoutExpired("m", seconds)

    companion = CompanionProcess.__new__(CompanionProcess)
    process: Any = SimpleNamespace(stdin=SimpleNamespace(close=lambda: None), wait=late, pid=7, returncode=None)
    companion._process, companion._owner, companion._is_over = process, os.getpid() + 1, False
    companion._order = CompanionOrder("m", b"", 0.0, "the rest is still sent")
    companion.ended()
    assert (False, "") == (companion._is_over, capsys.readouterr().err)
    companion._owner = os.getpid()
    companion.ended()
    assert companion._is_over
    assert ("toyspec: the rest is still sent, by process 7\n", 0) == (capsys.readouterr().err, process.returncode)


@pytest.mark.parametrize(
    ("module", "order"), [("toyspec.stores.companion", b""), ("toyspec.convert.mirrors", b'{"directory":')]
)
def test_companion_whose_training_is_gone_before_its_order_ends_quietly(module: str, order: bytes) -> None:
    """A program that is killed while it starts a run leaves no traceback of another one."""
    ended = subprocess.run([sys.executable, "-P", "-m", module], input=order, capture_output=True, check=False)
    assert (0, b"", b"") == (ended.returncode, ended.stdout, ended.stderr)


class Along(Companionship):
    """What remembers the hooks that were called, and fails in one."""

    def __init__(self, fails_in: str, called: list[str]) -> None:
        self.fails_in, self.called = fails_in, called

    def __repr__(self) -> str:
        return "a mirror"

    def _take(self, hook: str) -> None:
        self.called.append(hook)
        if hook == self.fails_in:
            raise OSError(11, "Resource temporarily unavailable")

    def started(self, run: object) -> Along:
        """Begin."""
        del run
        self._take("started")
        return self

    def record(self, line: bytes, kind: str, step: object, /) -> None:
        """Take a record."""
        self._take(kind)

    def ending(self) -> None:
        """Take that the end is near."""
        self._take("ending")

    def ended(self) -> None:
        """Take the end."""
        self._take("ended")


@pytest.mark.parametrize("hook", ["", "started", "run_start", "step", "ending", "run_end", "ended"])
def test_companions_go_along_from_start_to_end_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hook: str
) -> None:
    """They begin after run_start, get each record, write before run_end, and begin again with a run that goes on.

    What fails in one of them is reported and reaches no caller; the log is whole, and the others go on.
    """
    called: list[str] = []
    run = RunWriter(tmp_path / "r", companions=[Along(hook, []), Along("", called)], resuming="by-itself")
    assert [] == called
    run.run_start()
    run.step(1, loss=0.5)
    run.run_end()
    first = ["started", "run_start", "step", "ending", "run_end", "ended"]
    assert first == called
    assert bool(hook) == capsys.readouterr().err.count("(Resource temporarily unavailable)")
    run.note("again")
    run.abandon()
    assert [*first, "started", "run_start", "run_resume", "note", "ending", "ended"] == called
    assert ["step", "run_end", "run_resume", "note"] == [record["kind"] for record in stream(tmp_path)]


def test_settings_that_cannot_be_written_change_nothing(tmp_path: Path) -> None:
    """A resumption names the settings that differ; what has no text in a log takes part in no comparison."""
    config: dict[str, Any] = {"lr": 0.5, "bad": object()}
    run = RunWriter(tmp_path / "r", clock=ManualClock(), resuming="by-itself")
    run.run_start(host="", started_at="", config=config)
    run.step(1)
    run.abandon()
    with begun(tmp_path) as run:
        run.run_start(config=config)
        run.run_start(config={**config, "lr": 1}, world_size=2)
        run.note("on")
    resumption, note, _ = stream(tmp_path)[-3:]
    assert {"kind": "run_resume", "from_step": 1, "config": {"lr": 1}, "world_size": 2} == resumption
    assert {"kind": "note", "text": "on"} == note
    strict = begun(tmp_path, on_error="raise")
    with pytest.raises(ValueError, match="bad"):
        strict.run_start(config=config)
    strict.abandon()
