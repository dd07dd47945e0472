"""W&B: written by its offline mode and imported; exported through it and read back."""

from __future__ import annotations

import math
import time
import wave
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversions import exported, imported, losses, records, scalars, write_run
from toyspec.convert.destinations import wandb_runs

pytest.importorskip("wandb")

names = st.text("abcxyz/_0", min_size=1, max_size=12).filter(lambda name: name[0] != "_" and "//" not in name)


@settings(max_examples=3)
@given(st.lists(st.dictionaries(names, st.floats(), min_size=1, max_size=4), min_size=1, max_size=12))
def test_written_by_wandb(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, float]]) -> None:
    """Every row arrives with its step and values, and the report counts those that are not finite."""
    import wandb

    tmp_path = tmp_path_factory.mktemp("wandb")
    quiet: dict[str, Any] = {"silent": True, "console": "off", "x_disable_stats": True, "disable_git": True}
    run = wandb.init(mode="offline", dir=str(tmp_path), config={"lr": 0.5}, settings=wandb.Settings(**quiet))
    for step, row in enumerate(rows):
        run.log(row, step=step)
    run.finish()
    wandb_runs._await_end(run.settings.sync_file)
    (made,) = imported(tmp_path / "wandb", tmp_path / "runs").runs
    expected = [
        (name, step, value if math.isfinite(value) else None)
        for step, row in enumerate(rows)
        for name, value in sorted(row.items())
    ]
    assert expected == scalars(made.target)
    assert sum(not math.isfinite(value) for row in rows for value in row.values()) == losses(made).get("not-finite", 0)
    start, *_, end = records(made.target)
    assert ({"lr": 0.5}, "completed") == (start["config"], end["reason"])


def test_exported_through_wandb(tmp_path: Path) -> None:
    """What W&B writes has the numbers, the times, the settings and the end; the report names the rest."""
    run = write_run(
        tmp_path / "a",
        {"config": {"lr": 0.5, "net": {"depth": 2}}, "group": "g", "tags": ["x"], "notes": "n"},
        {"kind": "define", "t": 0.0, "name": "acc", "goal": "max"},
        {"kind": "scalars", "t": 0.25, "step": 1, "values": {"acc": 0.1, "loss": None}},
        {"kind": "scalars", "t": 0.5, "step": 2, "values": {"acc": 0.2}},
        {"kind": "scalars", "t": 0.75, "step": 1, "values": {"acc": 0.3}},
        {"kind": "note", "t": 1.0, "text": "remark"},
        {"kind": "run_end", "t": 1.0, "reason": "completed"},
    )
    made = exported("wandb", run, tmp_path / "out")
    assert {"null": 1, "no-place": 1} == losses(made)
    (back,) = imported(tmp_path / "out", tmp_path / "runs").runs
    assert [("acc", 1, 0.1), ("loss", 1, None), ("acc", 2, 0.2), ("acc", 1, 0.3)] == scalars(back.target)
    start, *rest = records(back.target)
    assert ({"lr": 0.5, "net": {"depth": 2}}, "g", ["x"], "n") == tuple(
        start[key] for key in ("config", "group", "tags", "notes")
    )
    assert "2026-05-31T09:30:00Z" == start["started_at"]
    assert [0.25, 0.5, 0.75] == [record["t"] for record in rest if record["kind"] == "scalars"]
    assert {"name": "acc", "goal": "max"}.items() <= next(each for each in rest if each["kind"] == "define").items()
    assert "completed" == rest[-1]["reason"]


def test_run_without_an_end_is_not_finished(tmp_path: Path) -> None:
    """A torn run has exit code 1, which the report names: W&B calls a run with exit code 0 finished."""
    run = write_run(tmp_path / "a", {}, {"kind": "scalars", "t": 0.25, "step": 1, "values": {"acc": 0.1}})
    made = exported("wandb", run, tmp_path / "out")
    assert ["the run has no end, which W&B has as exit code 1"] == made.notes
    (back,) = imported(tmp_path / "out", tmp_path / "runs").runs
    assert "completed" != records(back.target)[-1].get("reason")


def test_each_process_of_a_run_that_wandb_resumed_is_a_run(tmp_path: Path) -> None:
    """Each start leaves a directory of its own, whose rows, settings and end are those of a run."""
    import wandb

    quiet: dict[str, Any] = {"silent": True, "console": "off", "x_disable_stats": True, "disable_git": True}
    for attempt, steps in enumerate([range(6), range(4, 8)]):
        run = wandb.init(
            mode="offline", dir=str(tmp_path), id="a", resume="allow",
            config={"attempt": attempt}, settings=wandb.Settings(**quiet),
        )  # fmt: skip
        for step in steps:
            run.log({"loss": attempt + step / 8}, step=step)
        run.finish(exit_code=1 - attempt)
        wandb_runs._await_end(run.settings.sync_file)
        time.sleep(1.1)  # the name of the directory has the second
    first, second = imported(tmp_path / "wandb", tmp_path / "runs").runs
    assert [("loss", step, step / 8) for step in range(6)] == scalars(first.target)
    assert [("loss", step, 1 + step / 8) for step in range(4, 8)] == scalars(second.target)
    assert ["errored", "completed"] == [records(run.target)[-1]["reason"] for run in (first, second)]


def test_histograms_alerts_and_texts_come_back(tmp_path: Path) -> None:
    """They are in the run, and in what is exported from it; pictures, sounds and tables are counted."""
    import wandb

    np = pytest.importorskip("numpy")
    pytest.importorskip("PIL")
    sound = tmp_path / "s.wav"
    with wave.open(str(sound), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(200))
    quiet: dict[str, Any] = {"silent": True, "console": "off", "x_disable_stats": True, "disable_git": True}
    run = wandb.init(mode="offline", dir=str(tmp_path), settings=wandb.Settings(**quiet))
    pixels = (np.arange(48).reshape(4, 4, 3) * 5).astype("uint8")
    table = wandb.Table(columns=["a", "b"], data=[[1, "x"], [2, "y"]])
    shown = {"img": wandb.Image(pixels, caption="one"), "imgs": [wandb.Image(pixels), wandb.Image(pixels + 1)]}
    shown |= {"h": wandb.Histogram([1.0, 2, 3], num_bins=4), "t": table, "au": wandb.Audio(str(sound), caption="q")}
    run.log({**shown, "loss": 1.0, "said": "hello"}, step=3)
    run.alert("title", "some text", level="WARN")
    run.finish()
    wandb_runs._await_end(run.settings.sync_file)
    (made,) = imported(tmp_path / "wandb", tmp_path / "runs").runs
    assert {"part-dropped", "no-place"} == losses(made).keys()
    exported("wandb", made.target, tmp_path / "out")
    (again,) = imported(tmp_path / "out", tmp_path / "again").runs
    for target in (made.target, again.target):
        found = records(target)
        (bins,) = (each for each in found if each["kind"] == "histogram")
        assert ([1.0, 1.5, 2.0, 2.5, 3.0], 3.0) == (bins["edges"], sum(bins["counts"]))
        assert [{"said": "hello"}] == [each["texts"] for each in found if "texts" in each]
        (alert,) = (each for each in found if each["kind"] == "alert")
        assert ("title", "warning", "some text") == (alert["rule"], alert["level"], alert["text"])
