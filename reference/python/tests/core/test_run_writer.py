"""The methods of a run's writer: what each writes, and what it refuses."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from files import content
from toyspec.core.checker.checking import check
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.generated import toy_v1
from toyspec.core.reading.reader import read
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import ManualClock

EVERY_KIND = """\
{"kind":"step","t":0.0,"step":7,"loss":1.0,"ppl":2.5,"grad_norm":0.5,"tokens":8,"compute_us":9,"wall_us":10,\
"extra":{"ce":0.5,"mfu":1.0}}
{"kind":"step","phase":"decode","t":0.0,"step":1,"token_id":3,"logprob":-0.5}
{"kind":"tap","t":0.0,"step":7,"region":"mlp","layer":null,"head":2,"shape":[2,3],"dtype":"f32","l2":1.0,\
"gram":[[1.0,2.0],[3.0,4.0]]}
{"kind":"grad","t":0.0,"step":7,"param":"blk.0.attn_q.weight#lora_a","nan_count":0,"per_head_l2":[1.0,null],\
"histogram":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}
{"kind":"op_timing","t":0.0,"step":7,"buckets":{"add":1,"matmul":5},"compute_us":6}
{"kind":"drift","t":0.0,"step":7,"param":"w","cos_to_init":1.0,"l2_to_init":0.5,"token_id":5,"freq":2.0}
{"kind":"sample","t":0.0,"step":7,"prompt":"Once","text":"upon"}
{"kind":"eval","phase":"eval","t":0.0,"step":7,"name":"held-out","loss":2.0,"samples":10,"extra":{"a":null,\
"b":[1]}}
{"kind":"eval","phase":"serve","t":0.0,"name":"request"}
{"kind":"compare","t":0.0,"step":7,"baseline_run_id":"base","verdict":"par","loss_delta":0.0,"ppl_ratio":1.0}
{"kind":"region_enter","t":0.0,"step":8,"region":"forward"}
{"kind":"note","t":0.0,"text":"inside"}
{"kind":"region_exit","t":0.0,"step":8,"region":"forward"}
{"kind":"system","t":0.0,"memory_used_bytes":1,"memory_limit_bytes":2,"data_wait_us":3,"extra":{"gpu_c":70.0}}
{"kind":"run_resume","t":0.0,"from_step":7,"reason":"node lost"}
{"kind":"run_end","t":0.0,"reason":"aborted","final_step":7,"final_loss":1.0,"exit_code":1,"error":"gate",\
"quality_gate":{"passed":false,"threshold":2.0}}
"""
HOST = {"name": "node7", "os": "linux", "arch": "x86_64"}


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stands still."""
    return ManualClock()


@pytest.fixture
def run(tmp_path: Path, clock: ManualClock) -> RunWriter:
    """Return a writer of a run that has not started."""
    return RunWriter(tmp_path / "llama-001", clock=clock, on_error="raise")


def start(run: RunWriter, **members: Any) -> RunWriter:
    """Write a small run_start."""
    run.run_start(host="", started_at="", **members)
    return run


def lines(run: RunWriter) -> list[str]:
    """Return the lines of the stream behind the first."""
    return content(run.events_path).decode().splitlines()[1:]


def test_a_whole_run_is_written(run: RunWriter, clock: ManualClock) -> None:
    """A run with all that three lines of user code say is complete, valid and canonical."""
    with run:
        run.run_start(
            model={"arch": "llama", "vocab": 32000},
            config={"seed": 7, "lr": 3e-4},
            backend="cuda",
            git="4bf48d3",
            host=HOST,
        )
        for loss in (2.5, 2, math.nan):
            clock.advance(0.5)
            run.step(loss=loss, lr=3e-4)
    assert (
        '{"kind":"run_start","schema":"toy/v1","t":0.0,"started_at":"2026-05-31T09:30:00Z","run_id":"llama-001",'
        '"host":{"name":"node7","os":"linux","arch":"x86_64"},"backend":{"kind":"cuda"},"git":{"sha":"4bf48d3"},'
        '"model":{"arch":"llama","vocab":32000},"config":{"lr":0.0003,"seed":7}}\n'
        '{"kind":"step","t":0.5,"step":1,"loss":2.5,"lr":0.0003}\n'
        '{"kind":"step","t":1.0,"step":2,"loss":2.0,"lr":0.0003}\n'
        '{"kind":"step","t":1.5,"step":3,"loss":null,"lr":0.0003,"nonfinite":{"loss":"nan"}}\n'
        '{"kind":"run_end","t":1.5,"ended_at":"2026-05-31T09:30:01Z","reason":"completed","final_step":3,"final_loss":null}\n'
    ) == content(run.events_path).decode()
    (report,) = check(run.events_path).files
    assert ("complete", []) == (report.state, report.findings)
    assert not run.active


