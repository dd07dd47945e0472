"""Runs of kaun-board: manifests, scalars, and where runs are found."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from files import content
from run_streams import EVERY_FAILURE, Failure
from toyspec.core.checker.checking import check
from toyspec.core.errors import StreamRefusedError
from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError
from toyspec.core.generated.kaun_v1 import RunManifest, Scalar
from toyspec.core.kaun.run import KaunRun, runs_dir
from toyspec.core.reading.reader import read
from toyspec.core.runs.run import open_run
from toyspec.core.runs.run_facts import MetricFacts
from toyspec.testing import ManualClock

SCALAR = b'{"type":"scalar","step":1,"wall_time":1780219800.0,"tag":"loss","value":0.5,"minimize":false}\n'
MANIFEST = """{
  "schema_version": 1,
  "run_id": "RUN_ID",
  "created_at": 1780219800.0,
  "tags": [
    "baseline"
  ],
  "experiment": "mnist",
  "config": {
    "b": [
      1,
      2.0
    ],
    "lr": 0.001
  }
}
"""


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let local time be UTC."""
    monkeypatch.setenv("TZ", "UTC")


def with_manifest(base: Path, name: str, text: str | None) -> Path:
    """Make a run directory with a manifest."""
    (base / name).mkdir(parents=True)
    if text is not None:
        (base / name / "run.json").write_text(text)
    return base / name


def test_a_run_is_created_and_read_back(tmp_path: Path) -> None:
    """A new run has an id of its time, a manifest for people and a stream; loading it gives the same."""
    run = KaunRun.create(
        tmp_path, experiment="mnist", config={"lr": 1e-3, "b": [1, 2.0]}, tags=["baseline"], clock=ManualClock()
    )
    assert re.fullmatch(r"2026-05-31_09-30-00_[0-9a-f]{4}_mnist", run.run_id)
    assert str(tmp_path / run.run_id) == run.directory
    assert ["events.jsonl", "run.json"] == sorted(os.listdir(run.directory))
    expected = MANIFEST.replace("RUN_ID", run.run_id)
    assert expected == (Path(run.directory) / "run.json").read_text()
    loaded = KaunRun.load(run.directory)
    assert loaded is not None
    assert run.manifest == loaded.manifest
    run.log_scalar("loss", 0.5, step=1)
    assert [] == check(run.directory).files[0].findings


def test_runs_of_the_same_second_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the random part is taken already, another one is drawn."""
    drawn = iter(["aaaa", "aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("toyspec.core.kaun.run.secrets.token_hex", lambda _: next(drawn))
    runs = [KaunRun.create(tmp_path, config={}, clock=ManualClock()) for _ in range(2)]
    assert ["2026-05-31_09-30-00_aaaa", "2026-05-31_09-30-00_bbbb"] == [run.run_id for run in runs]
    manifest = json.loads((Path(runs[1].directory) / "run.json").read_text())
    assert runs[1].run_id == manifest["run_id"]
    # Without experiment and settings it does not mention them.
    assert ["schema_version", "run_id", "created_at", "tags"] == list(manifest)


@pytest.mark.parametrize(
    ("experiment", "part"), [("../other", "_..-other"), ("größe 7", "_gr-e-7"), ("x" * 300, "_" + "x" * 103), ("/", "")]
)
def test_an_experiment_may_be_any_text(tmp_path: Path, experiment: str, part: str) -> None:
    """The manifest has it unchanged; the name of the directory has what is safe there."""
    run = KaunRun.create(tmp_path, experiment=experiment, clock=ManualClock())
    assert re.fullmatch(r"2026-05-31_09-30-00_[0-9a-f]{4}" + re.escape(part), run.run_id)
    loaded = KaunRun.load(tmp_path / run.run_id)
    assert loaded is not None
    assert (experiment, run.directory) == (loaded.manifest.experiment, loaded.directory)


def test_scalars_are_written_in_the_order_of_the_source(tmp_path: Path) -> None:
    """Each scalar has type, step, wall_time, tag, value, and minimize and epoch where they are given."""
    clock = ManualClock()
    with KaunRun.create(tmp_path, clock=clock) as run:
        run.log_scalar("loss", 2, step=1, minimize=True)
        clock.advance(0.5)
        run.log_scalar("acc", math.nan, step=2, epoch=1)
        run.append(Scalar(step=3, tag="acc", value=0.25))
        run.append(Scalar(step=4, tag="acc", value=1, wall_time=7.0, minimize=True, epoch=2))
    expected = (
        b'{"type":"scalar","step":1,"wall_time":1780219800.0,"tag":"loss","value":2.0,"minimize":true}\n'
        b'{"type":"scalar","step":2,"wall_time":1780219800.5,"tag":"acc","value":null,"epoch":1}\n'
        b'{"type":"scalar","step":3,"wall_time":1780219800.5,"tag":"acc","value":0.25}\n'
        b'{"type":"scalar","step":4,"wall_time":7.0,"tag":"acc","value":1.0,"minimize":true,"epoch":2}\n'
    )
    assert expected == content(run.events_path)
    run.log_scalar("late", 1.0, step=5)
    run.append(Scalar(step=6, tag="late", value=1.0))
    assert expected == content(run.events_path)


@pytest.mark.parametrize(
    "members",
    [
        {"step": 1.0},
        {"value": "x"},
        {"tag": 3},
        {"epoch": -1},
        {"minimize": 1},
    ],
)
def test_what_is_not_a_scalar_is_refused(tmp_path: Path, members: dict[str, Any]) -> None:
    """A wrong value raises and writes nothing."""
    run = KaunRun.create(tmp_path)
    with pytest.raises(InvalidEventError):
        run.log_scalar(**{"tag": "loss", "value": 1.0, "step": 1, **members})
    assert b"" == content(run.events_path)


def test_a_loaded_run_is_appended_to(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Scalars go behind those that are there; what a dead writer left behind the last one is moved away first."""
    directory = with_manifest(tmp_path, "a", '{"run_id":"a"}')
    (directory / "events.jsonl").write_bytes(SCALAR + b'{"type":')
    run = KaunRun.load(directory)
    assert run is not None
    run.log_scalar("loss", 0.25, step=2)
    data = (directory / "events.jsonl").read_bytes()
    assert data.startswith(SCALAR + b'{"type":"scalar","step":2,')
    assert b'{"type":' == content(f"{run.events_path}.torn-{len(SCALAR)}")
    assert "were moved to" in capfd.readouterr().err


