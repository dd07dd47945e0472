"""Tests of what the ends of a stream say about its run, against what the whole stream says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import strategies
from property_examples import examples
from run_streams import stream
from toyspec import list_runs
from toyspec.core.command_line.main import main
from toyspec.core.generated.runs import COLUMNS
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.runs import stream_ends
from toyspec.core.runs import summary as run_ends
from toyspec.core.runs.summary import RunSummary, summarize_ends, summarize_run

if TYPE_CHECKING:
    from pathlib import Path

    from loopback_store import Store

START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "started_at": "2026-05-31T09:30:00Z"}
END = {"kind": "run_end", "t": 999.0, "reason": "completed", "final_loss": 0.5}
NOTE = {"kind": "note", "t": 998.0, "text": "x" * 90}
RESUME = {"kind": "run_resume", "t": 998.0, "from_step": 40}
SCALARS = [
    {"type": "scalar", "step": step, "tag": tag, "value": 9.0 / step, "wall_time": float(step)}
    for step in range(1, 60)
    for tag in ("val/loss", "train/loss")
]
ENTRIES = [{"step": step, "wall_time_ms": step * 10.0, "loss": 9.0 / (step + 1)} for step in range(200)]


def _steps(first: int, last: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"kind": "step", "t": float(step), "step": step, "loss": 9.0 / step, **more} for step in range(first, last + 1)
    ]


STEPS = _steps(1, 100)
SOUND = {
    "ended": stream(START, *STEPS, END),
    "killed": stream(START, *STEPS) + b'{"kind":"step","t":101.0',
    "power lost": stream(START, *STEPS) + b"\0" * 4096,
    "no loss at all": stream(START, *({"kind": "step", "t": 1.0, "step": step} for step in range(1, 300))),
    "evaluation behind training": stream(START, *STEPS, *_steps(1, 60, phase="eval"), END),
    "resumed from far before its end": stream(START, *_steps(1, 3000), RESUME),
    "resumed behind the first steps": stream(START, *_steps(1, 9), RESUME | {"from_step": 3}, *_steps(4, 3000), END),
    "resumed far back near its end": stream(START, *_steps(1, 3000), RESUME, *_steps(41, 60)),
    "resumed long ago": stream(START, *STEPS, RESUME, *_steps(41, 140), END),
    "long first line": stream(START | {"config": {"text": "x" * 9000}}, *STEPS, END),
    "first line beyond the limit": stream(START | {"config": {"text": "x" * 200_000}}, *STEPS, END),
    "last line beyond the limit": stream(START, *STEPS, NOTE | {"text": "x" * 200_000}),
    "blank lines": b"\n" * 2000 + stream(START, *STEPS, END) + b"\n" * 2000,
    "metrics": stream(*ENTRIES),
    "scalars": stream(*SCALARS),
}


def write(folder: Path, data: bytes) -> str:
    """Write *data* as the stream of the run *folder*; return its path."""
    path = folder / "events.jsonl"
    path.write_bytes(data)
    return str(path)


def _facts(run: RunSummary) -> dict[str, Any]:
    return {
        "profile": run.profile,
        "size": run.size,
        "run_id": run.start.get("run_id"),
        "end": run.end,
        "first_step": run.first_step,
        "last_step": run.last_step,
        "final_loss": (run.facts.loss_not_finite, run.facts.final_loss),
        "seconds": run.facts.seconds,
        "started_at": run.facts.started_at,
    }


@pytest.mark.parametrize("name", SOUND)
def test_ends_of_a_sound_stream_say_what_the_whole_says(name: str, tmp_path: Path) -> None:
    """State, steps, loss and times are those of a stream that is read to its end."""
    path = write(tmp_path, SOUND[name])
    ends, whole = summarize_ends(path, checked_bytes=0), summarize_run(path)
    assert (whole.state, _facts(whole)) == (ends.state, _facts(ends))


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stream=strategies.streams("toy/v1") | strategies.streams("kaun/v1"),
    block=st.sampled_from([8, 64, 4096]),
    limit=st.sampled_from([0, 1 << 20]),
)
def test_ends_of_any_stream_say_nothing_wrong(
    stream: bytes, block: int, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage is reported only where there is some, and always where all was read; nothing raises."""
    monkeypatch.setattr(stream_ends, "BLOCK_BYTES", block)
    monkeypatch.setattr(run_ends, "WHOLE_BYTES", limit)
    path = write(tmp_path, stream)
    assume(read(path, mode="salvage").report.profile is not None)
    ends, whole = summarize_ends(path), summarize_run(path)
    assert whole.state in {ends.state, "damaged"}
    assert (ends.profile, ends.size) == (whole.profile, whole.size)
    if ends.records is not None:
        assert (whole.state, whole.records, _facts(whole)) == (ends.state, ends.records, _facts(ends))


