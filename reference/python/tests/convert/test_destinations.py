"""The contract of destinations: what is put is there or is returned as lost, once, by an export as by a mirror."""

from __future__ import annotations

import json
import math
import os
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

import toyspec
from conversions import exported, imported, losses, write_run
from fake_wandb import FakeWandb
from mirror_services import FAST, write_steps
from toyspec.convert import RunConversion, export_runs
from toyspec.convert.destinations.destination import TOOLS, RunHead
from toyspec.convert.mirrors.mirroring import mirror_run
from toyspec.convert.mirrors.settings import Mirror, Selecting
from toyspec.convert.reports import text_of

LOSSES = [3.0, None, 0.5]


def event_file(directory: Path) -> Path:
    """Return the one event file below *directory*."""
    (path,) = directory.rglob("*tfevents*")
    return path


def test_tensorboard_file_has_each_row_once_wherever_it_was_cut(tmp_path: Path) -> None:
    """After a kill between writing and acknowledging, with half a record more or less, the bytes are the same."""
    chance = random.Random(7)
    whole = write_steps(tmp_path / "whole" / "a", range(60), ending="completed")
    mirror = Mirror(to="tensorboard", into=str(tmp_path / "tb"))
    mirror_run(whole, mirror, timing=FAST)
    expected = event_file(tmp_path / "tb").read_bytes()
    run, into = tmp_path / "b" / "a", tmp_path / "tb2"
    mirror = Mirror(to="tensorboard", into=str(into))
    for count in range(10, 70, 10):
        write_steps(run, range(count), ending="completed" if count == 60 else None)
        before = sorted((run.parent / ".mirrors").glob("*.json"))
        held = before[0].read_bytes() if before else None
        mirror_run(run, mirror, timing=FAST)
        if held is not None and count < 60:
            # As if it had been killed before the state was written, in the middle of a record.
            before[0].write_bytes(held)
            at = json.loads(held)["place"]
            os.truncate(event_file(into), chance.randint(at, event_file(into).stat().st_size))
    assert expected == event_file(into).read_bytes()


@pytest.mark.parametrize("has_ended", [True, False])
def test_tensorboard_drops_what_a_resumption_supersedes(tmp_path: Path, has_ended: bool) -> None:
    """A session begins after the step of the checkpoint, as purge_step writes it, also where the run had ended."""
    run = tmp_path / "a"
    with toyspec.start_run(tmp_path, run_id="a") as first:
        for _ in range(3):
            first.step(loss=1.0)
        if not has_ended:
            first.abandon()
    if has_ended:
        assert "ended" == mirror_run(run, Mirror(to="tensorboard", into=str(tmp_path / "tb")), timing=FAST)
    with toyspec.start_run(tmp_path, run_id="a", exist="resume", from_step=1) as second:
        second.step(loss=0.5)
    mirror_run(run, Mirror(to="tensorboard", into=str(tmp_path / "tb")), timing=FAST)
    (made,) = imported(tmp_path / "tb", tmp_path / "back").runs
    resumed = [record["from_step"] for record in toyspec.read(made.target) if record.kind == "run_resume"]
    assert [1] == resumed
    values = [record["values"] for record in toyspec.read(made.target) if record.kind == "scalars"]
    assert [{"loss": loss} for loss in (1.0, 1.0, 1.0, 0.5)] == values


def test_tensorboard_shows_another_run_of_the_same_name_beside_the_first(tmp_path: Path) -> None:
    """The directory of the second one has its identity after the name."""
    for loss in (1.0, 2.0):
        with toyspec.start_run(tmp_path / str(loss), run_id="a", config={"lr": loss}) as run:
            run.step(loss=loss)
        mirror_run(run.directory, Mirror(to="tensorboard", into=str(tmp_path / "tb")), timing=FAST)
    names = sorted(path.name for path in (tmp_path / "tb").iterdir())
    assert (2, "a", "a-") == (len(names), names[0], names[1][:2])


def use_wandb(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    """Let W&B be a package that keeps what it is handed."""
    fake = FakeWandb(folder, monkeypatch)
    monkeypatch.syspath_prepend(str(folder / "packages"))
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "wandb")
    return fake


