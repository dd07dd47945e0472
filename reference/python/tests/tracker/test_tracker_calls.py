"""Whole runs of the stand-ins for other trackers: each call with all its arguments, and what is in the log then."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from toyspec.integrations import mlflow
from toyspec.integrations.logging_handler import RunHandler
from toyspec.integrations.summary_writer import SummaryWriter

np = pytest.importorskip("numpy")
HIDDEN = ("t", "started_at", "ended_at", "resumed_at", "host", "git", "argv", "packages", "backend", "run_id", "sha256")


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the only run below *folder*, without what changes with the machine."""
    (path,) = folder.rglob("events.jsonl")
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in each.items() if key not in HIDDEN} for each in found]


def scalars(step: int | None, **members: Any) -> dict[str, Any]:
    """Return a record of values."""
    return {"kind": "scalars", **({} if step is None else {"step": step}), "values": {}, **members}


def test_every_call_of_summary_writer_is_a_record(tmp_path: Path) -> None:
    """Arguments are where the package has them; a time of the caller's is not taken."""
    pixels = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    with SummaryWriter(str(tmp_path), "_first-", None, 3, 4, "x", tags=["a"]) as writer:
        assert writer.get_logdir() is None
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
        directory = writer.get_logdir()
    assert directory is not None
    assert Path(directory).parent == tmp_path
    image = {"kind": "media", "media_type": "image/png", "width": 4, "height": 2}
    expected = [
        {"kind": "run_start", "schema": "toy/v1", "name": "first", "tags": ["a"], "config": {"lr": 0.5}},
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


def test_every_call_of_mlflow_is_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings and tags are those of the run, texts are notes, and its status is how it ends."""
    monkeypatch.setattr(mlflow, "_settings", {"root": "runs", "experiment": None})
    for at, (status, reason) in enumerate(
        {"FINISHED": "completed", "FAILED": "errored", "KILLED": "interrupted", "odd": "errored"}.items()
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
        config = {"depth": 2, "lr": 0.5, "tag.who": "5", "tag.why": "x"}
        start, *rest, end = records(folder)
        expected = {"name": "n", "group": "sweep", "tags": ["a=1", "b=x"], "notes": "d", "config": config}
        assert {"kind": "run_start", "schema": "toy/v1", **expected} == start
        assert [
            scalars(3, values={"loss": 1.5}),
            scalars(4, values={"acc": 0.5, "f1": 1.0}),
            {"kind": "note", "text": "notes.txt: hello"},
        ] == rest
        assert reason == end["reason"]
    mlflow.end_run()
    with pytest.raises(ValueError, match="http://host is the address of a server; toyspec logs into a directory"):
        mlflow.set_tracking_uri("http://host")
    with pytest.raises(AttributeError, match="toyspec's mlflow has no 'sklearn'; it has start_run, log_param, "):
        _ = mlflow.sklearn


def test_messages_of_logging_are_notes_with_their_values(tmp_path: Path) -> None:
    """The level is before the message; a message below the level of the handler is not written."""
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("a", 1, 1)
        handler = RunHandler(writer.run)
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
