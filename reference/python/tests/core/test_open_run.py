"""Tests of one run as a value: what it comes to, its settings and metrics, and its records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

import toyspec
from toyspec.core.command_line.main import main
from toyspec.core.runs.run_facts import RunFacts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with two runs, the second of which is better in one metric and worse in its loss."""
    for name, loss, acc in (("a", 1.0, 0.25), ("b", 2.0, 0.75)):
        config = {"optim": {"lr": loss / 10}}
        with toyspec.start_run(tmp_path, run_id=name, config=config, model={"layers": 2}, git=None) as run:
            run.define("val/acc", goal="max")
            run.step(loss=loss)
            run.log({"val/acc": acc})
    return tmp_path


def test_best_of_a_metric_without_a_goal_is_asked_for(tmp_path: Path) -> None:
    """The smallest accuracy is not the best run: what neither the log nor the name says is not guessed."""
    for name, acc in (("a", 0.25), ("b", 0.75)):
        with toyspec.start_run(tmp_path, run_id=name, git=None) as run:
            run.log({"val/acc": acc, "val/loss": 1 - acc}, step=1)
    runs = toyspec.list_runs(tmp_path)
    for field in ("val/acc", "last.val/acc"):
        with pytest.raises(toyspec.ExpressionError, match=r"run\.define\('val/acc', goal='max'\)"):
            runs.best(field)
    found = [runs.best("val/acc", goal="max"), runs.best("val/loss"), runs.best("records")]
    assert ["b", "b", "a"] == [each and each.facts.run for each in found]


def test_a_run_is_one_value(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is opened, listed whole, and read from a catalog has the same facts, which are its row of JSON.

    What is guessed works: the best run by a metric has its configuration, records and history.
    """
    toyspec.build_catalog(runs, out=runs / "catalog")
    opened = toyspec.open_run(runs / "a").facts
    (listed, _), (kept, _) = toyspec.list_runs(runs, read="whole"), toyspec.Catalog(runs / "catalog").runs()
    assert opened == listed.facts == msgspec.structs.replace(kept.facts, findings=None)
    assert 0 == main(["ls", "--full", "--json", str(runs)])
    row, _ = json.loads(capsys.readouterr().out)
    assert opened == msgspec.convert(row, RunFacts)
    found = toyspec.list_runs(runs).best("val/acc")
    assert found is not None
    assert {"optim": {"lr": 0.2}} == found.config
    first, *_, last = found.records()
    assert ("run_start", "run_end") == (first.kind, last.kind)
    assert [2.0] == [value for value in found.history("loss")["loss"] if value == value]  # noqa: PLR0124 - NaN
