"""What a run does with calls that are not as they should be, where nothing may stop the training: whole streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import toyspec
from toyspec.core.format.canonical import encode
from toyspec.core.writing import logged_values, open_runs
from toyspec.core.writing.companions import CompanionOrder, CompanionProcess, Companionship
from toyspec.core.writing.dropped_records import DroppedRecords
from toyspec.core.writing.logged_values import LeftOut, writable
from toyspec.core.writing.run_writer import RunWriter
from toyspec.health.run_health import RunHealth
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


GOES_BACK = (
    "is not after the last one: it is written as plain values; to repeat steps, call run_resume(from_step) first"
)
NAMED = "the values are named after it, as odd/loss"
NO_NAMES = 'values must be a mapping, got list [1, 2]; pass names with their values, for example {"loss": 2.5}'
PHASES = "it must be one of 'train', 'eval', 'decode', 'serve', got"
Call = Callable[[Any], None]
STEPS: dict[str, tuple[list[Call], list[dict[str, Any]], list[str]]] = {
    "a step that goes back": (
        [
            lambda run: run.step(5, loss=1.0),
            lambda run: run.step(3, loss=2.0, tokens=4, acc=0.5),
            lambda run: run.step(5),
        ],
        [
            {"kind": "step", "step": 5, "loss": 1.0},
            {"kind": "scalars", "step": 3, "values": {"acc": 0.5, "loss": 2.0, "tokens": 4.0}},
            {"kind": "scalars", "step": 5, "values": {}},
        ],
        [f"step 3 {GOES_BACK} (reported once)"],
    ),
    "a step that goes back, not finite": (
        [lambda run: run.step(5), lambda run: run.step(3, loss=float("nan"), phase="train")],
        [
            {"kind": "step", "step": 5},
            {
                "kind": "scalars", "step": 3, "phase": "train",
                "values": {"loss": None}, "nonfinite": {"loss": "nan"},
            },
        ],
        [f"step 3 {GOES_BACK} (reported once)"],
    ),
    "steps of two phases": (
        [
            lambda run: run.step(5),
            lambda run: run.step(3, phase="eval"),
            lambda run: run.step(),
            lambda run: run.step(phase="eval"),
        ],
        [
            {"kind": "step", "step": 5},
            {"kind": "step", "phase": "eval", "step": 3},
            {"kind": "step", "step": 6},
            {"kind": "step", "phase": "eval", "step": 4},
        ],
        [],
    ),
    "texts of a phase that is none": (
        [lambda run: run.scalars({"a": 1}, texts={"b": "x"}, phase="odd", step=1)],
        [
            {"kind": "scalars", "step": 1, "values": {"odd/a": 1.0}, "texts": {"odd/b": "x"}},
            {
                "kind": "note", "topic": "left-out", "left_out": {"phase": 1},
                "text": f"left out: phase ({PHASES} odd; {NAMED})",
            },
        ],
        [
            f"phase of scalars is left out, and all else is written: {PHASES} odd; {NAMED} (reported once)"
        ],
    ),
    "steps of a phase that is none": (
        [lambda run: run.step(7, loss=1.0, phase="odd"), lambda run: run.step(loss=2.0, phase="odd")],
        [
            {"kind": "scalars", "step": 7, "values": {"odd/loss": 1.0}},
            {
                "kind": "note", "topic": "left-out", "left_out": {"phase": 1},
                "text": f"left out: phase ({PHASES} odd; {NAMED})",
            },
            {"kind": "scalars", "step": 8, "values": {"odd/loss": 2.0}},
        ],
        [f"phase of scalars is left out, and all else is written: {PHASES} odd; {NAMED} (reported once)"],
    ),
    "an evaluation of a phase that is none": (
        [lambda run: run.eval("v", loss=1, phase="odd")],
        [
            {"kind": "eval", "phase": "eval", "name": "v", "loss": 1.0},
            {"kind": "note", "topic": "left-out", "left_out": {"phase": 1}, "text": f"left out: phase ({PHASES} odd)"},
        ],
        [f"phase of eval is left out, and all else is written: {PHASES} odd (reported once)"],
    ),
    "a mapping in place of a loss": (
        [lambda run: run.step(1, loss={"ce": 1, "z": 2}), lambda run: run.eval("v", loss={"ce": 1})],
        [
            {"kind": "step", "step": 1, "extra": {"loss/ce": 1.0, "loss/z": 2.0}},
            {"kind": "eval", "phase": "eval", "name": "v"},
            {
                "kind": "note", "topic": "left-out", "left_out": {"loss/ce": 1},
                "text": "left out: loss/ce (/loss must be a number, got dict)",
            },
        ],
        ["loss/ce of eval is left out, and all else is written: /loss must be a number, got dict (reported once)"],
    ),
    "values of another phase before any step": (
        [lambda run: run.log({"a": 1}, phase="eval")],
        [{"kind": "scalars", "phase": "eval", "values": {"a": 1.0}}],
        [],
    ),
    "values without names": (
        [lambda run: run.log([1, 2], b=3)],
        [
            {
                "kind": "note", "topic": "left-out", "left_out": {"values": 1},
                "text": f"left out: values ({NO_NAMES})",
            },
            {"kind": "scalars", "step": 1, "values": {"b": 3.0}},
        ],
        [
            f"values is left out: {NO_NAMES} (reported once)"
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_calls_become_these_records(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each value is in a record or counted in a note, and standard error says once what was changed."""
    calls, expected, said = STEPS[name]
    run = begun(tmp_path)
    for call in calls:
        call(run)
    assert expected == stream(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert said == [line.removeprefix(f"toyspec: {run.events_path}: ") for line in lines]
    run.abandon()


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
        (lambda run: run.__exit__(None, None, None), []),
        (lambda run: run.close(KeyboardInterrupt()), ["interrupted"]),
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


def test_end_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the end of a program no caller could take an error."""
    run = begun(tmp_path)

    def fail(**_: Any) -> None:
        raise RuntimeError("no end")

    monkeypatch.setattr(run, "run_end", fail)
    open_runs.start_again(run.events_path)
    other = begun(tmp_path, exist="replace")
    monkeypatch.setattr(other, "run_end", fail)
    other.__exit__(KeyError, KeyError(), None)
    fact = f"toyspec: {run.events_path}: run_end could not be written: no end"
    assert [fact, fact] == [line for line in capsys.readouterr().err.splitlines() if "run_end" in line]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, ("interrupted", "signal SIGTERM", 143)),
        (SystemExit(0), ("interrupted", "signal SIGTERM", 0)),
        (SystemExit(3), ("interrupted", "signal SIGTERM", 3)),
        (KeyboardInterrupt(), ("interrupted", "signal SIGTERM", 143)),
        (ValueError("bad"), ("interrupted", "signal SIGTERM, then ValueError: bad", 143)),
    ],
)
def test_a_signal_is_asked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException | None, expected: tuple[str, str, int]
) -> None:
    """A run that a signal has interrupted is interrupted, whatever the program did then."""
    run = begun(tmp_path)
    monkeypatch.setitem(open_runs._program.signals, open_runs._key(run.events_path), signal.SIGTERM)
    run.__exit__(type(error) if error else None, error, None)
    end = stream(tmp_path)[-1]
    assert expected == (end["reason"], end["error"], end["exit_code"])


def test_exit_of_the_program_goes_on_as_before() -> None:
    """What a run puts in its way only remembers the code."""
    asked: list[object] = []
    before = open_runs._program.exit_code
    try:
        open_runs._note_exit(asked.append, 3)
        assert ([3], 3) == (asked, open_runs._program.exit_code)
    finally:
        open_runs._program.exit_code = before


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
    fact = f"the record would have more than {most} bytes; write it to a file"
    assert {fact} >= {why for _, why in left_out}
    for name, _ in left_out:
        whole = dict(kept)
        if name in record:
            whole[name] = record[name]
        else:
            key, inner = ("texts", name[6:]) if name.startswith("texts/") else ("values", name)
            whole[key] = {**kept.get(key, {}), inner: record[key][inner]}
        assert len(encode(whole)) > most
    names = {name for name, _ in left_out}
    whole = {f"texts/{name}": name for name in record["texts"]} | {name: name for name in record["values"]} | record
    there = {*kept, *kept["values"], *(f"texts/{name}" for name in kept.get("texts", {}))}
    assert whole.keys() - names - {"texts"} == there - {"texts"}


def test_values_that_no_record_can_hold_are_named() -> None:
    """The reason of the encoder is the reason."""
    record = {"kind": "note", "t": 0.0, "text": "a", "topic": object(), "by": {"kind": "human", "odd": 10**400}}
    kept, left_out = writable("note", record, lambda members: len(encode(dict(members))))
    assert {"kind": "note", "t": 0.0, "text": "a", "by": {"kind": "human"}} == kept
    assert ["topic", "by/odd"] == [name for name, _ in left_out]
    assert all(isinstance(each, LeftOut) for each in left_out)


def test_what_is_outside_gets_a_free_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second file of one name is kept beside the first; a silent run looks at no file."""
    monkeypatch.chdir(tmp_path)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "w.bin").write_text(folder)
    with begun(tmp_path) as run:
        for folder in ("one", "two", "two"):
            run.artifact(f"{folder}/w.bin", copy=True, role="weights", media_type="a/b", step=2)
    found = [record for record in stream(tmp_path) if record["kind"] == "artifact"]
    assert ["artifacts/w.bin", "artifacts/w.bin-2", "artifacts/w.bin-3"] == [record["path"] for record in found]
    assert [("weights", "a/b", 2, 3)] * 3 == [
        tuple(record[key] for key in ("role", "media_type", "step", "size_bytes")) for record in found
    ]
    RunWriter(tmp_path / "silent", silent=True).artifact("one/w.bin", copy=True)
    assert not (tmp_path / "silent").exists()


