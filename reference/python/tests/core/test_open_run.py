"""Tests of one run as a value: what it comes to, its settings and metrics, and its records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import toyspec
from toyspec.core.command_line.main import main
from toyspec.core.errors import UnknownFormatError
from toyspec.core.runs.run_facts import RunFacts

if TYPE_CHECKING:
    from pathlib import Path

    from toyspec.core.reading.records import Record


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


def test_the_best_run_has_its_settings_and_metrics(runs: Path) -> None:
    """What is guessed works: the best run by a metric has its configuration, facts, metrics, records and history."""
    found = toyspec.list_runs(runs).best("val/acc")
    assert found is not None
    assert {"optim": {"lr": 0.2}} == found.config
    assert ("b", 2.0, {"optim.lr": 0.2, "model.layers": 2}) == (
        found.facts.name,
        found.facts.final_loss,
        found.facts.settings,
    )
    assert (0.75, 0.75, "max", 1) == tuple(
        getattr(found.metrics["val/acc"], name) for name in ("last", "best", "goal", "count")
    )
    kinds = [record.kind for record in found.records()]
    assert ("run_start", "run_end") == (kinds[0], kinds[-1])
    assert [2.0] == [value for value in found.history("loss")["loss"] if value == value]  # noqa: PLR0124 - NaN
    assert "complete" == found.records().report.state


def test_a_run_is_one_value(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is opened, listed whole, and read from a catalog has the same facts, which are its row of JSON."""
    toyspec.build_catalog(runs, out=runs / "catalog")
    opened = toyspec.open_run(runs / "a").facts
    (listed, _), (kept, _) = toyspec.list_runs(runs, read="whole"), toyspec.Catalog(runs / "catalog").runs()
    assert opened == listed.facts == msgspec.structs.replace(kept.facts, findings=None)
    assert 0 == main(["ls", "--full", "--json", str(runs)])
    row, _ = json.loads(capsys.readouterr().out)
    assert opened == msgspec.convert(row, RunFacts)


def test_a_loss_that_was_only_logged_is_the_final_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without steps and without an end has the loss that it logged, in a list, opened, and whole."""
    run = toyspec.start_run(tmp_path, run_id="a", git=None)
    for step, loss in enumerate((2.5, 1.8)):
        run.log({"train_loss": loss}, step=step)
    run.abandon()
    (listed,) = toyspec.list_runs(tmp_path)
    assert 1.8 == listed.facts.final_loss == toyspec.open_run(run.directory).facts.final_loss
    assert 0 == main(["ls", "--json", str(tmp_path)])
    assert [1.8] == [each["final_loss"] for each in json.loads(capsys.readouterr().out)]


def test_settings_of_resumptions_count(runs: Path) -> None:
    """The later value of a setting is the one that counts, nested and flat."""
    with toyspec.start_run(runs, run_id="a", exist="resume", config={"optim": {"lr": 0.5}, "seed": 3}) as run:
        run.step(loss=0.5)
    found = toyspec.open_run(runs / "a")
    assert ({"optim": {"lr": 0.5}, "seed": 3}, 0.5) == (found.config, (found.facts.settings or {})["optim.lr"])


@pytest.mark.parametrize("tail", [b"", b'{"kind":"st', b"x\n"])
def test_a_run_that_is_not_whole_is_a_run(runs: Path, tail: bytes) -> None:
    """Torn and damaged runs are opened with what can be read of them."""
    path = runs / "a" / "events.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]) + tail)
    found = toyspec.open_run(path)
    records: list[Record] = list(found.records())
    assert ("damaged" if tail.endswith(b"\n") else "torn", 1.0) == (found.facts.state, found.facts.final_loss)
    assert len(records) == found.facts.records == found.records().report.records


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    """A file of another format, and a path without one, are errors that name them."""
    other: dict[str, Any] = {"a": 1}
    (tmp_path / "other.json").write_text(json.dumps(other))
    with pytest.raises(UnknownFormatError):
        toyspec.open_run(tmp_path / "other.json")
