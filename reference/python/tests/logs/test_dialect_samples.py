"""How the sample of each dialect was made, and facts of programs that the samples show."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from command_line import toyspec_within as toyspec
from logs.test_dialects import NAMES, SAMPLES, rows_of, sample
from sample_rows import lines_of, path_of
from toyspec import check, import_runs, list_runs, read
from toyspec.logs.dialects import dialects
from toyspec.logs.forms import JsonForm
from toyspec.logs.recognition import recognize


@pytest.mark.parametrize("name", NAMES)
def test_sample_says_how_it_was_made(name: str) -> None:
    """A sample has the program and the command that made it, or the source that it was written after."""
    _, expected = sample(name)
    if "made_after" in expected:
        assert not {"made_with", "command"} & set(expected)
        assert expected["made_after"].startswith(("written after ", "written by hand"))
        return
    assert expected["made_with"]
    folder = re.search(r"in (\.\.\S*?)(?:;|$)", expected["command"])
    (program,) = (SAMPLES / name / (folder[1] if folder else "")).glob("make.*")
    assert f"{program.stem}." in expected["command"]
    assert "Writes this sample" in program.read_text(encoding="utf-8").splitlines()[0]


@pytest.mark.parametrize("name", [name for name in NAMES if "variants" in sample(name)[1]])
def test_variant_of_a_sample_is_read(name: str) -> None:
    """Other versions of a program write what the same dialect reads, each value under its name."""
    for variant in sample(name)[1]["variants"]:
        rows = rows_of(SAMPLES / name / variant["file"])
        reading = read(SAMPLES / name / variant["file"], mode="strict")
        assert reading.read_as is not None
        assert (variant["name"], variant["step"]) == (reading.read_as.use.name, reading.read_as.use.step)
        assert variant["state"] == reading.report.state
        assert variant["last_step"] == next((row.step for row in reversed(rows) if row.step is not None), None)
        counts = Counter(metric for row in rows for metric in row.values)
        assert variant["values"] == {metric: counts[metric] for metric in variant["values"]}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_of_a_sample_is_written_down(name: str) -> None:
    """Choices, notes, findings, each row and the run are those of `dialect_rows/`, where a change of them is seen."""
    assert path_of(name).read_text(encoding="utf-8").splitlines() == list(lines_of(name))


def test_running_averages_of_maxtext_are_skipped() -> None:
    """An evaluation has its result at a step of training; what it prints before that counts its own steps."""
    path, _ = sample("maxtext")
    rows = rows_of(path)
    assert [None, None, 0, 0, 1, 2, None, None, 3, 3, 4, 5] == [row.step for row in rows]
    result = [(row.step, row.values["eval/avg_loss"]) for row in rows if "eval/avg_loss" in row.values]
    assert [(0, 4.5299129479006), (3, 4.527914046533724)] == result
    # The same records in a table.
    averages = b"".join(
        b'{"eval/avg_loss": 1.5, "eval/step_time_seconds": 1.0, "step": %d.0, "run_name": "a"}\n' % step
        for step in range(40)
    )
    assert {None} == {row.step for row in rows_of(path.read_bytes() + averages)[12:]}
    assert () == tuple(check(path).files[0].findings)


def test_console_of_maxtext() -> None:
    """A profiled step and the result of an evaluation have values; running averages are skipped."""
    rows = rows_of(sample("maxtext-console")[0])
    steps = [(0, 4.532), (1, 4.53), (2, 4.528), (3, 4.529), (4, 4.528), (5, 4.528)]
    assert steps == [(row.step, row.values["loss"]) for row in rows if "loss" in row.values]
    assert [(0, 4.53), (3, 4.528)] == [(row.step, row.values["eval/loss"]) for row in rows if "eval/loss" in row.values]
    others = (
        b"[Rampup Batch Size Phase], completed step: 0, seconds: 1.500, loss: 10.500, lm_loss: 10.500\n"
        b"completed profiler activation/deactivation step: 2, total_weights: 65536, loss: 8.500\n"
    )
    assert [(0, 10.5), (2, 8.5)] == [(row.step, row.values["loss"]) for row in rows_of(others)]


def test_counters_are_not_metrics() -> None:
    """A counter that only places a record is not among its values."""
    for name, counter in (
        ("mmengine", "iter"),
        ("olmo", "_runtime"),
        ("wandb", "_runtime"),
        ("detectron2", "eta_seconds"),
    ):
        path, _ = sample(name)
        assert counter.encode() in path.read_bytes()
        assert all(counter not in row.values for row in rows_of(path))


def test_system_metrics_of_trackio_have_no_step() -> None:
    """Trackio writes them in fragments of their own, without a step."""
    record = {"v": 1, "kind": "system_metric", "project": "demo", "run": "a", "run_id": "r", "metrics": {"cpu": 50.0}}
    data = json.dumps(record | {"timestamp": "2026-11-20T10:00:00+00:00", "log_id": "i"}).encode() + b"\n"
    (row,) = rows_of(data, dialect="trackio")
    assert (None, {"cpu": 50.0}, "unix") == (row.step, row.values, row.time_origin)


def test_recognition_of_text_validates_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a table are not examined as broken objects, which would take longer than reading them."""
    lines: list[bytes] = []

    def counted(_: JsonForm, data: bytes, **__: Any) -> None:
        lines.append(data)

    monkeypatch.setattr(JsonForm, "validate", counted)
    head = b"step,loss\n" + b"".join(b"%d,2.5\n" % step for step in range(100))
    found = recognize(head, dialects())
    assert found is not None
    assert "csv" == found.dialect.name
    assert [] == lines


