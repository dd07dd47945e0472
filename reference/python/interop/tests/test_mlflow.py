"""MLflow: written by its client and imported; exported through it and read by it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversions import exported, imported, losses, records, scalars, write_run

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("mlflow")

rows = st.lists(st.tuples(st.sampled_from(["a", "b/c", "d e"]), st.floats()), min_size=1, max_size=20)


@pytest.mark.parametrize("store", ["sqlite", "file"])
@settings(max_examples=2)
@given(rows=rows)
def test_written_by_mlflow(tmp_path_factory: pytest.TempPathFactory, store: str, rows: list[tuple[str, float]]) -> None:
    """Every metric arrives with its step and time; the report counts NaN and infinities."""
    from mlflow.tracking import MlflowClient

    tmp_path = tmp_path_factory.mktemp("mlflow")
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db" if store == "sqlite" else f"file:{tmp_path}/mlruns")
    run = client.create_run(client.create_experiment("e"), run_name="r", start_time=1_800_000_000_000)
    for step, (name, value) in enumerate(rows):
        client.log_metric(run.info.run_id, name, value, timestamp=1_800_000_000_000 + step, step=step)
    client.log_param(run.info.run_id, "lr", 0.5)
    client.set_terminated(run.info.run_id)
    (made,) = imported(tmp_path, tmp_path / "runs", "mlflow").runs
    limit = 1.7976931348623157e308 if store == "sqlite" else math.inf
    assert [(name, step, value if abs(value) < limit else None) for step, (name, value) in enumerate(rows)] == scalars(
        made.target
    )
    start, *metrics, end = records(made.target)
    assert ({"lr": "0.5"}, "e", "completed") == (start["config"], start["group"], end["reason"])
    assert [step / 1000 for step in range(len(rows))] == [round(record["t"], 6) for record in metrics]


def test_read_by_mlflow(tmp_path: Path) -> None:
    """The client reads metrics, params, tags and the status of what was exported."""
    from mlflow.tracking import MlflowClient

    run = write_run(
        tmp_path / "a",
        {"config": {"lr": 0.5, "arch": "gpt"}, "group": "g", "name": "first", "notes": "n", "tags": ["k=v"]},
        {
            "kind": "scalars",
            "t": 0.25,
            "step": 1,
            "values": {"acc": 0.1, "a@b": 1.0, "a#b": 2.0, "потеря": 3.0, "ошибка": 4.0, "loss": None},
        },
        {"kind": "scalars", "t": 0.5001, "step": 2, "values": {"acc": 0.2}},
        {"kind": "run_end", "t": 1.0, "reason": "completed"},
    )
    made = exported("mlflow", run, tmp_path / "out")
    assert {"as-text": 1, "name": 2, "null": 1, "milliseconds": 1} == losses(made)
    client = MlflowClient(f"sqlite:///{tmp_path}/out/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name("g").experiment_id])
    history = client.get_metric_history(found.info.run_id, "acc")
    assert [(1, 0.1, 1780219800250), (2, 0.2, 1780219800500)] == [
        (each.step, each.value, each.timestamp) for each in sorted(history, key=lambda each: each.step)
    ]
    assert (1.0, 2.0) == (found.data.metrics["a_x40_b"], found.data.metrics["a_x23_b"])
    assert (3.0, 4.0) == (found.data.metrics["потеря"], found.data.metrics["ошибка"])
    assert math.isnan(found.data.metrics["loss"])
    assert {"lr": "0.5", "arch": "gpt"} == found.data.params
    assert ("FINISHED", "first", "v") == (found.info.status, found.info.run_name, found.data.tags["k"])


def test_artifacts_and_pictures_are_named(tmp_path: Path) -> None:
    """A run has a reference to the place where they stay."""
    from mlflow.tracking import MlflowClient

    np, _ = pytest.importorskip("numpy"), pytest.importorskip("PIL")
    client = MlflowClient(f"sqlite:///{tmp_path}/s/mlflow.db")
    place = (tmp_path / "s" / "art").as_uri()
    run = client.create_run(client.create_experiment("e", artifact_location=place), run_name="r")
    run_id = run.info.run_id
    client.log_metric(run_id, "loss", 1.0, step=1)
    client.log_text(run_id, "weights", "model/a.txt")
    pixels = (np.arange(48).reshape(4, 4, 3) * 5).astype("uint8")
    client.log_image(run_id, pixels, key="val/img", step=3, synchronous=True)
    client.set_terminated(run_id)
    (made,) = imported(tmp_path / "s", tmp_path / "runs", "mlflow").runs
    *_, end = records(made.target)
    (named,) = (each["uri"] for each in records(made.target) if each["kind"] == "reference")
    assert 1 == losses(made)["file-stays"]
    assert f"{place}/{run_id}/artifacts" == named
    assert "run_end" == end["kind"]
