"""What an export hands to W&B, by a package in its place that keeps it; `make interop` exports to the real one."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from conversions import exported, losses, write_run
from toyspec.convert import wandb_export

if TYPE_CHECKING:
    from pathlib import Path


class FakeRun:
    """Keeps the calls of one run."""

    def __init__(self, folder: str, options: dict[str, Any]) -> None:
        self.options = options
        self.rows: list[tuple[int, dict[str, Any]]] = []
        self.defined: list[tuple[Any, ...]] = []
        self.alerts: list[dict[str, Any]] = []
        self.code: int | None = None
        self.settings = SimpleNamespace(sync_file=folder)

    def log(self, row: dict[str, Any], *, step: int) -> None:
        """Keep a row."""
        self.rows.append((step, row))

    def define_metric(self, name: str, *, step_metric: Any, summary: Any) -> None:
        """Keep a definition."""
        self.defined.append((name, step_metric, summary))

    def alert(self, **members: Any) -> None:
        """Keep an alert."""
        self.alerts.append(members)

    def finish(self, *, exit_code: int) -> None:
        """Keep the end."""
        self.code = exit_code


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[FakeRun]:
    """Return the runs that are exported, which grow with each export."""
    made: list[FakeRun] = []

    def init(**options: Any) -> FakeRun:
        made.append(FakeRun(options["dir"], options))
        return made[-1]

    fake = SimpleNamespace(init=init, Settings=lambda **options: options)
    for name in ("Image", "Audio", "Video"):
        setattr(fake, name, lambda path, *, caption, kind=name: (kind, path.rpartition("/")[2], caption))
    fake.Histogram = lambda *, np_histogram: ("Histogram", *map(list, np_histogram))
    fake.Table = lambda columns, rows, *, allow_mixed_types: ("Table", columns, rows, allow_mixed_types)
    monkeypatch.setattr(wandb_export, "needed", lambda *_: fake)
    monkeypatch.setattr(wandb_export, "_await_end", lambda _: None)
    monkeypatch.setattr(wandb_export, "_remove_rest", lambda _: None)
    return made


def _scalars(t: float, step: int | None, **values: float | None) -> dict[str, Any]:
    return {"kind": "scalars", "t": t, "values": values} | ({} if step is None else {"step": step})


def _values(run: FakeRun) -> list[tuple[int, dict[str, Any]]]:
    """Return the rows without their times; NaN is a text, which is equal to itself."""
    return [
        (step, {name: "nan" if isinstance(value, float) and math.isnan(value) else value
                for name, value in row.items() if name != "_timestamp"})
        for step, row in run.rows
    ]  # fmt: skip


def test_every_value_is_at_its_step_once(runs: list[FakeRun], tmp_path: Path) -> None:
    """Values of one step are one row; a second value of a name, and one of an earlier step, are dropped and named."""
    lines = [
        _scalars(1.0, 1, a=1.0, b=2.0),
        _scalars(1.0, 1, c=3.0),
        _scalars(2.0, 2, a=4.0),
        _scalars(2.0, 2, a=5.0),
        _scalars(3.0, 1, a=6.0),
        _scalars(4.0, None, d=7.0),
        _scalars(5.0, 9, a=None),
    ]
    report = exported("wandb", write_run(tmp_path / "r", {}, *lines), tmp_path / "out")
    (run,) = runs
    assert [(1, {"a": 1.0, "b": 2.0, "c": 3.0}), (2, {"a": 4.0, "d": 7.0}), (9, {"a": "nan"})] == _values(run)
    expected = {"same-step": 1, "step-goes-backwards": 1, "without-step": 1, "null": 1, "no-end": 1, "one-time": 1}
    assert expected == {name: number for name, number in losses(report).items() if name in expected}
    times = [row["_timestamp"] for _, row in run.rows]
    assert [1.0, 1.0 + 1, 1.0 + 4] == [time - times[0] + 1.0 for time in times]


@pytest.mark.parametrize(
    ("reason", "code"), [(None, 1), ("completed", 0), ("errored", 1), ("interrupted", 1), ("diverged", 1)]
)
def test_exit_code_says_whether_the_run_completed(
    reason: str | None, code: int, runs: list[FakeRun], tmp_path: Path
) -> None:
    """Only a run that completed is finished for W&B; that one has no end is named."""
    ends = [] if reason is None else [{"kind": "run_end", "t": 2.0, "reason": reason}]
    report = exported("wandb", write_run(tmp_path / "r", {}, _scalars(1.0, 1, a=1.0), *ends), tmp_path / "out")
    assert code == runs[0].code
    assert (reason is None) == ("no-end" in losses(report))


def test_settings_and_labels_are_those_of_the_run(runs: list[FakeRun], tmp_path: Path) -> None:
    """Its name, group, tags, notes and config, or what takes their place."""
    start = {"name": "first", "group": "sweep", "tags": ["a"], "notes": "n", "config": {"lr": 0.1}}
    exported("wandb", write_run(tmp_path / "named", start, _scalars(1.0, 1, a=1.0)), tmp_path / "out")
    exported("wandb", write_run(tmp_path / "bare", {}, _scalars(1.0, 1, a=1.0)), tmp_path / "out2")
    keys = ("id", "name", "project", "group", "tags", "notes", "config", "mode")
    assert ["named", "first", "sweep", "sweep", ["a"], "n", {"lr": 0.1}, "offline"] == [
        runs[0].options[key] for key in keys
    ]
    assert ["bare", "bare", "toyspec", None, None, None, None, "offline"] == [runs[1].options[key] for key in keys]
    private = ("console", "disable_git", "disable_code", "save_code", "x_disable_stats", "x_disable_meta", "silent")
    expected = ["off", True, True, False, True, True, True]
    assert expected == [runs[0].options["settings"][name] for name in private]


def test_definitions_alerts_and_what_has_no_place(runs: list[FakeRun], tmp_path: Path) -> None:
    """A definition has its goal, an alert its level; a remark has no place in W&B, and is named."""
    lines = [
        {"kind": "define", "t": 0.0, "name": "a", "goal": "max", "step_name": "seen"},
        {"kind": "define", "t": 0.0, "name": "b", "goal": "none"},
        {"kind": "alert", "t": 1.0, "rule": "spike", "level": "warning", "text": "high", "step": 3, "value": 9.0},
        {"kind": "alert", "t": 1.0, "rule": "bare", "level": "error", "text": "low"},
        {"kind": "note", "t": 1.0, "text": "so"},
    ]
    report = exported("wandb", write_run(tmp_path / "r", {}, *lines), tmp_path / "out")
    (run,) = runs
    assert [("a", "seen", "max"), ("b", None, None)] == run.defined
    assert [("spike", "high", "WARN"), ("bare", "low", "ERROR")] == [
        (each["title"], each["text"], each["level"]) for each in run.alerts
    ]
    (part,) = [loss for loss in report.losses if loss.cause == "part-dropped"]
    assert 1 == part.count
    assert 1 == losses(report)["no-place"]


def test_pictures_of_one_step_are_a_list_and_bins_are_a_histogram(runs: list[FakeRun], tmp_path: Path) -> None:
    """Several of one name are logged together, in the order of their index; a file that is not there is named."""
    folder = tmp_path / "r" / "media"
    folder.mkdir(parents=True)
    digests = ["a" * 64, "b" * 64, "c" * 64]
    for digest, suffix in zip(digests, ("png", "png", "wav"), strict=True):
        (folder / f"{digest}.{suffix}").write_bytes(b"x")
    media = {"kind": "media", "t": 1.0, "step": 1}
    lines = [
        {**media, "name": "p", "media_type": "image/png", "sha256": digests[0], "index": 0, "caption": "one"},
        {**media, "name": "p", "media_type": "image/png", "sha256": digests[1], "index": 1},
        {**media, "name": "s", "media_type": "audio/wav", "sha256": digests[2]},
        {**media, "name": "lost", "media_type": "image/png", "sha256": "d" * 64},
        {"kind": "histogram", "t": 1.0, "step": 1, "name": "h", "edges": [0, 1, 2], "counts": [3, 4]},
    ]
    report = exported("wandb", write_run(tmp_path / "r", {}, *lines), tmp_path / "out")
    ((step, row),) = _values(runs[0])
    pictures = [("Image", f"{digests[0]}.png", "one"), ("Image", f"{digests[1]}.png", None)]
    sound = ("Audio", f"{digests[2]}.wav", None)
    assert (1, pictures, sound) == (step, row["p"], row["s"])
    assert ("Histogram", [3, 4], [0, 1, 2]) == row["h"]
    assert "lost" not in row
    assert 1 == losses(report)["missing-file"]