def test_file_that_cannot_be_copied_is_referred_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says why; the log says where the file is."""
    outside = tmp_path / "w.bin"
    outside.write_text("w")
    with begun(tmp_path) as run:
        (tmp_path / "r" / "artifacts").write_text("no folder")
        run.artifact(outside, copy=True, media_type="a/b")
    fact = f"{run.events_path}: {outside} could not be copied (Not a directory)"
    assert f"toyspec: {fact}\n" == capsys.readouterr().err
    (found,) = [record for record in stream(tmp_path) if record["kind"] == "reference"]
    assert (outside.as_uri(), 1, None) == (found["uri"], found["size_bytes"], found.get("media_type"))


def test_wrong_choices_say_what_may_be_chosen(tmp_path: Path) -> None:
    """The message has the value and the choices."""
    with pytest.raises(ValueError) as caught:
        toyspec.start_run(tmp_path, ranks="some")  # type: ignore[arg-type]
    assert "ranks is 'some'; pass 'first' for one log, or 'all' for one of each process" == str(caught.value)
    with pytest.raises(ValueError) as caught:
        toyspec.start_run(tmp_path, wait_seconds=-1)
    assert "wait_seconds is -1; it must be a number of seconds ≥ 0" == str(caught.value)
    with pytest.raises(ValueError) as caught:
        RunWriter("s3://bucket/r")
    assert "s3://bucket/r is an address; write the run into a folder, and copy that there" == str(caught.value)
    assert [] == os.listdir(tmp_path)


def test_end_of_a_watch_waits_for_its_thread(tmp_path: Path) -> None:
    """Some seconds at most, and not for itself."""
    health = RunHealth(begun(tmp_path), (), (), poll_seconds=60.0)
    waited = list[float]()
    thread, health._thread = health._thread, SimpleNamespace(is_alive=lambda: True, join=waited.append)  # type: ignore[assignment]
    health.ending()
    assert ([2.0], True) == (waited, health._stopped.is_set())
    thread.join(120.0)
    health._thread = threading.current_thread()
    health.ending()
    assert not thread.is_alive()


def test_progress_of_a_seal_ends_with_all_bytes(tmp_path: Path) -> None:
    """Each part adds up to the size of all files."""
    with begun(tmp_path) as run:
        run.note("x")
    (tmp_path / "r" / "a.bin").write_bytes(b"12345")
    told: list[tuple[int, int]] = []
    toyspec.seal(tmp_path / "r", on_progress=lambda *each: told.append(each))
    total = sum(path.stat().st_size for path in (tmp_path / "r").iterdir() if path.name != "SHA256SUMS")
    assert {total} == {known for _, known in told}
    assert (sorted(told), (total, total)) == (told, told[-1])


def test_file_of_a_record_that_cannot_be_read_is_the_cause(tmp_path: Path) -> None:
    """A caller that wants errors gets one with the name of the record and what the system or the content says."""
    run = begun(tmp_path, on_error="raise")
    for content, digest, fact in (
        (b"x", "0" * 64, f"its sha256 is {sha256(b'x').hexdigest()}, but the record says {'0' * 64}; leave it out"),
        (tmp_path / "none", None, "it cannot be read: FileNotFoundError: [Errno 2] No such file or directory: "),
    ):
        with pytest.raises(ValueError, match=r"^m cannot be written") as caught:
            run.media("m", media_type="text/plain", content=content, sha256=digest)
        assert str(caught.value).startswith(f"m cannot be written: {fact}")
    (tmp_path / "r" / "media").rmdir()
    (tmp_path / "r" / "media").write_text("no folder")
    with pytest.raises(ValueError, match=r"^m cannot be written: its file could not be written: Not a directory"):
        run.media("m", media_type="text/plain", content=b"x")
    run.abandon()


def test_companion_of_a_parent_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked child neither ends the process that goes along with the run, nor waits for it."""
    companion = CompanionProcess.__new__(CompanionProcess)
    process: Any = SimpleNamespace(stdin=SimpleNamespace(close=lambda: None), wait=lambda _: 0)
    companion._process, companion._owner, companion._is_over = process, os.getpid() + 1, False
    companion._order = CompanionOrder("m", b"", 0.0, "late")
    companion.ended()
    assert not companion._is_over
    companion._owner = os.getpid()
    companion.ended()
    assert companion._is_over


