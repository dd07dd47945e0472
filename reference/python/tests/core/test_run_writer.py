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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.step(-1, loss=1.0), "which is -1"),
        (lambda run: run.step(loss="low"), "/loss must be a number, got 'low'"),
        (
            lambda run: run.step(extra={"a": object()}),
            "extra/a of step cannot be written: it must be a number or a text",
        ),
        (lambda run: run.eval(None), "name"),
        (lambda run: run.run_end(quality_gate={"passed": True, "threshold": math.nan}), "threshold"),
        (
            lambda run: run.run_end(ended_at="2026-02-30T00:00:00Z"),
            "ended_at '2026-02-30T00:00:00Z' must be an RFC 3339",
        ),
        (lambda run: run.run_start(), "a second run_start"),
        (lambda run: run.step(3), "step 3 after step 3 in phase train: step numbers must increase; to repeat steps, "),
        (
            lambda run: run.write({"kind": "note", "t": 0.25, "text": "x"}),
            "t 0.25 of note is less than 0.5 of the",
        ),
        (lambda run: run.write({"kind": "note"}), "text"),
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


def test_run_start_comes_first_and_run_end_last(run: RunWriter) -> None:
    """Nothing is written before run_start or after a run_end of any sort, which gives the file free."""
    with pytest.raises(InvalidEventError, match="step before run_start"):
        run.step()
    with pytest.raises(InvalidEventError, match="gpu before run_start"):
        run.write({"kind": "gpu"})
    start(run)
    run.write({"kind": "run_end", "reason": "aborted"})
    calls: list[Callable[[], object]] = [run.step, run.run_end, lambda: run.write({"kind": "gpu"})]
    for call in calls:
        with pytest.raises(InvalidEventError, match="the run has ended"):
            call()
    assert ['{"kind":"run_end","t":0.0,"reason":"aborted"}'] == lines(run)
    RunWriter(run.directory, on_error="raise").close()


def test_any_event_can_be_written(run: RunWriter, clock: ManualClock) -> None:
    """Structs and mappings of known and unknown kinds are written, with the time unless they have one."""
    start(run)
    clock.advance(1.0)
    run.write(toy_v1.Note(t=0.5, text="early"))
    run.write({"kind": "note", "text": "now", "color": "red"})
    run.write({"kind": "gpu", "celsius": 70, "t": 3})
    run.write({"kind": "note", "t": 2, "text": "later"})
    # Half a surrogate pair is replaced.
    run.note("not before\ud800")
    expected = [
        '{"kind":"note","t":0.5,"text":"early"}',
        '{"kind":"note","t":1.0,"text":"now","color":"red"}',
        '{"kind":"gpu","celsius":70,"t":3}',
        '{"kind":"note","t":2.0,"text":"later"}',
        '{"kind":"note","t":2.0,"text":"not before\ufffd"}',
    ]
    assert expected == lines(run)


def test_a_writer_stays_where_it_is(tmp_path: Path) -> None:
    """A copy of a trainer has the same writer, and pickling it says what to do instead."""
    with RunWriter(tmp_path / "a") as run:
        run.run_start()
        assert copy.deepcopy({"run": run})["run"] is run
        assert copy.copy(run) is run
        with pytest.raises(TypeError, match="cannot be sent to another process; return the values to this one"):
            pickle.dumps(run)


def test_a_clock_that_is_set_back_repeats_the_time(run: RunWriter, clock: ManualClock) -> None:
    """Time in a stream never decreases, whatever the clock does."""
    start(run)
    for seconds in (1.0, -5.0, 4.5, 1.0):
        clock.advance(seconds)
        run.note("x")
    assert [1.0, 1.0, 1.0, 1.5] == [record["t"] for record in read(run.events_path)][1:]
