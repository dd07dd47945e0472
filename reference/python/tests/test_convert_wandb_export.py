"""What an export hands to W&B, by a package in its place that keeps it; `nox -s interop` exports to the real one."""

from __future__ import annotations

import errno
import math
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from conversions import exported, losses, write_run
from test_convert_wandb import row, run_file
from toyspec.convert import wandb_export
from toyspec.convert.protobuf import field
from toyspec.convert.wandb_messages import EXIT

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


AWAIT_END, REMOVE_REST = wandb_export._await_end, wandb_export._remove_rest


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


def test_tables_are_tables_and_what_wandb_does_not_take_is_named(runs: list[FakeRun], tmp_path: Path) -> None:
    """A table has typed columns; a text, and what raises, is dropped with its place."""
    folder = tmp_path / "r" / "media"
    folder.mkdir(parents=True)
    files = {"a": ("csv", b"n,t\n1,x\n"), "b": ("csv", b""), "c": ("txt", b"x"), "d": ("gif", b"x"), "e": ("png", b"x")}
    for letter, (suffix, data) in files.items():
        (folder / f"{letter * 64}.{suffix}").write_bytes(data)
    types = {"a": "text/csv", "b": "text/csv", "c": "text/plain", "d": "image/gif", "e": "image/png"}
    media = {"kind": "media", "t": 1.0, "step": 1}
    lines: list[dict[str, Any]] = [
        {**media, "name": letter, "media_type": types[letter], "sha256": letter * 64} for letter in files
    ]
    lines.append({"kind": "histogram", "t": 1.0, "step": 1, "name": "h", "edges": [0, 1], "counts": [3, 4]})

    def refuse(path: str, *, caption: str | None) -> None:
        raise ValueError("needs Pillow")

    fake: Any = vars(wandb_export)["needed"]()
    fake.Image = refuse
    report = exported("wandb", write_run(tmp_path / "r", {}, *lines), tmp_path / "out")
    ((step, found),) = _values(runs[0])
    video = ("Video", f"{'d' * 64}.gif", None)
    assert (1, {"a": ("Table", ["n", "t"], [[1, "x"]], True), "d": video}) == (step, found)
    causes = {loss.cause: [each.place for each in loss.examples] for loss in report.losses}
    assert ["line 6: media"] == causes["refused"]
    assert ["line 3: media", "line 4: media", "line 7: histogram"] == causes["no-place"]


def test_end_of_a_run_file_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service of W&B may write it late; after a minute the error says what is missing."""
    path, now, slept = tmp_path / "run.wandb", [0.0], list[float]()
    exit_record = field(EXIT, b"")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += 25.0
        if len(slept) == 1:
            run_file(path, row(0, x=1.0))

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(wandb_export, "time", clock)
    with pytest.raises(OSError, match="W&B has not written the end of the run in 60 s") as caught:
        AWAIT_END(str(path))
    assert (errno.ETIMEDOUT, str(path), [0.05] * 3) == (caught.value.errno, caught.value.filename, slept)
    run_file(path, row(0, x=1.0), exit_record)
    AWAIT_END(str(path))
    assert 3 == len(slept)
    assert time.monotonic() > 0


def test_logs_and_links_of_the_writer_are_removed(tmp_path: Path) -> None:
    """The run file and its media stay."""
    run = tmp_path / "wandb" / "offline-run-1"
    for name in ("logs/debug.log", "tmp/code/x", "files/media/a.png", "run-1.wandb"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    (tmp_path / "wandb" / "debug.log").write_text("x")
    (tmp_path / "wandb" / "latest-run").symlink_to(run)
    REMOVE_REST(str(tmp_path))
    found = sorted(str(path.relative_to(tmp_path / "wandb")) for path in tmp_path.rglob("*") if path.is_file())
    assert ["offline-run-1/files/media/a.png", "offline-run-1/run-1.wandb"] == found
    assert ["offline-run-1"] == [path.name for path in (tmp_path / "wandb").iterdir()]
    assert ["files", "run-1.wandb"] == sorted(path.name for path in run.iterdir())


def test_every_item_is_written_or_has_no_place(runs: list[FakeRun], tmp_path: Path) -> None:
    """Labels and settings are those of the run; the rest of its start and its end is named."""
    start = {
        "name": "n",
        "tags": ["t"],
        "notes": "o",
        "group": "g",
        "config": {"a": {"b": 1}},
        "argv": ["x"],
        "rank": 0,
    }
    lines = [
        {"kind": "define", "t": 0.0, "goal": "max", "name": ""},
        {"kind": "scalars", "t": 1.0, "step": 1, "values": {}, "texts": {"word": "w"}},
        {"kind": "run_end", "t": 2.0, "reason": "completed", "exit_code": 3},
    ]
    report = exported("wandb", write_run(tmp_path / "r", start, *lines), tmp_path / "out")
    assert [(1, {"word": "w"})] == _values(runs[0])
    (loss,) = report.losses
    assert ("no-place", 4) == (loss.cause, loss.count)
    assert ["line 1: argv", "line 1: rank", "line 2: define", "line 4: exit_code"] == [
        each.place for each in loss.examples
    ]
    assert 0 == runs[0].code