def test_every_kind_has_its_method(run: RunWriter) -> None:
    """Each method writes its kind with the members it is given, in the order of the schema."""
    start(run, compare_to="base")
    run.step(7, loss=1.0, ppl=2.5, grad_norm=0.5, tokens=8, compute_us=9, wall_us=10, extra={"mfu": 1, "ce": 0.5})
    run.step(1, token_id=3, logprob=-0.5, phase="decode")
    run.tap("mlp", step=7, layer=None, head=2, shape=(2, 3), dtype="f32", l2=1, gram=[[1, 2], [3, 4]])
    run.grad("blk.0.attn_q.weight#lora_a", step=7, nan_count=0, per_head_l2=[1, None], histogram=[1] * 32)
    run.op_timing({"matmul": 5, "add": 1}, step=7, compute_us=6)
    run.drift("w", step=7, cos_to_init=1, l2_to_init=0.5, token_id=5, freq=2)
    run.sample("Once", "upon", step=7)
    run.eval("held-out", step=7, loss=2, samples=10, extra={"b": [1], "a": None})
    run.eval("request", phase="serve")
    run.compare("par", step=7, baseline_run_id="base", loss_delta=0, ppl_ratio=1.0)
    with run.region("forward", step=8):
        run.note("inside")
    run.system(memory_used_bytes=1, memory_limit_bytes=2, data_wait_us=3, extra={"gpu_c": 70})
    run.run_resume(7, reason="node lost", resumed_at="")
    run.run_end("aborted", exit_code=1, error="gate", quality_gate={"threshold": 2, "passed": False}, ended_at="")
    assert EVERY_KIND.splitlines() == lines(run)
    assert [] == check(run.events_path).files[0].findings


def test_none_is_not_given(run: RunWriter) -> None:
    """An argument that is None is left out; in a mapping it is null, and so is a measure that is not finite."""
    start(run, name=None, tags=None, parent=None, rank=None)
    run.step(loss=None, ppl=None, tokens=None, phase=None, extra=None)
    run.step(loss=math.nan, extra={"a": None})
    run.eval("val", loss=None, step=None, extra={"b": None})
    run.scalars({"x": None}, epoch=None, texts=None)
    run.drift("w", step=2, cos_to_init=None, l2_to_init=0.5, freq=None)
    run.run_end(final_step=None, final_loss=None, error=None, energy_joules=None, ended_at="")
    assert [
        '{"kind":"step","t":0.0,"step":1}',
        '{"kind":"step","t":0.0,"step":2,"loss":null,"extra":{"a":null},"nonfinite":{"loss":"nan"}}',
        '{"kind":"eval","phase":"eval","t":0.0,"name":"val","extra":{"b":null}}',
        '{"kind":"scalars","t":0.0,"values":{"x":null}}',
        '{"kind":"drift","t":0.0,"step":2,"param":"w","cos_to_init":null,"l2_to_init":0.5}',
        '{"kind":"run_end","t":0.0,"reason":"completed"}',
    ] == lines(run)


def test_a_step_is_canonical_however_its_values_come(run: RunWriter) -> None:
    """Maps in any order, integers for numbers and what is not finite are spelled as the canonical form wants."""
    start(run)
    run.step(extra={"b": 1.0, "a": 2.0, "é": math.nan})
    run.step(loss=1, lr=0, grad_norm=-0.0)
    run.step(extra={"a": 1.0, "b": 2.0}, phase="train")
    expected = [
        '{"kind":"step","t":0.0,"step":1,"extra":{"a":2.0,"b":1.0,"é":null},"nonfinite":{"extra/é":"nan"}}',
        '{"kind":"step","t":0.0,"step":2,"loss":1.0,"lr":0.0,"grad_norm":-0.0}',
        '{"kind":"step","phase":"train","t":0.0,"step":3,"extra":{"a":1.0,"b":2.0}}',
    ]
    assert expected == lines(run)