def test_wandb_counts_rows_and_draws_over_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own step is the number of the row, so what it has already is not sent again after a lost state."""
    fake = use_wandb(tmp_path, monkeypatch)
    mirror = Mirror(to="wandb", project="p")
    run = write_steps(tmp_path / "a", LOSSES)
    mirror_run(run, mirror, timing=FAST)
    for path in (tmp_path / ".mirrors").glob("*.json"):
        path.unlink()
    write_steps(run, [*LOSSES, 0.25], ending="errored")
    mirror_run(run, mirror, timing=FAST)
    rows = fake.calls("log")
    assert [0, 1, 2, 3] == [number for _, number in rows]
    assert [1, 2, 3, 4] == [row["train/step"] for row, _ in rows]
    assert math.isnan(rows[1][0]["loss"])
    assert [1, 1] == fake.calls("finish")
    assert 1780219801.0 == rows[0][0]["_timestamp"]


def test_wandb_knows_what_metrics_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A definition is its best value and what the metric is drawn over; name, group, tags and notes are the run's."""
    fake = use_wandb(tmp_path, monkeypatch)
    members: dict[str, Any] = {"group": "g", "tags": ["a", "b"], "notes": "n", "name": "shown"}
    with toyspec.start_run(tmp_path / "runs", run_id="r", git=None, config={"lr": 0.5}, **members) as run:
        run.define("acc", goal="max", step_name="tokens")
        run.define("loss", goal="min")
        run.define("kl")
        run.step(1, loss=1.0)
    mirror_run(run.directory, Mirror(to="wandb", into=str(tmp_path / "made" / "here")), timing=FAST)
    assert [
        ["acc", {"step_metric": "tokens", "summary": "max"}],
        ["loss", {"step_metric": "train/step", "summary": "min"}],
        ["kl", {"step_metric": "train/step", "summary": None}],
    ] == fake.calls("define_metric")[2:]
    (settings,) = fake.calls("init")
    expected = {"name": "shown", "project": "g", "group": "g", "tags": ["a", "b"], "notes": "n", "config": {"lr": 0.5}}
    assert expected.items() <= settings.items()
    assert (tmp_path / "made" / "here").is_dir()
    assert [0] == fake.calls("finish")


