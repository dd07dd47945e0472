from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toyspec
from toyspec.core.errors import ExpressionError
from toyspec.core.runs.columns import meets
from toyspec.core.runs.expressions import expression
from toyspec.view.rows import facts_of_row

if TYPE_CHECKING:
    from collections.abc import Callable


def write(root: Path, name: str, *losses: float, **config: Any) -> None:
    """Write a complete run of toy/v1."""
    with toyspec.start_run(root, run_id=name, arch="mlp", config=config, git=None) as run:
        for loss in losses:
            run.step(loss=loss)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with three runs in two depths, a damaged one, and a file of another format."""
    write(tmp_path, "a", 3.0, 2.0, lr=0.1, opt="adam")
    write(tmp_path / "sweep", "b", 3.0, 1.0, lr=0.2)
    write(tmp_path, "c", lr=0.3)
    stream = tmp_path / "a" / "events.jsonl"
    stream.write_bytes(stream.read_bytes().replace(b'"step":1', b'"step:1', 1))
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat" / "events.jsonl").write_text('{"type":"user","message":"hi"}\n')
    return tmp_path


def names(runs: toyspec.Runs) -> list[str]:
    """Return the names of runs in their order."""
    return [run.facts.run for run in runs]


def test_runs_are_listed_lowest_loss_first(root: Path) -> None:
    """Damage does not hide a run, runs without a value come last whichever way round, and other files are counted."""
    runs = toyspec.list_runs(root)
    assert ["b", "a", "c"] == names(runs)
    assert ["complete", "damaged", "complete"] == [run.facts.state for run in runs]
    assert ((), 1) == (runs.errors, runs.skipped)
    assert ["a", "b", "c"] == names(runs.sort("final_loss", reverse=True))
    assert ["a", "b", "c"] == names(runs.sort("config.lr"))
    assert ["c", "b", "a"] == names(runs.sort("config.lr", reverse=True))


def test_a_run_that_cannot_be_read_does_not_stop_the_others(root: Path) -> None:
    """It is among the errors."""
    (root / "bad").mkdir()
    (root / "bad" / "events.jsonl.gz").write_bytes(b"\x1f\x8b" + bytes(30))
    runs = toyspec.list_runs(root)
    assert ["b", "a", "c"] == names(runs)
    assert [str(root / "bad" / "events.jsonl.gz")] == [error.path for error in runs.errors]
    assert ["no such"] == [error.message[:7].lower() for error in toyspec.list_runs(root / "nothing").errors]


def test_rows_have_the_same_columns(root: Path) -> None:
    """What one run lacks is None; settings and last values are columns, also where runs differ in their type."""
    rows = toyspec.list_runs(root, read="whole").rows()
    assert 1 == len({tuple(row) for row in rows})
    assert [("b", 0.2, None, 1.0), ("a", 0.1, "adam", 2.0), ("c", 0.3, None, None)] == [
        (row["run"], row["config.lr"], row["config.opt"], row["last.loss"]) for row in rows
    ]
    pytest.importorskip("pandas")
    write(root, "d", lr="fast")
    runs = toyspec.list_runs(root)
    table = runs.to_pandas()
    assert (4, list(runs.rows()[0])) == (len(table), list(table.columns))


def test_runs_show_themselves_without_trusting_the_log(root: Path) -> None:
    """As text, in which names from a log are escaped."""
    start = {"kind": "run_start", "t": 0.0, "run_id": "x"}
    end = {"kind": "run_end", "t": 1.0, "reason": "<script>\x1b[31m"}
    (root / "evil").mkdir()
    (root / "evil" / "events.jsonl").write_text(f"{json.dumps(start)}\n{json.dumps(end)}\n")
    runs = toyspec.list_runs(root)
    assert repr(runs).startswith("4 runs\nRun(")
    assert "\x1b" not in repr(runs)
    assert "2 runs" == repr(runs[:2]).partition("\n")[0]


@pytest.fixture(params=["ends", "whole"])
def accurate(tmp_path: Path, request: pytest.FixtureRequest) -> toyspec.Runs:
    """Return three runs with a metric that is better when it is larger."""
    for name, lr, values in (("a", 0.03, (0.1, 0.9, 0.5)), ("b", 0.01, (0.2, 0.4, 0.7)), ("c", 0.1, (0.3, 0.3, 0.2))):
        with toyspec.start_run(tmp_path, run_id=name, config={"optim": {"lr": lr}}, git=None) as run:
            run.define("val/acc", goal="max")
            for step, value in enumerate(values):
                run.log({"val/acc": value}, step=step)
    return toyspec.list_runs(tmp_path, read=request.param)


def test_names_and_goals_are_those_of_ls(accurate: toyspec.Runs) -> None:
    """A metric is ranked by its goal, and settings are found without a prefix, however much of the runs was read."""
    assert ["b", "a", "c"] == names(accurate.sort("val/acc"))
    assert ["c", "a", "b"] == names(accurate.sort("val/acc", reverse=True))
    best = {field: accurate.best(field) for field in ("val/acc", "best.val/acc", "last.val/acc", "optim.lr", "lr")}
    assert {"val/acc": "b", "best.val/acc": "a", "last.val/acc": "b", "optim.lr": "b", "lr": "b"} == {
        field: run and run.facts.run for field, run in best.items()
    }
    worst = accurate.best("best.val/acc", goal="min")
    assert worst is not None
    assert worst.facts.run == "c"
    assert ["a"] == names(accurate.filter("optim.lr = 0.03"))
    assert ["a"] == names(accurate.filter("lr = 0.03 and best.val/acc = 0.9"))
    assert ["b"] == names(accurate.filter("val/acc > .5 and lr < .02"))


def test_metric_of_a_long_run_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    """Of a long stream only the ends are read first, where the metric may not be."""
    for name, value in (("a", 0.5), ("b", 0.75)):
        with toyspec.start_run(tmp_path, run_id=name, git=None) as run:
            run.log({"val/acc": value}, step=0)
            for step in range(25_000):
                run.step(loss=2.0, step=step + 1)
    runs = toyspec.list_runs(tmp_path)
    assert [("ends", None, None)] * 2 == [(run.facts.read, run.facts.records, run.facts.metrics) for run in runs]
    assert [0.5, 0.75] == sorted(run.metrics["val/acc"].last or 0.0 for run in runs)
    assert ["b"] == names(runs.filter("val/acc > .6"))
    assert [0.75] == [run.row()["last.val/acc"] for run in runs.filter("val/acc > .6")]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lrr", "'lr'"),
        ("end", "'reason'"),
        ("Ω", "facts such as"),
    ],
)
def test_unknown_name_is_an_error_that_suggests(accurate: toyspec.Runs, name: str, meant: str) -> None:
    """In filters, orders and goals; without runs nothing is unknown."""
    asked: list[Callable[[toyspec.Runs], object]] = [
        lambda runs: runs.filter(f"{name} = 3"),
        lambda runs: runs.sort(name),
        lambda runs: runs.best(name),
    ]
    for ask in asked:
        with pytest.raises(toyspec.ExpressionError, match=f"no run has a field '{name}'; .*{meant}"):
            ask(accurate)
        ask(accurate[:0])


VECTORS: dict[str, Any] = json.loads(Path(__file__).parents[1].joinpath("expressions.json").read_bytes())
FACTS = facts_of_row(VECTORS["run"])


def holds(text: str) -> bool:
    """Return whether the run of the vectors meets *text*."""
    return meets(FACTS, [expression(text)])


def test_filters_are_those_of_the_viewer() -> None:
    """What the viewer accepts is accepted here too, and what it leaves out is left out."""
    assert VECTORS["met"] == [text for text in [*VECTORS["met"], *VECTORS["not_met"]] if holds(text)]


def test_every_word_for_the_end_of_a_run_can_be_filtered() -> None:
    """A run is called by its end, and found by each word of that, and by the state of its log."""
    for state, ended, profile, reason, text in VECTORS["states"]:
        facts = facts_of_row(VECTORS["run"] | {"state": state, "ended": ended, "profile": profile, "reason": reason})
        assert text == facts.state_text
        assert all(meets(facts, [expression(f'state = "{word}"')]) for word in [*text.split(", "), state])


@pytest.mark.parametrize(("text", "at"), VECTORS["refused"], ids=lambda value: str(value)[:12])
def test_a_filter_that_cannot_be_read_is_refused_with_the_place(text: str, at: int) -> None:
    """The place is the one that the viewer names, and the message counts it from 1."""
    with pytest.raises(ExpressionError, match=rf"\(at character {at + 1}\)$") as caught:
        expression(text)
    assert at == caught.value.at


@given(st.text(alphabet="ab .<>=!~()'\"0e-5%andort", max_size=30))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    """Nothing but ExpressionError is raised, and a filter that was read gives an answer."""
    with contextlib.suppress(ExpressionError):
        assert holds(text) in (True, False)


def test_fields_of_a_filter_are_those_it_compares() -> None:
    """Words alone are not fields; what is not known needs no reading of whole streams."""
    assert ("lr", "val/acc") == tuple(expression("llama lr < 1 and not (val/acc > .7 or lr = 2)").fields)