def test_settings_that_a_resumption_between_the_ends_changed_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three resumptions, of which the ends show none: facts, settings and filters are those of the whole stream."""
    resumptions: list[dict[str, Any]] = [
        RESUME | {"t": at * 1000.0, "from_step": from_step, "config": config}
        for at, from_step, config in (
            (1, 900, {"lr": 0.2}),
            (2, 500, {"lr": 0.3, "max_steps": 4000}),
            (3, 50, {"a": None}),
        )
    ]
    # A text with the word does not count, and the pieces that are searched end anywhere.
    records: list[dict[str, Any]] = [START | {"config": {"lr": 0.1, "a": 1, "max_steps": 2000}}]
    for at, resume in enumerate([{**NOTE, "t": 0.5, "text": "run_resume"}, *resumptions]):
        first = int(resume.get("from_step", 0)) + 1
        records += [resume, *(step | {"t": at * 1000.0 + step["t"] / 99} for step in _steps(first, first + 999))]
    monkeypatch.setattr(run_ends, "_PIECE_BYTES", 1 << 10)
    path = write(tmp_path, stream(*records, END | {"t": 4000.0}))
    ends, whole = summarize_ends(path, checked_bytes=0), summarize_run(path)
    assert ends.records is None
    assert _facts(whole) == _facts(ends)
    assert (None, None) == (ends.facts.settings, ends.facts.progress)
    ends.settle()
    assert {"lr": 0.3, "a": None, "max_steps": 4000} == ends.start["config"] == whole.start["config"]
    known = {name: whole.facts[name] for name in (*COLUMNS, "settings") if name not in ("state", "records")}
    assert known == {name: ends.facts[name] for name in known}
    monkeypatch.setattr(run_ends, "WHOLE_BYTES", 0)
    monkeypatch.setenv("TOYSPEC_ENGINE", "python")
    (run,) = list_runs(tmp_path).filter("config.lr > .2")
    assert "ends" == run.facts.read
    assert 0.3 == run.config["lr"] == run.row()["config.lr"]


RESUMED = [
    [START, *_steps(1, 9), RESUME | {"from_step": 3}, *_steps(4, 20_000), END],
    [START, *_steps(1, 20_000), RESUME | {"from_step": 19_990}],
]


@pytest.mark.parametrize("records", RESUMED)
def test_of_a_resumed_log_in_a_store_its_ends_are_read(records: list[dict[str, Any]], store: Store) -> None:
    """Two requests and 128 KiB tell what the whole log does where a step of the run is known to be the last."""
    store.put("a/events.jsonl", data := stream(*records))
    address = "s3://bucket/a/events.jsonl"
    ends = summarize_ends(address)
    assert len(data) > sum(request.sent for request in store.reads()) <= 128 << 10
    assert 2 == len(store.reads())
    assert _facts(summarize_run(address)) == _facts(ends)


def test_what_the_end_does_not_tell_is_not_that_of_the_start(tmp_path: Path) -> None:
    """A long run whose last lines are notes has no last step in its ends, and one without a loss there, none."""
    path = write(tmp_path, stream(START, *_steps(1, 9000), *[NOTE] * 3000))
    assert summarize_ends(path, checked_bytes=0).last_step is None
    bare = [{"kind": "step", "t": 9000.0, "step": step} for step in range(9001, 16_000)]
    facts = summarize_ends(write(tmp_path, stream(START, *_steps(1, 9000), *bare)), checked_bytes=0).facts
    assert (1, 15_999, None) == (facts.first_step, facts.last_step, facts.final_loss)


@pytest.mark.parametrize(("place", "state"), [(50, "complete"), (1, "damaged"), (101, "damaged")])
def test_damage_in_a_large_stream_shows_where_it_is_read(
    place: int, state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage near an end is reported; damage in the middle only with --full, which counts the records too."""
    monkeypatch.setattr(run_ends, "WHOLE_BYTES", 0)
    lines = SOUND["ended"].splitlines(keepends=True)
    path = write(tmp_path, b"".join([*lines[:place], b'{"kind":"st\n', *lines[place:]]))
    found = []
    for options in ([], ["--full"]):
        main(["ls", "--json", *options, path])
        (run,) = json.loads(capsys.readouterr().out)
        found.append((run["state"], run["records"]))
    assert [(state, None), ("damaged", 102)] == found


@pytest.mark.parametrize("dialect", ["auto", None, "json-objects"])
@pytest.mark.parametrize("name", ["killed", "metrics"])
def test_ends_are_read_as_what_the_user_names(name: str, dialect: str | None, tmp_path: Path) -> None:
    """A log that the user calls that of another program is read as one, as a whole reading of it does."""
    path = write(tmp_path, SOUND[name])
    choice = DialectChoice(dialect)
    ends = summarize_ends(path, dialect=choice, checked_bytes=0)
    whole = summarize_run(path, dialect=choice)
    assert _facts(whole) == _facts(ends)
    assert (whole.profile, whole.dialect) == (ends.profile, ends.dialect)
    if dialect == "json-objects":
        assert whole.dialect is not None
