"""A script migrates by changing an import: the calls of wandb, mlflow, SummaryWriter, torchtitan and logging."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from logged_runs import events, findings, kinds
from toyspec.integrations import mlflow, wandb
from toyspec.integrations.logging_handler import RunHandler
from toyspec.integrations.summary_writer import SummaryWriter
from toyspec.integrations.torchtitan import ToyspecLogger


def values(root: Path) -> list[tuple[int | None, dict[str, float]]]:
    """Return the step and the values of each scalars event of the one run below *root*."""
    return [(event.get("step"), event["values"]) for event in events(root) if event["kind"] == "scalars"]


def left_out(root: Path) -> Counter[str]:
    """Return how often each value was left out of the one run below *root*, by its notes."""
    counts: Counter[str] = Counter()
    for event in events(root):
        counts.update(event.get("left_out", {}))
    return counts


def test_wandb_script(tmp_path: Path) -> None:
    """init, config, define_metric, log with and without step, summary and finish."""
    with wandb.init(project="demo", dir=str(tmp_path), config={"lr": 0.1}) as run:
        wandb.config.update({"layers": 2})
        wandb.define_metric("val/*", step_metric="epoch", summary="max")
        wandb.log({"loss": 2.5})
        wandb.log({"loss": 2.4, "val": {"acc": 0.5}})
        run.summary["best"] = 0.5
        assert 2 == run.config.layers
        run.summary.update({"worst": 1})
        last = [(None, {"summary/best": 0.5}), (None, {"summary/worst": 1.0})]
        # The summary is in the log as soon as it is set, whatever ends the program then.
        assert [(0, {"loss": 2.5}), (1, {"loss": 2.4, "val/acc": 0.5}), *last] == values(tmp_path)
    assert wandb.run is None
    found = events(tmp_path)
    assert [{"lr": 0.1}, {"layers": 2}] == [event["config"] for event in found[:2]]
    assert ("demo", "demo") == (found[0]["group"], found[0]["name"])
    (meaning,) = [event for event in found if event["kind"] == "define"]
    assert ("val/*", "max", "epoch") == (meaning["name"], meaning["goal"], meaning["step_name"])
    assert [] == findings(tmp_path)


def test_wandb_values_of_one_step_are_at_this_step(tmp_path: Path) -> None:
    """Calls with the same step, or without commit, are at one step as in wandb, each in the log at once."""
    wandb.init(dir=str(tmp_path))
    wandb.log({"a": 1}, step=5)
    wandb.log({"b": 2}, step=5)
    wandb.log({"c": 3}, step=6)
    wandb.log({"d": 4}, commit=False)
    wandb.log({"e": 5})
    wandb.log({"f": 6})
    expected = [(5, {"a": 1.0}), (5, {"b": 2.0}), (6, {"c": 3.0}), (6, {"d": 4.0}), (6, {"e": 5.0}), (7, {"f": 6.0})]
    assert expected == values(tmp_path)
    wandb.finish(3)
    assert ("aborted", 3) == tuple(events(tmp_path)[-1][key] for key in ("reason", "exit_code"))


def test_wandb_calls_for_files_are_counted_in_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each name once, before and after the first value."""
    with wandb.init(dir=str(tmp_path)) as run:
        wandb.watch(object())
        wandb.log({"loss": 1.0})
        wandb.save("model.bin")
        run.log_artifact("model.bin")
    assert {"watch": 1, "save": 1, "log_artifact": 1} == left_out(tmp_path)
    assert 1 == capsys.readouterr().err.count("watch is left out: ")


def test_wandb_disabled_writes_nothing(tmp_path: Path) -> None:
    """mode="disabled" makes no file."""
    with wandb.init(dir=str(tmp_path), mode="disabled"):
        wandb.log({"loss": 1.0})
    assert [] == list(tmp_path.iterdir())


def test_wandb_resume_continues_the_run_of_an_id(tmp_path: Path) -> None:
    """resume="allow" with an id goes on at the first step that is logged; an exception is in run_end."""
    wandb.init(dir=str(tmp_path), id="demo", resume="allow")
    wandb.log({"loss": 1.0}, step=1)
    wandb.log({"loss": 0.9}, step=2)
    assert wandb.run is not None
    assert wandb.run.training.writer is not None
    wandb.run.training.writer.abandon()
    wandb.run = None
    with contextlib.suppress(KeyError), wandb.init(dir=str(tmp_path), id="demo", resume="allow"):
        wandb.log({"loss": 0.8}, step=2)
        raise KeyError("x")
    assert ["run_start", "scalars", "scalars", "run_resume", "scalars", "run_end"] == kinds(tmp_path)
    assert "errored" == events(tmp_path)[-1]["reason"]