@pytest.mark.parametrize("module", ["toyspec.stores.companion", "toyspec.convert.mirrors"])
@pytest.mark.parametrize("order", [b"", b'{"directory":'])
def test_companion_whose_training_is_gone_before_its_order_ends_quietly(module: str, order: bytes) -> None:
    """A program that is killed while it starts a run leaves no traceback of another one."""
    ended = subprocess.run([sys.executable, "-P", "-m", module], input=order, capture_output=True, check=False)
    assert (0, b"", b"") == (ended.returncode, ended.stdout, ended.stderr)


def test_companion_that_is_late_goes_on_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """What is said has the number of its process, which is not waited for again."""

    def late(seconds: float) -> None:
        raise subprocess.TimeoutExpired("m", seconds)

    companion = CompanionProcess.__new__(CompanionProcess)
    process: Any = SimpleNamespace(stdin=SimpleNamespace(close=lambda: None), wait=late, pid=7, returncode=None)
    companion._process, companion._owner = process, os.getpid()
    companion._order = CompanionOrder("m", b"", 0.0, "the rest is still sent")
    companion.ended()
    assert ("toyspec: the rest is still sent, by process 7\n", 0) == (capsys.readouterr().err, process.returncode)


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


def test_companions_go_along_from_start_to_end_and_again(tmp_path: Path) -> None:
    """They begin after run_start, get each record, write before run_end, and begin again with a run that goes on."""
    called: list[str] = []
    run = RunWriter(tmp_path / "r", companions=[Along("", called)], resuming="by-itself", clock=ManualClock())
    assert [] == called
    run.run_start()
    run.step(1, loss=0.5)
    run.run_end()
    first = ["started", "run_start", "step", "ending", "run_end", "ended"]
    assert first == called
    run.note("again")
    run.abandon()
    assert [*first, "started", "run_start", "run_resume", "note", "ending", "ended"] == called


