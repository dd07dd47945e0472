"""Trackio, DVCLive, Keras, MLPerf logging: written by them and imported; exported and read by them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversions import imported, losses, records, scalars
from toyspec import list_runs

names = st.text("abcxyz_0", min_size=1, max_size=8).filter(lambda name: name not in ("step", "x0") and name[0] != "_")
rows_of_values = st.lists(st.dictionaries(names, st.floats(), min_size=1, max_size=4), min_size=1, max_size=10)


def expected_scalars(rows: list[dict[str, float]]) -> list[tuple[str, int, float | None]]:
    """Return what an import of *rows* gives, a row for each step."""
    return [
        (name, step, value if math.isfinite(value) else None)
        for step, row in enumerate(rows)
        for name, value in sorted(row.items())
    ]


@settings(max_examples=3)
@given(rows_of_values)
def test_written_by_trackio(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, float]]) -> None:
    """Every row of a project arrives."""
    pytest.importorskip("trackio")
    tmp_path = tmp_path_factory.mktemp("trackio")
    program = (
        "import json, sys, trackio\n"
        "trackio.init(project='p', name='r', config={'lr': 0.5}, auto_log_gpu=False, auto_log_cpu=False)\n"
        "[trackio.log(row, step=step) for step, row in enumerate(json.load(sys.stdin))]\n"
        "trackio.finish()"
    )
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "t"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", program]
    subprocess.run(command, input=json.dumps(rows).encode(), env=environment, check=True, capture_output=True)
    (run,) = imported(tmp_path / "t", tmp_path / "runs").runs
    assert expected_scalars(rows) == scalars(run.target)
    assert {"lr": 0.5} == records(run.target)[0]["config"]


def test_run_that_trackio_resumed(tmp_path: Path) -> None:
    """A run that later processes went on with, in the JSON Lines mode, is one run: imported and as it lies."""
    pytest.importorskip("trackio")
    program = (
        "import sys, trackio\n"
        "first = int(sys.argv[1])\n"
        "trackio.init(project='p', name='r', resume='allow', config={'lr': 0.5},\n"
        "             auto_log_gpu=False, auto_log_cpu=False)\n"
        "[trackio.log({'loss': step / 2}, step=step) for step in range(first, first + 3)]\n"
        "trackio.finish()"
    )
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "t"), "HF_HUB_OFFLINE": "1"}
    for first in (0, 3, 6):
        mode = {"TRACKIO_STORAGE_MODE": "jsonl"} if first else {}
        command = [sys.executable, "-c", program, str(first)]
        subprocess.run(command, env=environment | mode, check=True, capture_output=True)
    (run,) = imported(tmp_path / "t", tmp_path / "runs").runs
    assert [("loss", step, step / 2) for step in range(9)] == scalars(run.target)
    assert {} == losses(run)
    (listed,) = list_runs(tmp_path / "t" / "inbox")
    assert (8, "r") == (listed.last_step, listed.name)


def test_texts_and_alerts_of_trackio_come_back(tmp_path: Path) -> None:
    """They are in the run; pictures, histograms, tables and traces are counted."""
    pytest.importorskip("trackio")
    pytest.importorskip("pandas")
    program = (
        "import numpy as np, pandas, trackio\n"
        "trackio.init(project='p', name='r', auto_log_gpu=False, auto_log_cpu=False)\n"
        "pixels = (np.arange(48).reshape(4, 4, 3) * 5).astype('uint8')\n"
        "table = trackio.Table(dataframe=pandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']}))\n"
        "shown = {'img': trackio.Image(pixels, caption='one'), 'h': trackio.Histogram([1.0, 2, 3], num_bins=4)}\n"
        "trackio.log({'loss': 1.0, 'said': 'hello', 't': table, **shown}, step=3)\n"
        "said = [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'a'}]\n"
        "trackio.log({'tr': trackio.Trace(messages=said)}, step=4)\n"
        "trackio.alert(title='title', text='some', level=trackio.AlertLevel.WARN)\n"
        "trackio.finish()"
    )
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "t"), "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
    (made,) = imported(tmp_path / "t", tmp_path / "runs").runs
    assert {"no-place"} == losses(made).keys()
    (alert,) = (each for each in records(made.target) if each["kind"] == "alert")
    assert ("title", "warning", "some") == (alert["rule"], alert["level"], alert["text"])
    assert [{"said": "hello"}] == [each["texts"] for each in records(made.target) if each.get("texts")]


@settings(max_examples=5)
@given(rows_of_values)
def test_written_by_dvclive(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, float]]) -> None:
    """Every row of every table arrives."""
    dvclive = pytest.importorskip("dvclive")
    tmp_path = tmp_path_factory.mktemp("dvclive")
    with dvclive.Live(str(tmp_path / "d"), save_dvc_exp=False, dvcyaml=None) as live:
        live.log_params({"lr": 0.5, "net": {"depth": 2}})
        for row in rows:
            for name, value in row.items():
                live.log_metric(name, value)
            live.next_step()
    (run,) = imported(tmp_path / "d", tmp_path / "runs").runs
    assert sorted(expected_scalars(rows), key=repr) == sorted(scalars(run.target), key=repr)
    assert {"lr": 0.5, "net": {"depth": 2}} == records(run.target)[0]["config"]


@given(st.lists(st.fixed_dictionaries({"loss": st.floats(), "acc": st.floats(0, 1)}), min_size=1, max_size=6))
def test_written_by_keras(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, float]]) -> None:
    """Every epoch of a CSVLogger arrives."""
    keras = pytest.importorskip("keras")
    tmp_path = tmp_path_factory.mktemp("keras")
    logger = keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))
    logger.set_model(keras.Sequential())
    logger.on_train_begin()
    for epoch, row in enumerate(rows):
        logger.on_epoch_end(epoch, row)
    logger.on_train_end()
    (run,) = imported(tmp_path / "log.csv", tmp_path / "runs").runs
    expected = [(name, value) for name, _, value in expected_scalars(rows)]
    assert expected == [(name, value) for name, _, value in scalars(run.target) if not name.startswith("val_")]


def test_written_by_mlperf_logging(tmp_path: Path) -> None:
    """What its logger writes arrives."""
    mllog = pytest.importorskip("mlperf_logging.mllog")

    mllog.config(filename=str(tmp_path / "result_0.txt"))
    logger = mllog.get_mllogger()
    logger.event(key="eval_accuracy", value=0.5, metadata={"epoch_num": 1})
    logger.event(key="submission_org", value="us")
    (run,) = imported(tmp_path / "result_0.txt", tmp_path / "runs").runs
    assert ("eval_accuracy", 0.5) in [(name, value) for name, _, value in scalars(run.target)]
