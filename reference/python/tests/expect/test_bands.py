"""``toyspec expect``: bands made of runs, and what leaves them."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import toyspec
from command_line import toyspec_within
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.expect import bands
from toyspec.expect.bands import (
    Departure,
    ExpectationError,
    departures,
    expectation_of,
    read_expectation,
    shape_of,
    written,
)
from toyspec.expect.ordered import Ordered

STEPS, SEEDS, FURTHER, ROUNDS = 64, 5, 50, 20


def curve(seed: str, *, factor: float = 1.0, noise: float = 0.01) -> list[float]:
    """Return a loss with noise, *factor* times as high in its second half."""
    chance = random.Random(seed)
    values = [1 + 4 * math.exp(-step / 20) + chance.gauss(0, noise) for step in range(STEPS)]
    return values[: STEPS // 2] + [value * factor for value in values[STEPS // 2 :]]


def logged(root: Path, run_id: str, values: list[float], name: str = "loss", **config: Any) -> str:
    """Return a run that logged *values*."""
    with toyspec.start_run(root, run_id=run_id, git=None, config=config) as run:
        for step, value in enumerate(values, 1):
            run.log({name: value, "step_ms": 1.0}, step=step)
    return str(root / run_id)


def found(run: str, expected: bands.Expectation) -> list[Departure]:
    """Return where *run* is not as expected."""
    return departures(run, expected, choice=DialectChoice())[1]


def made(run: str, preset: str = "curve", **changes: Any) -> bands.Expectation:
    """Return what is expected after *run*."""
    return expectation_of([run], shape=shape_of(preset, **changes), choice=DialectChoice())


@pytest.fixture
def one(tmp_path: Path) -> bands.Expectation:
    """Return what is expected after one run of 16 values."""
    run = logged(tmp_path, "one", [10.0 - step for step in range(16)], lr=0.1, seed=1)
    return made(run, rtol=0.01)


@pytest.mark.parametrize(
    ("values", "config", "expected"),
    [
        ([10.0 - step for step in range(16)], {}, set()),
        ([10.0 - step for step in range(16)], {"lr": 0.2}, {"setting"}),
        ([10.0 - step for step in range(16)], {"seed": 2, "more": 1}, set()),
        ([10.0 - step + 0.5 * (step == 3) for step in range(16)], {}, {"above"}),
        ([10.0 - step - 0.5 * (step == 3) for step in range(16)], {}, {"below"}),
        ([10.0 - step for step in range(9)], {}, {"missing", "above"}),
        ([math.nan if step == 9 else 10.0 - step for step in range(16)], {}, {"not finite"}),
    ],
)
def test_departures_from_one_run(
    tmp_path: Path, one: bands.Expectation, values: list[float], config: dict[str, Any], expected: set[str]
) -> None:
    """Each way in which a run is not as expected has a name."""
    run = logged(tmp_path, "new", values, **{"lr": 0.1, "seed": 1, **config})
    assert expected == {each.what for each in found(run, one)}


@pytest.mark.parametrize(
    ("preset", "changes", "factor", "expected"),
    [
        ("curve", {"at_least": True}, 0.5, set()),
        ("curve", {"at_least": True}, 1.5, {"above"}),
        ("exact", {}, 1.0, set()),
        ("exact", {}, 1 + 2**-52, {"above"}),
        ("steps", {}, 1.04, set()),
        ("steps", {}, 0.94, {"below"}),
        ("steps", {"windows": (3, 5, 99), "rtol": 1e-3}, 1.002, {"above"}),
        ("final", {}, 0.1, set()),
        ("final", {}, 1.05, {"above"}),
        ("performance", {}, 0.5, set()),
        ("performance", {}, 1.2, {"above"}),
    ],
)
def test_presets(tmp_path: Path, preset: str, changes: dict[str, Any], factor: float, expected: set[str]) -> None:
    """A gate accepts what it is there to accept, and better values where it is about the least."""
    name = "took_ms" if preset == "performance" else "loss"
    values = [20.0 - step for step in range(16)]
    golden = made(logged(tmp_path, "golden", values, name), preset, **changes)
    golden.metrics.pop("@seconds", None)
    run = logged(tmp_path, "new", [value * factor for value in values], name)
    assert expected == {each.what for each in found(run, golden)}


def test_numbers_of_bands(tmp_path: Path) -> None:
    """Presets differ in their windows: their number is that of the page."""
    run = logged(tmp_path, "run", [float(step + 1) for step in range(100)])
    numbers = {"curve": 31, "exact": 100, "steps": 40, "final": 1}
    assert numbers == {each: len(made(run, each).metrics["loss"].bands) for each in numbers}
    assert ["step_ms", "@seconds"] == list(made(run, "performance").metrics)
    with pytest.raises(ValueError, match="'curve'"):
        shape_of("other")


def test_missing_metric_is_a_departure(tmp_path: Path, one: bands.Expectation) -> None:
    """Times have no band; a metric with one must be there."""
    assert list(one.metrics) == ["loss"]
    run = logged(tmp_path, "other", [1.0] * 16, name="acc", lr=0.1)
    assert [("metric", "loss")] == [(each.what, each.name) for each in found(run, one)]


def test_bands_of_seeds_are_quiet_and_see_a_small_change() -> None:
    """Of 1,000 further seeds at most one is outside; a loss 1 % higher for half of the steps is outside in 95 %."""

    def values(numbers: list[float]) -> Any:
        return Ordered(range(len(numbers)), numbers)

    false = seen = 0
    for number in range(ROUNDS):
        seeds = [values(curve(f"{number}/{seed}", noise=0.003)) for seed in range(SEEDS)]
        golden = bands._bands(seeds, shape_of(), None)
        for further in range(FURTHER):
            seed = f"{number}/further/{further}"
            false += _is_outside(golden, values(curve(seed, noise=0.003)))
            seen += _is_outside(golden, values(curve(seed, noise=0.003, factor=1.01)))
    assert false <= 1
    assert seen >= 0.95 * ROUNDS * FURTHER


def _is_outside(golden: list[bands.Band], values: Ordered) -> bool:
    windows = [(band, values.within(band.first, band.last)) for band in golden]
    return any(bands.departure("loss", band, len(inside), bands._middle(inside, "mean")) for band, inside in windows)


def test_file_is_small_and_read_back(tmp_path: Path, one: bands.Expectation) -> None:
    """It has a line for each band, and is what was written."""
    data = written(one)
    assert len(data) < 2000
    assert b"\n        [ 1, 16, 16, " in data
    (tmp_path / "golden.json").write_bytes(data)
    assert read_expectation(str(tmp_path / "golden.json")) == one


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[" * 100_000, b'{"toyspec_expect":2,"runs":[],"settings":{},"metrics":{}}']
)
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    """The message says how to write one."""
    (tmp_path / "golden.json").write_bytes(data)
    with pytest.raises(ExpectationError, match="toyspec expect write"):
        read_expectation(str(tmp_path / "golden.json"))


def test_command_in_ci(tmp_path: Path) -> None:
    """Status, annotations and Markdown; text of logs is inert."""
    name = "loss\x1b[31m|::error::"
    logged(tmp_path, "a", [1.0] * 16, name=name)
    logged(tmp_path, "b", [1.0] * 8 + [2.0] * 8, name=name)
    assert toyspec_within("expect", "write", "a", "-o", "golden.json", cwd=tmp_path).returncode == 0
    assert toyspec_within("expect", "check", "a", "golden.json", cwd=tmp_path).returncode == 0
    for form, shown in (
        ("text", "above"),
        ("github", "::error file=b/events.jsonl,line=2"),
        ("markdown", "········▲▲▲▲▲▲▲▲"),
    ):
        result = toyspec_within("expect", "check", "--format", form, "b", "golden.json", cwd=tmp_path)
        text = result.stdout.decode()
        assert result.returncode == 1
        assert shown in text
        assert "\x1b" not in text
        assert "\n::error::" not in text
    both = toyspec_within("check", "--expect", "golden.json", "a", "b", cwd=tmp_path)
    assert (1, True) == (both.returncode, b"a/events.jsonl is as expected" in both.stdout)
    assert b"b/events.jsonl is not as expected" in both.stdout
    answer = json.loads(toyspec_within("expect", "check", "--json", "b", "golden.json", cwd=tmp_path).stdout)
    assert answer["status"] == "differs"
    assert toyspec_within("expect", "check", "b", cwd=tmp_path).returncode == 2
    assert toyspec_within("expect", "write", cwd=tmp_path).returncode == 2