@pytest.mark.parametrize("hook", ["started", "run_start", "step", "ending", "run_end", "ended"])
def test_failure_of_a_companion_is_reported_and_reaches_no_caller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hook: str
) -> None:
    """The log is whole, and the others go on."""
    others: list[str] = []
    along = [Along(hook, []), Along("", others)]
    with RunWriter(tmp_path / "r", companions=along, resuming="by-itself") as run:
        run.run_start()
        run.step(1, loss=0.5)
    assert ["step", "run_end"] == [record["kind"] for record in stream(tmp_path)]
    assert ["started", "run_start", "step", "ending", "run_end", "ended"] == others
    assert 1 == capsys.readouterr().err.count("(Resource temporarily unavailable)")


def test_other_objects_than_companions_are_refused(tmp_path: Path) -> None:
    """Before anything is made."""
    with pytest.raises(TypeError, match=r"companions has 'wandb'; pass such as toyspec.System\(\)"):
        toyspec.start_run(tmp_path, companions=["wandb"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="unexpected keyword argument 'mirrors'"):
        toyspec.start_run(tmp_path, mirrors=[])  # type: ignore[call-arg]
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda lost: lost.leave_out("a"), {"dropped": {"record": 1}, "text": "left out: record (a)"}),
        (lambda lost: lost.leave_out("a", kind="step"), {"dropped": {"step": 1}, "text": "left out: step (a)"}),
        (lambda lost: lost.add("full"), {"dropped": {"record": 1}, "text": "1 record was dropped here: full"}),
        (lambda lost: lost.tell_caller("full"), {"dropped": {"record": 1}, "text": "1 record was dropped here: full"}),
        (
            lambda lost: [lost.add("full", kind="step"), lost.add("full", kind="note")],
            {"dropped": {"step": 1, "note": 1}, "text": "2 records were dropped here: full"},
        ),
        (
            lambda lost: lost.count_forked(Counter({"step": 2})),
            {
                "dropped": {"step": 2},
                "text": "left out: records of forked processes (the process that started the run is its only writer)",
            },
        ),
        (
            lambda lost: [lost.leave_out_values([LeftOut(f"v{at}", "why")], "step") for at in range(7)],
            {
                "left_out": {f"v{at}": 1 for at in range(7)},
                "text": f"left out: {'; '.join(f'v{at} (why)' for at in range(5))}; and 2 more",
            },
        ),
    ],
    ids=range(7),
)
def test_note_counts_what_is_missing(call: Call, expected: dict[str, Any]) -> None:
    """Records by kind, values by name, and why; then it begins again, and what is like before is only counted."""
    lost = DroppedRecords("events.jsonl")
    call(lost)
    assert {"kind": "note", "topic": "left-out", **expected} == lost.note()
    assert lost.has_unnoted
    lost.end_note(lost.note())
    assert (False, False) == (lost.has_unnoted, lost.has_news)
    lost.outage = 0
    call(lost)
    numbers = {**expected.get("dropped", {}), **expected.get("left_out", {})}
    if not lost.outage:
        assert f"left out: {sum(numbers.values())} more like before" == lost.note()["text"]


def test_run_that_goes_on_counts_what_forked_processes_log(tmp_path: Path) -> None:
    """An ended run does not, and it does again from its next record on."""
    run = begun(tmp_path)
    run.run_end()
    counted = [run._stream._forked.is_open]
    run.note("again")
    counted.append(run._stream._forked.is_open)
    assert [False, True] == counted
    run.abandon()
