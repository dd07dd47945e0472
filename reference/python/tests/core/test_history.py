"""``history``: every value of a run as a table."""

from __future__ import annotations

import json
import math
from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toyspec
from fixed_runs import fixed_runs
from property_examples import examples
from toyspec import history
from toyspec.core.runs.history import History, table_library
from toyspec.core.runs.run_facts import finite
from toyspec.core.runs.summary import summarize_run


@pytest.mark.parametrize("engine", ["python", ""])
def test_what_was_logged_together_is_in_one_row(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of several calls at one step are not mixed, and stay in their order, also over a metric that counts."""
    monkeypatch.setenv("TOYSPEC_ENGINE", engine)
    with toyspec.start_run(tmp_path, run_id="a", git=None) as writer:
        writer.step(1, loss=1.0)
        writer.log({"return": 5.0, "frames": 8, "won": "yes"})
        writer.log({"kl": 0.25, "frames": 9})
        writer.log({"return": 6.0, "frames": 10, "won": "no"})
        writer.log({"kl": 0.5})
        writer.step(2, loss=0.5)
    table = toyspec.history(tmp_path / "a")
    assert [1.0, None, None, 0.5] == table["loss"]
    assert [5.0, None, 6.0, None] == table["return"]
    assert [None, 0.25, 0.5, None] == table["kl"]
    assert ["yes", None, "no", None] == table["won"]
    assert {"step": [1, 1, 1], "frames": [8.0, 9.0, 10.0], "kl": [None, 0.25, 0.5]} == dict(
        toyspec.history(tmp_path / "a", ["frames", "kl"])
    )


@pytest.mark.parametrize("engine", ["python", ""])
def test_infinities_are_kept_among_many_steps(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of numbers do not turn an infinity into NaN."""
    monkeypatch.setenv("TOYSPEC_ENGINE", engine)
    with toyspec.start_run(tmp_path, run_id="a", git=None) as writer:
        for step in range(1, 3000):
            writer.step(step, loss=-math.inf if step == 2000 else math.nan if step == 2001 else 1.0)
    loss = toyspec.history(tmp_path / "a")["loss"]
    assert [1.0, -math.inf, 1.0] == [loss[1998], loss[1999], loss[2001]]
    assert isinstance(loss[2000], float)
    assert math.isnan(loss[2000])


@pytest.mark.parametrize("engine", ["python", ""])
@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from([0.5, 1.0, 2.0, -4.0, None])), min_size=1, max_size=20))
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_are_in_the_order_of_steps(tmp_path: Path, engine: str, points: list[tuple[int, float | None]]) -> None:
    """Values of a repeated step are in the order of the log, and one that is not finite is there as NaN."""
    path = tmp_path / "events.jsonl"
    events: list[dict[str, Any]] = [{"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}]
    for at, (step, value) in enumerate(points, 1):
        events.append({"kind": "scalars", "t": float(at), "step": step, "values": {"acc": value}})
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOYSPEC_ENGINE", engine)
        table = history(path, ["acc"])
    found = [(step, finite(value)) for step, value in zip(table["step"], table["acc"], strict=True)]
    assert sorted(points, key=itemgetter(0)) == found


def test_metric_that_is_called_step_is_not_lost(tmp_path: Path) -> None:
    """Columns of the same name have a prefix."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as writer:
        writer.log({"step": 7.0, "who": 1.0}, step=1)
        writer.log({"who": "Ada"}, step=1)
    table = toyspec.history(tmp_path / "a")
    assert {"step": [1], "values/step": [7.0], "who": [1.0], "texts/who": ["Ada"]} == dict(table)


def test_an_epoch_that_was_logged_as_a_value_is_an_epoch(tmp_path: Path) -> None:
    """Most programs log it so; where records have an epoch of their own, the value has another name."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as writer:
        writer.log({"epoch": 0.5, "loss": 2.0})
        writer.log({"epoch": 1.0, "loss": 1.0})
    found = dict(toyspec.history(tmp_path / "a", ["epoch", "loss"]))
    assert {"step": [1, 2], "epoch": [0.5, 1.0], "loss": [2.0, 1.0]} == found
    with toyspec.start_run(tmp_path, run_id="b", git=None) as writer:
        writer.log({"epoch": 7.0, "loss": 1.0}, epoch=2.0)
    expected = {"step": [1], "epoch": [2.0], "values/epoch": [7.0], "loss": [1.0]}
    assert expected == dict(toyspec.history(tmp_path / "b", ["epoch", "loss"]))


def test_frames_have_the_same_cells() -> None:
    """pandas, Polars and NumPy get every column."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = toyspec.history(fixed_runs("more/rich"))
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(table) == list(frame.columns)
    assert [cell is None for cell in table["val/acc"]] == frame["val/acc"].isna().tolist()
    assert "int64" == str(frame["step"].dtype)
    assert table["mode"] == polars.DataFrame(dict(table), strict=False)["mode"].to_list()
    assert table["loss"][:3] == table.to_numpy()["loss"][:3].tolist()


def test_empty_run_has_an_empty_table(tmp_path: Path) -> None:
    """A run that logged nothing raises nothing."""
    toyspec.start_run(tmp_path, run_id="a", git=None).close()
    table = toyspec.history(tmp_path / "a")
    assert isinstance(table, History)
    assert {"step": []} == dict(table)
    assert 0 == table.rows


def test_history_names_its_columns_and_what_it_lacks() -> None:
    """Names of the log are inert, and what is in no cell is counted."""
    columns: dict[str, list[Any]] = {"step": [1, 2], "loss": [1 / 3, None], "a\n\x1b": ["b", None]}
    assert repr(History(columns)) == "2 rows of step, loss, a\\x0a\\x1b"
    missing = {"left_out": Counter(a=2), "dropped": Counter(step=3)}
    assert repr(History({"step": []}, 7, missing)) == (
        "0 rows of step; 7 bytes of the log cannot be read; 2 values were left out of the log; "
        "3 records were not written"
    )


def test_table_of_a_library_that_is_missing_says_how_to_install_it() -> None:
    """A table of a library is that of its module, and needs it."""
    assert table_library("json") is json
    with pytest.raises(ImportError, match=r"this table needs no_such_library: python -m pip install no_such_library$"):
        table_library("no_such_library")


def test_step_that_no_array_has_is_in_the_history(tmp_path: Path) -> None:
    """Steps of other programs may be fractions, and those before them stay."""
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n1,0.5\n2,0.25\n2.5,0.125\n3,1.5\n", encoding="utf-8")
    table = toyspec.history(path)
    assert ([1, 2, 2.5, 3], [0.5, 0.25, 0.125, 1.5]) == (list(table["step"]), list(table["loss"]))
    assert (3, 1.5) == summarize_run(str(path)).series["loss"].last
