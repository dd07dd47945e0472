"""Tests that a run comes out of each framework: a real training, straight and killed and resumed."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in (HERE / "frameworks").glob("*.py"))
# These have a checkpoint: a second start continues. The number of records after which the first is killed.
RESUMED = {
    "accelerate_loop": 13,
    "huggingface": 11,
    "ignite_engine": 27,
    "jax_loop": 13,
    "keras_model": 6,
    "lightgbm_rounds": 13,
    "lightning_module": 12,
    "torch_loop": 14,
    "xgboost_rounds": 13,
}

# The log that a framework writes by itself: what is imported, the file in it, and the key of the step.
OWN_LOGS = {
    "huggingface": ("checkpoints", "checkpoints/checkpoint-*/trainer_state.json", "step"),
    "keras_model": ("log.csv", "log.csv", "epoch"),
    "lightning_module": ("csv", "csv/**/metrics.csv", "step"),
}


def run(name: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a training program in *directory*."""
    paths = [str(HERE / "killing"), *filter(None, [os.environ.get("PYTHONPATH")])]
    fixed = {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "KERAS_BACKEND": "torch",
        "PYTHONPATH": os.pathsep.join(paths),
        "RAY_USAGE_STATS_ENABLED": "0",
        "TQDM_DISABLE": "1",
    }
    return subprocess.run(
        [sys.executable, HERE / "frameworks" / f"{name}.py"],
        cwd=directory,
        env={**os.environ, **fixed, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def trained(name: str, directory: Path) -> None:
    """Run a training program to its end, and check the runs that it wrote."""
    done = run(name, directory)
    assert done.returncode == 0, done.stderr
    checked = subprocess.run(
        [sys.executable, "-m", "toyspec", "check", "--require-complete", "--fail-on", "warning", "runs"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def logged(directory: Path) -> dict[tuple[int | None, str], list[float]]:
    """Return the values of the runs below *directory* by step and name, of each step the latest attempt."""
    import toyspec
    from toyspec.core.reading.attempts import Attempts

    found: dict[tuple[int | None, str], list[float]] = {}
    for stream in sorted(directory.glob("runs/*/events.jsonl")):
        records, attempts = list(toyspec.read(stream)), Attempts()
        for record in records:
            attempts.learn(record)
        for record in attempts.latest(records):
            value = record.value
            if record.kind not in {"step", "scalars", "eval"}:
                continue
            values = {**value.get("values", {}), **value.get("extra", {})}
            values |= {name: number for name, number in value.items() if name in {"loss", "lr", "grad_norm"}}
            for metric, number in values.items():
                found.setdefault((value.get("step"), metric), []).append(number)
    return found


def reported(directory: Path) -> list[tuple[int | None, str, float]]:
    """Return what the framework itself reported: step, name and value."""
    return [tuple(row) for row in json.loads((directory / "reported.json").read_text())]


@pytest.mark.parametrize("name", PROGRAMS)
def test_log_has_what_the_framework_reports(name: str, tmp_path: Path) -> None:
    """A training leaves complete runs without a finding, with every value of the framework's own log."""
    trained(name, tmp_path)
    expected, values = reported(tmp_path), logged(tmp_path)
    assert expected
    missing = [
        row
        for row in expected
        if not any(math.isclose(number, row[2], rel_tol=1e-5) for number in values.get((row[0], row[1]), []))
    ]
    assert [] == missing


def test_keras_logs_the_same_on_jax(tmp_path: Path) -> None:
    """The callback is that of Keras 3, whatever computes below it."""
    done = run("keras_model", tmp_path, KERAS_BACKEND="jax")
    assert done.returncode == 0, done.stderr
    found = logged(tmp_path)
    expected = {(step, name): pytest.approx(number, rel=1e-5) for step, name, number in reported(tmp_path)}
    assert 8 == len(expected)
    assert expected == {key: found[key][0] for key in expected}


@pytest.mark.parametrize("name", sorted(OWN_LOGS))
def test_own_log_of_a_framework_is_imported(name: str, tmp_path: Path) -> None:
    """Each number in the log that the framework itself writes arrives with its step, and nothing else does."""
    from toyspec.convert import import_runs

    trained(name, tmp_path)
    source, pattern, step_key = OWN_LOGS[name]
    (made,) = import_runs([tmp_path / source], tmp_path / "imported").runs
    assert made.items == made.carried + made.changed + made.dropped
    found = [json.loads(line) for line in (Path(made.target) / "events.jsonl").read_bytes().splitlines()]
    values = [
        (record.get("step"), metric, number)
        for record in found
        if record["kind"] == "scalars"
        for metric, number in record["values"].items()
    ]
    last = max(tmp_path.glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    expected = [
        (int(row[step_key]), metric, float(number))
        for row in rows_of(last)
        for metric, number in row.items()
        if metric not in {"step", "epoch"} and number not in {"", "NA"}
    ]
    assert len(expected) > 8
    assert sorted(expected) == sorted(values)


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file, or of the history in a ``trainer_state.json``."""
    if path.suffix == ".json":
        history: list[dict[str, str]] = json.loads(path.read_text())["log_history"]
        return history
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", sorted(RESUMED))
def test_killed_training_that_resumes_has_the_same_curve(name: str, tmp_path: Path) -> None:
    """After a kill and a resume from the checkpoint, the log has the curve of a run without a kill."""
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir()
    killed.mkdir()
    trained(name, straight)
    died = run(name, killed, KILL_AFTER_RECORDS=str(RESUMED[name]))
    assert died.returncode == -signal.SIGKILL, died.stderr
    trained(name, killed)
    (stream,) = killed.glob("runs/*/events.jsonl")
    assert 1 == stream.read_text().count('{"kind":"run_resume"')
    metrics = {name for _, name, _ in reported(straight)}
    assert curves(straight, metrics) == curves(killed, metrics)


def test_killed_agent_that_resumes_has_each_step_once(tmp_path: Path) -> None:
    """The state of an environment is in no checkpoint, so the curve may differ, but no step is double or missing."""
    died = run("stable_baselines3_agent", tmp_path, KILL_AFTER_RECORDS="5")
    assert died.returncode == -signal.SIGKILL, died.stderr
    trained("stable_baselines3_agent", tmp_path)
    found = logged(tmp_path)
    assert {32: 1, 64: 1, 96: 1, 128: 1} == {
        step: len(numbers) for (step, name), numbers in found.items() if name == "time/total_timesteps"
    }
    assert 1 == (tmp_path / "runs/cart-pole/events.jsonl").read_text().count('{"kind":"run_resume"')


def curves(directory: Path, metrics: set[str]) -> dict[tuple[int | None, str], list[float]]:
    """Return the values of *metrics* by step, rounded: sums in another order differ in the last digits."""
    return {
        (step, name): [float(f"{number:.4g}") for number in numbers]
        for (step, name), numbers in logged(directory).items()
        if name in metrics
    }