@pytest.mark.parametrize("trouble", ["damaged", "locked"])
def test_a_stream_that_cannot_be_appended_to_is_left_alone(tmp_path: Path, trouble: str) -> None:
    """A damaged stream and one of a live writer are refused."""
    first = KaunRun.create(tmp_path)
    if trouble == "damaged":
        first.close()
        Path(first.events_path).write_bytes(b"{broken\n")
    before = content(first.events_path)
    run = KaunRun.load(first.directory)
    assert run is not None
    with pytest.raises(StreamRefusedError) as caught:
        run.log_scalar("loss", 1.0, step=1)
    assert (trouble, before) == (caught.value.reason, content(first.events_path))


def test_a_scalar_beyond_a_limit_is_refused(tmp_path: Path) -> None:
    """A scalar that no reader would take is not written; the next one is."""
    run = KaunRun.create(tmp_path)
    with pytest.raises(RecordRefusedError):
        run.log_scalar("x" * 2**24, 1.0, step=1)
    run.log_scalar("loss", 1.0, step=2)
    assert 1 == content(run.events_path).count(b"\n")


@EVERY_FAILURE
def test_no_failing_call_spoils_the_run(tmp_path: Path, failure: Failure) -> None:
    """Whichever call fails: acknowledged scalars stay, and a manifest is whole or not there."""
    for at in itertools.count(1):
        base = tmp_path / str(at)
        failing = failure.at(at)
        acknowledged = []
        with contextlib.suppress(OSError), KaunRun.create(base, config={"lr": 1}, calls=failing.calls) as run:
            for step in range(3):
                with contextlib.suppress(OSError):
                    run.log_scalar("loss", 1.0, step=step)
                    acknowledged.append(step)
        loaded = KaunRun.latest(base)
        assert (loaded is not None) == base.exists()
        found: Any = [] if loaded is None else read(loaded.events_path, mode="salvage")
        assert acknowledged == [record.step for record in found]
        if not failing.was_hit:
            break
    assert at > 12
    assert [0, 1, 2] == acknowledged


@pytest.mark.parametrize(
    ("text", "manifest"),
    [
        ('{"run_id":"a"}', RunManifest(run_id="a", created_at=0.0, tags=[])),
        (
            '\n{"run_id":"b","tags":["x",3,null],"created_at":5,"config":{"k":[1]},"total_epochs":7,"more":1}\n',
            RunManifest(run_id="b", created_at=5.0, tags=["x"], config={"k": [1]}, total_epochs=7),
        ),
        ('{"run_id":"c","tags":7,"created_at":"now","experiment":1}', RunManifest(run_id="c", created_at=0.0, tags=[])),
    ],
)
def test_a_manifest_needs_only_its_id(tmp_path: Path, text: str, manifest: RunManifest) -> None:
    """Everything else has a default, and what is of the wrong type is left out."""
    run = KaunRun.load(with_manifest(tmp_path, "a", text))
    assert run is not None
    assert manifest == run.manifest


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '"run"', "{}", '{"run_id":3}', '{"run_id":"a"}{}', '{"run_id":"a","x":NaN}', "\0"]
)
def test_a_run_without_a_readable_manifest_is_invisible(tmp_path: Path, text: str | None) -> None:
    """One bad manifest hides its run, and nothing else."""
    good = with_manifest(tmp_path, "2026-01-01_00-00-00_0000", '{"run_id":"good"}')
    bad = with_manifest(tmp_path, "2026-01-02_00-00-00_0000", text)
    assert None is KaunRun.load(bad)
    newest = KaunRun.latest(tmp_path)
    assert newest is not None
    assert str(good) == newest.directory