def test_a_row_without_metrics_is_shown_by_its_members() -> None:
    """A line of tail that said nothing would look like a defect; a metric with one value is not a range."""
    path, _ = sample("mllog")
    last = toyspec("tail", "--once", "-n", "1", str(path)).stdout.decode()
    assert "key run_stop" in last
    assert b"global_batch_size  256 at step 0, the only value\n" in toyspec("show", str(path)).stdout


def test_show_says_what_munin_keeps_beside_its_log() -> None:
    """Name, settings and tags are in run.json; the goal of a metric, the first step and the end are in the log."""
    (run,) = (SAMPLES.parent / "samples/munin/experiments/toyspec/runs").iterdir()
    shown = toyspec("show", str(run)).stdout.decode()
    assert shown.startswith("first try  complete  munin ")
    for fact in (
        "name        first try", "tags        small", "config      lr 0.001,", "steps       1 to 6,",
        "val/acc     first 0.375, last 0.75, highest 0.75 at step 6", "end         reason completed",
    ):  # fmt: skip
        assert f"\n  {fact}" in shown
    (listed,) = json.loads(toyspec("ls", "--json", str(run)).stdout)
    assert "completed" == listed["reason"]
    media = toyspec("tail", "--once", "-n", "6", str(run)).stdout.decode().splitlines()[0]
    assert 1 == media.count("step")


@pytest.mark.parametrize(("status", "reason"), [("success", "completed"), ("aborted", "aborted"), ("odd", None)])
def test_import_of_an_mlperf_log_has_its_end(tmp_path: Path, status: str, reason: str | None) -> None:
    """The status of run_stop is the reason of run_end; another word is none."""
    log = tmp_path / "result_0.txt"
    log.write_bytes(sample("mllog")[0].read_bytes().replace(b'"success"', f'"{status}"'.encode()))
    _, run = import_runs([log], tmp_path / "runs").runs
    last = list(read(run.target))[-1]
    assert reason == last.get("reason")
    assert reason == list_runs(log)[0].facts.reason


def test_settings_of_a_wandb_record_are_those_of_the_run() -> None:
    """They are in an inner object of one of the first records, without what W&B notes there for itself."""
    assert "\n  config      lr 0.001\n" in toyspec("show", str(sample("wandb-inspect")[0])).stdout.decode()


def test_import_has_settings_and_times_that_are_not_in_the_first_record(tmp_path: Path) -> None:
    """W&B writes a header before them; the setting of its own is counted as dropped."""
    (run,) = import_runs([sample("wandb-inspect")[0]], tmp_path / "runs", max_examples=1000).runs
    start, first, *_ = read(run.target)
    assert ("2026-11-22T22:49:36Z", {"lr": 0.001}) == (start["started_at"], start["config"])
    assert 0.4 < first["t"] < 0.5
    assert not any("no times" in note for note in run.notes)
    dropped = {example.place for loss in run.losses for example in loss.examples if loss.cause == "no-place"}
    assert "line 2: run/config/update/_wandb" in dropped
    assert "line 2: run/config/update/lr" not in dropped


def test_settings_of_trackio_are_those_of_the_user() -> None:
    """Trackio notes the user and the time of the start among them."""
    shown = toyspec("show", str(sample("trackio")[0])).stdout.decode()
    assert "_Username" not in shown
    assert "\n  config      lr 0.0003, _Group null\n" in shown


def test_show_begins_with_the_losses_of_very_many_metrics() -> None:
    """OLMo logs the norm of each gradient before the loss: what has a goal is shown before what is left out."""
    shown = toyspec("show", str(sample("olmo")[0])).stdout.decode()
    assert "more" in shown
    assert shown.index("train/CrossEntropyLoss") < shown.index("optim/")