def test_counting_is_by_phase(run: RunWriter) -> None:
    """A step without a number is one more than the last of its phase, from 1; step 0 is a number."""
    start(run, phase="eval")
    run.step()
    run.step()
    run.step(phase="train")
    run.step(0, phase="decode")
    run.step(phase="decode")
    run.step(5)
    run.step()
    run.run_resume(2)
    run.step(phase="train")
    run.step()
    found = [(record.get("phase"), record["step"]) for record in read(run.events_path) if record.kind == "step"]
    expected = [(None, 1), (None, 2), ("train", 1), ("decode", 0), ("decode", 1), (None, 5), (None, 6)]
    assert [*expected, ("train", 3), (None, 1)] == found
    assert 3 == run.last_step


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.step(3), "step 3 after step 3 in phase train"),
        (lambda run: run.step(2, loss=1), "step 2 after step 3 in phase train"),
        (lambda run: run.step(-1), "int"),
        (lambda run: run.step(1.5), "/step must be an integer, got 1.5"),
        (lambda run: run.step("4"), "/step must be an integer, got '4'"),
        (lambda run: run.step(loss="low"), "/loss must be a number, got 'low'"),
        (lambda run: run.step(loss=True), "/loss must be a number, got True"),
        (lambda run: run.step(tokens=1.0), "/tokens must be an integer, got 1.0"),
        (lambda run: run.step(tokens=-1), ">= 0"),
        (lambda run: run.step(phase="rest"), "phase"),
        (lambda run: run.step(extra={"a": [1]}), "extra/a of step cannot be written: it must be a number or a text"),
        (lambda run: run.tap("mlp", step=None), "step"),
        (lambda run: run.tap("mlp", step=1, sparsity=1.5), "sparsity"),
        (lambda run: run.grad("w", step=1, histogram=[1]), "histogram"),
        (lambda run: run.eval(None), "name"),
        (lambda run: run.compare("same", step=1, baseline_run_id="b"), "verdict"),
        (lambda run: run.run_end("finished"), "reason"),
        (lambda run: run.run_end(exit_code=256), "exit_code"),
        (lambda run: run.run_end(quality_gate={"passed": True, "threshold": math.nan}), "threshold"),
        (
            lambda run: run.run_end(ended_at="2026-02-30T00:00:00Z"),
            "ended_at '2026-02-30T00:00:00Z' must be an RFC 3339",
        ),
        (lambda run: run.run_resume(1, resumed_at="yesterday"), "resumed_at"),
        (lambda run: run.run_start(), "a second run_start"),
        (lambda run: run.write({"kind": "note", "t": -1.0, "text": "x"}), "t"),
        (lambda run: run.write({"kind": "note", "t": 0.25, "text": "x"}), "t 0.25 of note is less than 0.5"),
        (lambda run: run.write({"kind": "note", "t": math.nan, "text": "x"}), "t"),
        (lambda run: run.write({"kind": "note"}), "text"),
        (lambda run: run.write({"t": 1.0}), "has no kind"),
        (lambda run: run.write({"kind": 3}), "has no kind"),
        (lambda run: run.write(["kind"]), "the event must be an object, got list"),
        (lambda run: run.write({"kind": "own", "x": object()}), "/x must be a value that JSON can hold"),
    ],
)
def test_an_invalid_call_raises_and_writes_nothing(run: RunWriter, clock: ManualClock, call: Any, message: str) -> None:
    """What would make the stream invalid is refused with the reason, and the stream goes on."""
    start(run)
    clock.advance(0.5)
    run.step(3)
    before = content(run.events_path)
    with pytest.raises(InvalidEventError) as caught:
        call(run)
    assert message in str(caught.value)
    assert before == content(run.events_path)
    run.step(loss=1)
    assert '{"kind":"step","t":0.5,"step":4,"loss":1.0}' == lines(run)[-1]


def test_a_member_that_no_kind_has_is_never_ignored(run: RunWriter) -> None:
    """A call without what a record needs raises, and a misspelt member of a step is written."""
    start(run)
    with pytest.raises(TypeError):
        run.note()  # type: ignore[call-arg]
    for statistics in ({"l3": 1}, {"dtype": "f32"}):
        with pytest.raises(TypeError, match=f"'{next(iter(statistics))}'"):
            run.grad("w", step=1, **statistics)
    run.step(los=1.0, mae=0.1)
    assert {"los": 1.0, "mae": 0.1} == list(read(run.directory, mode="salvage"))[-1]["extra"]


def test_run_start_comes_first_and_run_end_last(run: RunWriter) -> None:
    """Nothing is written before run_start or after run_end."""
    with pytest.raises(InvalidEventError, match="step before run_start"):
        run.step()
    with pytest.raises(InvalidEventError, match="gpu before run_start"):
        run.write({"kind": "gpu"})
    start(run)
    run.run_end()
    calls: list[Callable[[], object]] = [
        run.step,
        run.run_end,
        lambda: run.note("x"),
        lambda: run.write({"kind": "gpu"}),
    ]
    for call in calls:
        with pytest.raises(InvalidEventError, match="the run has ended"):
            call()
    run.close()
    assert 2 == len(content(run.events_path).splitlines())


def test_a_run_end_of_any_sort_closes_the_run(run: RunWriter) -> None:
    """A run_end that comes as an event is the last record, and gives the file free."""
    start(run)
    run.write({"kind": "run_end", "reason": "aborted"})
    assert not run.active
    with pytest.raises(InvalidEventError, match="the run has ended"):
        run.step()
    assert ['{"kind":"run_end","t":0.0,"reason":"aborted"}'] == lines(run)
    RunWriter(run.directory, on_error="raise").close()