def test_wandb_without_init_says_what_to_do() -> None:
    """A call without a run names the call that starts one."""
    with pytest.raises(wandb.NotStartedError, match=r"call wandb.init\(\) first"):
        wandb.log({"loss": 1.0})


def test_calls_that_summary_writer_does_not_log_are_counted(tmp_path: Path, capsys: Any) -> None:
    """They say once that they do not log, and the log counts it; a call that PyTorch does not have is an error."""
    with SummaryWriter(str(tmp_path), comment="_line") as writer:
        for _ in range(2):
            writer.add_graph(object())
        writer.add_figure("figure", object())
    assert {"add_graph": 2, "figure": 1} == left_out(tmp_path)
    assert 1 == capsys.readouterr().err.count("add_graph is left out: toyspec's SummaryWriter does not log what add_")
    with pytest.raises(AttributeError, match="add_scaler"):
        writer.add_scaler  # noqa: B018 - asking is what fails


def test_summary_writer_purges_what_comes_again(tmp_path: Path) -> None:
    """purge_step is the first step that is logged again."""
    first = SummaryWriter(str(tmp_path), run_id="demo")
    for step in (1, 2, 3):
        first.add_scalar("loss", 1.0, step)
    first.run.begin().close()
    with SummaryWriter(str(tmp_path), run_id="demo", purge_step=2) as writer:
        writer.add_scalar("loss", 0.5, 2)
    assert [1] == [event["from_step"] for event in events(tmp_path) if event["kind"] == "run_resume"]
    assert [] == findings(tmp_path)


np = pytest.importorskip("numpy")
HIDDEN = ("t", "started_at", "ended_at", "resumed_at", "host", "git", "argv", "packages", "backend", "run_id", "sha256")


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the only run below *folder*, without what changes with the machine."""
    return [{key: value for key, value in each.items() if key not in HIDDEN} for each in events(folder)]


def scalars(step: int | None, **members: Any) -> dict[str, Any]:
    """Return a record of values."""
    return {"kind": "scalars", **({} if step is None else {"step": step}), "values": {}, **members}


def test_every_call_of_summary_writer_is_a_record(tmp_path: Path) -> None:
    """Arguments are where the package has them; a time of the caller's is not taken."""
    pixels = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    with SummaryWriter(str(tmp_path), "_first-", None, 3, 4, "x", tags=["a"]) as writer:
        writer.add_hparams({"lr": 0.5}, {"hp": 1}, None, None, 0)
        writer.add_scalar("a", 1.5, np.int64(1), 9.0, True, True)
        writer.add_scalars("m", {"x": 1, "y": 2}, 2, 9.0)
        writer.add_text("t", "word", 3, 9.0)
        writer.add_image("i", pixels, 4, 9.0)
        writer.add_image("j", pixels[0], 4, dataformats="HW")
        writer.add_audio("s", [0.0, 0.5], 5, 2, 9.0)
        writer.add_histogram("h", [0, 1, 1, 4], 6, 2, 9.0, 3)
        writer.add_histogram("k", [0, 1], 6, "auto", max_bins=1)
        writer.add_histogram_raw("r", 0.0, 9.0, 3, 1.0, 1.0, [1.0, 2.0], [3, 4], 7, 9.0)
        writer.add_scalar("last", 2)
        writer.flush()
        assert Path(writer.get_logdir()).parent == tmp_path
    image = {"kind": "media", "media_type": "image/png", "width": 4, "height": 2}
    expected = [
        {"kind": "run_start", "schema": "toy/v1", "name": "first", "tags": ["a"], "config": {}},
        {"kind": "run_config", "config": {"lr": 0.5}},
        scalars(0, values={"hp": 1.0}),
        scalars(1, values={"a": 1.5}),
        scalars(2, values={"m/x": 1.0, "m/y": 2.0}),
        scalars(3, texts={"t": "word"}),
        {**image, "step": 4, "name": "i"},
        {**image, "step": 4, "name": "j"},
        {"kind": "media", "step": 5, "name": "s", "media_type": "audio/wav", "seconds": 1.0},
        {"kind": "histogram", "step": 6, "name": "h", "edges": [0.0, 2.0, 4.0], "counts": [3.0, 1.0]},
        {"kind": "histogram", "step": 6, "name": "k", "edges": [0.0, 1.0], "counts": [2.0]},
        {"kind": "histogram", "step": 7, "name": "r", "edges": [0.0, 1.0, 2.0], "counts": [3.0, 4.0]},
    ]
    found = [{key: value for key, value in each.items() if key != "size_bytes"} for each in records(tmp_path)]
    assert expected == found[: len(expected)]
    assert {"last": 2.0} == found[len(expected)]["values"]
    assert ["run_end"] == [each["kind"] for each in found[len(expected) + 1 :]]