class MlflowServer:
    """A server of MLflow in this process; *failing* has how each call of ``log_batch`` fails."""

    def __init__(self, failing: list[str]) -> None:
        self.failing = failing
        self.runs: dict[str, Any] = {}

    def get_experiment_by_name(self, name: str) -> Any:
        """Return the experiment of *name*, once there is a run."""
        return SimpleNamespace(experiment_id=name) if self.runs else None

    def create_experiment(self, name: str, artifact_location: str = "") -> str:
        """Return the id of a new experiment."""
        return name

    def search_runs(self, experiments: list[str], query: str, max_results: int) -> list[Any]:
        """Return the runs whose tag is in *query*."""
        return [run for run in self.runs.values() if run.data.tags["toyspec.mirror"] in query]

    def create_run(self, experiment: str, start_time: int, tags: dict[str, str], run_name: str) -> Any:
        """Start a run."""
        info = SimpleNamespace(run_id=f"r{len(self.runs)}", status="RUNNING", name=run_name, start=start_time, end=0)
        made = SimpleNamespace(info=info, data=SimpleNamespace(tags=tags), metrics=[], params={})
        return self.runs.setdefault(info.run_id, made)

    def update_run(self, run_id: str, status: str) -> None:
        """Set the status."""
        self.runs[run_id].info.status = status

    def log_batch(self, run_id: str, metrics: Sequence[Any] = (), params: Any = ()) -> None:
        """Keep metrics and settings, as far as the next behaviour lets it."""
        if params and self.failing[:1] == ["loses settings"]:
            self.failing.pop(0)
            raise ConnectionError("no answer")
        self.runs[run_id].params |= dict(params)
        behaviour = self.failing.pop(0) if metrics and self.failing else "good"
        kept = {"refuses": 0, "half": len(metrics) // 2}.get(behaviour, len(metrics))
        self.runs[run_id].metrics += metrics[:kept]
        if behaviour != "good":
            raise ConnectionError("no answer")

    def get_metric_history(self, run_id: str, name: str) -> list[Any]:
        """Return the metrics of *name*."""
        return [metric for metric in self.runs[run_id].metrics if metric.name == name]

    def set_tag(self, run_id: str, name: str, value: str) -> None:
        """Keep a tag."""
        self.runs[run_id].data.tags[name] = value

    def set_terminated(self, run_id: str, status: str, end_time: int) -> None:
        """End the run."""
        vars(self.runs[run_id].info).update(status=status, end=end_time)


class Metric(NamedTuple):
    """A metric as its client takes it."""

    name: str
    value: float
    timestamp: int
    step: int


def use_mlflow(monkeypatch: pytest.MonkeyPatch, failing: Sequence[str] = ()) -> MlflowServer:
    """Let MLflow be a server in this process."""
    server = MlflowServer(list(failing))
    mlflow, tracking, entities = (ModuleType(name) for name in ("mlflow", "mlflow.tracking", "mlflow.entities"))
    vars(tracking)["MlflowClient"] = lambda uri: server
    vars(entities).update(Metric=Metric, Param=lambda name, text: (name, text))
    for name, module in (("mlflow", mlflow), ("mlflow.tracking", tracking), ("mlflow.entities", entities)):
        monkeypatch.setitem(sys.modules, name, module)
    return server


@pytest.mark.parametrize(
    "failing", [[], ["refuses"], ["half"], ["keeps"], ["half", "refuses", "keeps"], ["loses settings"]]
)
def test_mlflow_has_every_metric_once(failing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch whose answer was lost, what is there is asked for; settings, names and the end are MLflow's."""
    server = use_mlflow(monkeypatch, failing)
    losses: list[float | None] = [None if at == 4 else at / 8 for at in range(9)]
    run = write_steps(tmp_path / "a", losses, ending="diverged")
    mirror = Mirror(to="mlflow", patience=300.0, select=Selecting(metrics=["loss"]))
    assert "ended" == mirror_run(run, mirror, timing=FAST)
    (made,) = server.runs.values()
    found = [(metric.step, None if math.isnan(metric.value) else metric.value) for metric in made.metrics]
    assert list(enumerate(losses, 1)) == found
    assert ("FAILED", {"lr": "0.1"}, "a") == (made.info.status, made.params, made.info.name)
    assert "10" == made.data.tags["toyspec.mirror.rows"]


RICH = """\
{"kind":"run_start","schema":"toy/v1","t":0.0,"started_at":"2026-05-31T09:30:00Z","run_id":"a","name":"first",\
"group":"g","tags":["x","k=v"],"notes":"n","argv":["train.py"],"config":{"lr":0.5,"arch":"gpt","net":{"sizes":[1,2]}}}
{"kind":"define","t":0.0,"name":"val/acc","goal":"max","unit":"%"}
{"kind":"step","t":0.5,"step":1,"loss":0.1,"extra":{"a@b":null}}
{"kind":"scalars","t":1.0004,"step":1,"values":{"val/acc":0.5},"texts":{"said":"hello"}}
{"kind":"scalars","t":1.5,"values":{"speed":9007199254740993}}
{"kind":"note","t":1.5,"text":"remark"}
{"kind":"alert","t":1.5,"step":1,"rule":"spike","level":"warning","text":"high","value":9.0}
{"kind":"histogram","t":2.0,"step":2,"name":"h","edges":[0,1,2],"counts":[3,4]}
{"kind":"grad","t":2.0,"step":2,"param":"w","min":-1.0,"max":1.0,"histogram":[1,2]}
{"kind":"media","t":2.0,"step":2,"name":"m","media_type":"image/png","sha256":"0","size_bytes":9}
{"kind":"artifact","t":2.5,"path":"artifacts/w.bin","role":"model"}
{"kind":"sample","t":2.5,"step":2,"prompt":"p","text":"q","group":"chat","messages":[{"role":"user","content":"p"}]}
{"kind":"run_end","t":3.0,"reason":"interrupted","exit_code":3}
"""
"""A run with items of every kind."""


LOST: dict[str, dict[str, int]] = {
    "tensorboard": {
        "as-json": 1, "no-place": 10, "binary32": 2, "null": 1, "without-step": 2, "reason": 1,
    },
    "wandb": {"no-place": 6, "part-dropped": 2, "null": 1},
    "mlflow": {
        "as-text": 2, "no-place": 11, "name": 1, "null": 1, "binary64": 1, "milliseconds": 1, "without-step": 1,
        "reason": 1,
    },
}  # fmt: skip


class Trackers:
    """The packages of trackers, each of which keeps what it is handed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "w").mkdir()
        self.mlflow, self.wandb = use_mlflow(monkeypatch), use_wandb(folder / "w", monkeypatch)

    def received(self, name: str, directory: Path) -> Any:
        """Return what the tool *name* got of a run, as far as it does not name the run."""
        if name == "tensorboard":
            return event_file(directory).read_bytes()
        if name == "wandb":
            calls = [self.wandb.calls(call) for call in ("log", "define_metric", "alert", "finish")]
            self.wandb.forget()
            return calls
        _, made = self.mlflow.runs.popitem()
        tags = {key: value for key, value in made.data.tags.items() if not key.startswith("toyspec.")}
        return made.info, tags, made.params, list(map(list, made.metrics))


@pytest.fixture
def trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trackers:
    """Let the packages of trackers be there."""
    return Trackers(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", TOOLS)
def test_mirror_carries_what_an_export_does(name: Any, trackers: Trackers, tmp_path: Path) -> None:
    """The tool has the same values, texts, files, settings and tags; what is not, is reported by its cause."""
    run = write_run(tmp_path / "runs" / "a", {})
    (run / "events.jsonl").write_text(RICH)
    assert LOST[name] == losses(exported(name, run, tmp_path / "out"))
    expected = trackers.received(name, tmp_path / "out")
    if name == "mlflow":
        assert ("KILLED", {"x": "", "k": "v", "mlflow.note.content": "n"}) == (expected[0].status, expected[1])
    (tmp_path / "into").mkdir()
    assert "ended" == mirror_run(run, Mirror(to=name, into=str(tmp_path / "into")), timing=FAST)
    assert expected == trackers.received(name, tmp_path / "into")


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("seed", range(4))
def test_mirror_reports_what_an_export_does(
    name: Any, seed: int, trackers: Trackers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However often it is called while the run grows: by cause and kind, with damaged lines and other ranks."""
    chance = random.Random(seed)
    start, *middle, end = RICH.splitlines()
    drawn = chance.choices([*middle, '{"torn"'], k=20)
    # MLflow has two equal points of one time once.
    lines = [start, *(re.sub('"t":[0-9.]+', f'"t":{at}.0004', line) for at, line in enumerate(drawn)), end]
    run = write_run(tmp_path / "runs" / "a", {})
    (run / "events.rank-1.jsonl").write_text(start)
    for count in sorted({*chance.sample(range(1, 22), 3), len(lines)}):
        (run / "events.jsonl").write_text("".join(f"{line}\n" for line in lines[:count]))
        mirror_run(run, Mirror(to=name, into=str(tmp_path / "into")), timing=FAST)
    found: list[RunConversion] = []
    mirror_run(run, Mirror(to=name, into=str(tmp_path / "into")), report=found.append, timing=FAST)
    said = capsys.readouterr().err
    report = export_runs(name, [run], tmp_path / "again", max_examples=0).runs[0]
    (made,) = found
    report.target, report.notes = made.target, []
    assert all(f"toyspec: {line}\n" in said for line in text_of(report))
    for each in (report, made):
        each.losses.sort(key=str)
    assert report == made


@pytest.mark.parametrize(
    ("started", "last", "is_rounded"), [("10:00:00.25Z", 1.5, False), ("10:00:00.2501Z", 2.00025, True)]
)
def test_times_that_mlflow_rounds_are_reported(
    started: str, last: float, is_rounded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has whole milliseconds: the end of the run and each metric are counted, and a note names the start."""
    server = use_mlflow(monkeypatch)
    scalars = {"kind": "scalars", "t": last, "step": 1, "values": {"a": 1.5}}
    end = {"kind": "run_end", "t": last, "reason": "completed"}
    run = write_run(tmp_path / "a", {"started_at": f"2026-11-22T{started}"}, scalars, end)
    made = exported("mlflow", run, tmp_path / "out")
    assert ({"milliseconds": 2} if is_rounded else {}) == losses(made)
    assert ["FINISHED"] == [each.info.status for each in server.runs.values()]
    assert is_rounded == ("MLflow has the start of the run in whole milliseconds" in made.notes)


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.usefixtures("trackers")
def test_ends_after_which_a_run_went_on_are_superseded(name: str, tmp_path: Path) -> None:
    """A tool has one end: that of a run that was resumed, or none."""
    end = {"kind": "run_end", "t": 1.0, "reason": "errored", "error": "no memory"}
    events = [end, {"kind": "run_resume", "t": 2.0}, {"kind": "run_end", "t": 3.0, "reason": "completed"}]
    config = {"config": {"lr": 0.5}}
    ended = losses(exported(name, write_run(tmp_path / "a", config, *events), tmp_path / "ended"))
    open_again = losses(exported(name, write_run(tmp_path / "b", config, *events[:2]), tmp_path / "open"))
    assert (2, 2) == (ended["superseded"], open_again["superseded"])


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({}, ("folder", "folder", None, {}, "toyspec", None)),
        ({"run_id": "r", "name": "n", "group": "g", "config": {"a": {"b": 1}}}, ("r", "n", "g", {"a/b": 1}, "g", None)),
        ({"run_id": 1, "name": "", "group": 3, "config": []}, ("folder", "folder", None, {}, "toyspec", None)),
        ({"group": "", "started_at": "1970-01-01T00:01:00Z"}, ("folder", "folder", None, {}, "toyspec", 60.0)),
    ],
)
def test_run_is_called_what_its_start_says(start: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """What is missing, empty or of another type has a fallback; a project that is given comes first."""
    run = RunHead.of("/runs/folder/events.jsonl", start)
    assert expected == (run.run_id, run.name, run.group, run.settings, run.project, run.started)
    assert ((expected[-1] or 0.0) + 2.5, 1000 * (expected[-1] or 0.0) + 2500) == (run.wall(2.5), run.wall_ms(2.5))
    given = RunHead.of("/runs/folder/events.jsonl", start, project="mine", identity="0badcafe")
    assert ("mine", f"{run.run_id}-0badcafe") == (given.project, given.key)