def test_what_earns_a_warning_is_written(run: RunWriter) -> None:
    """Skipped steps, open regions and an unexplained error are the user's business."""
    start(run)
    run.step(1)
    run.step(9)
    run.region_exit("never entered")
    run.compare("par", step=9, baseline_run_id="none")
    run.run_end("errored", final_step=10, final_loss=1.0)
    report = check(run.events_path).files[0]
    assert report.valid
    expected = ["compare-without-baseline", "error-not-explained", "final-step-mismatch", "region-not-nested"]
    assert [*expected, "step-skipped"] == sorted(finding.rule for finding in report.findings)


def test_any_event_can_be_written(run: RunWriter, clock: ManualClock) -> None:
    """Structs and mappings of known and unknown kinds are written, with the time unless they have one."""
    start(run)
    clock.advance(1.0)
    run.write(toy_v1.Note(t=0.5, text="early"))
    run.write({"kind": "note", "text": "now", "color": "red"})
    run.write({"kind": "gpu", "celsius": 70, "t": 3})
    run.write({"kind": "note", "t": 2, "text": "later"})
    run.note("not before")
    expected = [
        '{"kind":"note","t":0.5,"text":"early"}',
        '{"kind":"note","t":1.0,"text":"now","color":"red"}',
        '{"kind":"gpu","celsius":70,"t":3}',
        '{"kind":"note","t":2.0,"text":"later"}',
        '{"kind":"note","t":2.0,"text":"not before"}',
    ]
    assert expected == lines(run)


def test_a_step_written_as_an_event_counts(run: RunWriter) -> None:
    """Steps that come as Structs or mappings move the counter and the final values too."""
    start(run)
    run.write(toy_v1.Step(t=0.0, step=4, loss=2))
    run.step()
    run.write({"kind": "step", "step": 6, "loss": 1.5})
    run.run_end(ended_at="")
    assert '"step":5' in lines(run)[1]
    assert '{"kind":"run_end","t":0.0,"reason":"completed","final_step":6,"final_loss":1.5}' == lines(run)[-1]


def test_a_clock_that_is_set_back_repeats_the_time(run: RunWriter, clock: ManualClock) -> None:
    """Time in a stream never decreases, whatever the clock does."""
    start(run)
    for seconds in (1.0, -5.0, 4.5, 1.0):
        clock.advance(seconds)
        run.note("x")
    assert [1.0, 1.0, 1.0, 1.5] == [record["t"] for record in read(run.events_path)][1:]


def test_text_that_utf8_cannot_hold_does_not_raise(run: RunWriter) -> None:
    """Half a surrogate pair in a note is replaced, since a log call must not end a training."""
    start(run)
    run.note("a\ud800")
    assert "a\ufffd" == list(read(run.events_path))[-1]["text"]


def test_the_run_id_is_safe(tmp_path: Path) -> None:
    """The id is the directory's name or given, and an unsafe one is refused before anything is made."""
    assert "a-1" == RunWriter(tmp_path / "a-1").run_id
    assert "b" == RunWriter(tmp_path / "a-2", run_id="b").run_id
    with pytest.raises(ValueError, match="run id 'a 3'"):
        RunWriter(tmp_path / "a 3")
    with pytest.raises(ValueError, match=r"run id '\.\./x'"):
        RunWriter(tmp_path / "a-4", run_id="../x")
    assert ["a-1", "a-2"] == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize("options", [{"exist": "append"}, {"durability": "none"}, {"on_error": "ignore"}])
def test_an_unknown_choice_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    """A misspelt option raises and makes nothing."""
    with pytest.raises(ValueError, match=next(iter(options))):
        RunWriter(tmp_path / "a", **options)
    assert [] == list(tmp_path.iterdir())


def test_a_writer_stays_where_it_is(tmp_path: Path) -> None:
    """A copy of a trainer has the same writer, and pickling it says what to do instead."""
    with RunWriter(tmp_path / "a") as run:
        run.run_start()
        assert copy.deepcopy({"run": run})["run"] is run
        assert copy.copy(run) is run
        with pytest.raises(TypeError, match="cannot be sent to another process; return the values to this one"):
            pickle.dumps(run)


def test_wrong_choice_names_the_choices(tmp_path: Path) -> None:
    """A text that is not one of those that a member can have is refused with all of them."""
    run = RunWriter(tmp_path, run_id="a", on_error="raise")
    run.run_start()
    with pytest.raises(InvalidEventError, match=": reason is 'diverged'; it must be one of 'aborted', 'completed', "):
        run.run_end(reason="diverged")  # type: ignore[arg-type]
    with pytest.raises(InvalidEventError, match=r"which is -1$"):
        run.step(-1, loss=1.0)
    run.abandon()