def test_every_call_of_mlflow_is_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Settings and tags are those of the run, texts are notes, and its status is how it ends."""
    monkeypatch.setattr(mlflow, "_settings", {"root": "runs", "experiment": None})
    failed = ("errored", "the framework reported a failure")
    for at, (status, how) in enumerate(
        {"FINISHED": ("completed", None), "KILLED": ("interrupted", None), "FAILED": failed, "odd": failed}.items()
    ):
        folder = tmp_path / str(at)
        mlflow.set_tracking_uri(f"file://{folder}" if at else str(folder))
        mlflow.set_experiment("sweep")
        run = mlflow.start_run(run_name="n", tags={"a": 1, "b": "x"}, description="d")
        assert mlflow.active_run() is run
        with pytest.raises(RuntimeError, match="a run is active: call end_run\\(\\) first, or start_run"):
            mlflow.start_run()
        assert 0.5 == mlflow.log_param("lr", 0.5)
        mlflow.log_params({"depth": 2})
        mlflow.set_tag("who", 5)
        mlflow.set_tags({"why": "x"})
        mlflow.log_metric("loss", 1.5, 3, 99)
        mlflow.log_metrics({"acc": 0.5, "f1": 1}, step=4, timestamp=99)
        mlflow.log_text("hello", "notes.txt")
        mlflow.end_run(status)
        assert mlflow.active_run() is None
        start, *rest, end = records(folder)
        expected = {"name": "n", "group": "sweep", "tags": ["a=1", "b=x"], "notes": "d", "config": {}}
        assert {"kind": "run_start", "schema": "toy/v1", **expected} == start
        settings = [{"lr": 0.5}, {"depth": 2}, {"tag.who": "5"}, {"tag.why": "x"}]
        assert [
            *({"kind": "run_config", "config": config} for config in settings),
            scalars(3, values={"loss": 1.5}),
            scalars(4, values={"acc": 0.5, "f1": 1.0}),
            {"kind": "note", "text": "notes.txt: hello"},
        ] == rest
        assert how == (end["reason"], end.get("error"))
    mlflow.end_run()
    mlflow.set_tracking_uri("http://host")
    assert (
        f"http://host gets nothing: toyspec has the place of mlflow, and logs into {folder}" in capsys.readouterr().err
    )
    assert str(folder) == mlflow.get_tracking_uri()
    with pytest.raises(AttributeError, match="mlflow has no 'skleam'"):
        _ = mlflow.skleam


def test_messages_of_logging_are_notes_with_their_values(tmp_path: Path) -> None:
    """The level is before the message; a message below the level of the handler is not written."""
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("a", 1, 1)
        handler = RunHandler(writer.run.begin())
        logger = logging.getLogger("own")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.info("evaluated %d", 5, extra={"values": {"b": 2.5}, "step": "7"})
        logger.warning("odd", extra={"values": [1]})
        logger.debug("hidden")
        logger.removeHandler(handler)
    assert [
        scalars(7, values={"b": 2.5}),
        {"kind": "note", "step": 7, "text": "info: evaluated 5"},
        {"kind": "note", "text": "warning: odd"},
    ] == records(tmp_path)[2:-1]


def test_torchtitan_shape(tmp_path: Path) -> None:
    """log(metrics, step) and close()."""
    logger = ToyspecLogger(str(tmp_path))
    logger.log({"loss_metrics/global_avg_loss": 2.5}, 10)
    logger.close()
    assert [(10, {"loss_metrics/global_avg_loss": 2.5})] == values(tmp_path)