def test_the_newest_run_is_found(tmp_path: Path) -> None:
    """Names sort by time; without a directory there are no runs, and what is not a file is not a manifest."""
    for name in ("2026-01-01_00-00-00_0000", "2026-03-01_00-00-00_0000", "2026-02-01_00-00-00_0000"):
        with_manifest(tmp_path, name, f'{{"run_id":"{name}"}}')
    os.mkfifo(with_manifest(tmp_path, "2026-04-01_00-00-00_0000", None) / "run.json")
    (tmp_path / "note.txt").write_text("not a run")
    found = KaunRun.latest(tmp_path)
    assert found is not None
    assert "2026-03" == found.run_id[:7]
    assert None is KaunRun.latest(tmp_path / "none")


def test_runs_have_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """RAVEN_RUNS_DIR wins over XDG_CACHE_HOME, that over the home directory; an empty one is none."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("RAVEN_RUNS_DIR", "")
    assert os.path.join("/home/me", ".cache", "raven", "runs") == runs_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert os.path.join("/cache", "raven", "runs") == runs_dir()
    monkeypatch.setenv("RAVEN_RUNS_DIR", str(tmp_path))
    assert str(tmp_path) == runs_dir()
    created, found = KaunRun.create(), KaunRun.latest()
    assert found is not None
    assert created.run_id == found.run_id


SCALARS: list[dict[str, Any]] = [
    {"step": 2, "tag": "x", "value": 0.5, "minimize": True},
    {"step": 5, "tag": "x", "value": 0.7, "epoch": 1},
    {"step": 5, "tag": "x", "value": 0.9},
    {"step": 5, "tag": "x", "value": 0.6, "epoch": 1},
    {"step": 1, "tag": "x", "value": None},
    {"step": 1, "tag": "x", "value": 0.5, "epoch": 9},
    {"step": 1, "tag": "acc", "value": None},
]


def metrics_of(directory: Path, lines: list[dict[str, Any]]) -> dict[str, MetricFacts]:
    """Return what the metrics of a run with these scalars come to."""
    stream = directory / "events.jsonl"
    stream.write_bytes(b"".join(msgspec.json.encode({"type": "scalar", **line}) + b"\n" for line in lines))
    return open_run(stream).facts.metrics or {}


def test_facts_have_the_latest_and_the_best_of_a_tag(tmp_path: Path) -> None:
    """Latest is by step, then epoch, and of equals the first; best by what the tag says last, without null."""
    found = metrics_of(tmp_path, SCALARS)
    assert (6, 0.7, 5, 0.5, 2, "min") == tuple(
        getattr(found["x"], name) for name in ("count", "last", "last_step", "best", "best_step", "goal")
    )
    assert (1, None, None) == (found["acc"].count, found["acc"].last, found["acc"].best)
    found = metrics_of(tmp_path, [*SCALARS, {"step": 6, "tag": "x", "value": 0.1, "minimize": False}])
    assert (0.9, 5) == (found["x"].best, found["x"].best_step)
    equal = [{"step": 1, "tag": "a", "value": value} for value in (1.0, None)]
    assert not metrics_of(tmp_path, equal)["a"].last_not_finite


@pytest.mark.parametrize(
    ("tag", "best"), [("train/loss", 1.0), ("Val/LOSS", 1.0), ("error_rate", 1.0), ("acc", 2.0), ("loß", 2.0)]
)
def test_the_name_of_a_tag_says_what_is_better(tag: str, best: float, tmp_path: Path) -> None:
    """Where no scalar says it, smaller is better for what is named a loss or an error."""
    found = metrics_of(tmp_path, [{"step": n, "tag": tag, "value": value} for n, value in enumerate([1.5, 1.0, 2.0])])
    assert best == found[tag].best


def test_several_scalars_are_written_at_one_step(tmp_path: Path) -> None:
    """One call logs any number of metrics."""
    with KaunRun.create(tmp_path) as run:
        run.scalars({"loss": 0.5, "acc": 0.75}, step=3, epoch=1)
        run.scalars({}, step=4)
    found = [(record.values, record.step, record.epoch) for record in read(run.events_path)]
    assert [({"loss": 0.5}, 3, 1), ({"acc": 0.75}, 3, 1)] == found
