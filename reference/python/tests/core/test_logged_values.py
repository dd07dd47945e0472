"""What ``run.log`` makes of nested mappings: one name for each value, and nothing lost without a word."""

import dataclasses
import datetime as dt
import enum
import math
from collections import OrderedDict, defaultdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from toyspec import RunWriter, history, read, start_run


def logged(path: Path, *values: Any) -> list[dict[str, Any]]:
    """Return the values of the records that ``log`` writes for each of *values*."""
    with RunWriter(path / "run") as run:
        run.run_start()
        for each in values:
            run.log(each)
    return [record.value["values"] for record in read(path / "run") if record.kind == "scalars"]


def test_later_of_two_values_with_one_name_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Readers take the last value of a repeated key, so the writer does too, and reports it once for a run."""
    twice: dict[str, Any] = {"a/b": 1, "a": {"b": 2}}
    assert [{"a/b": 2.0}, {"a/b": 1.0}, {"c": 3.0}] == logged(
        tmp_path, twice, dict(reversed(twice.items())), {"c": 3.0}
    )
    (line, total) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "run/events.jsonl: a/b of scalars is left out, and all else is written: two values of one record "
        "have this name, and the later one is written; rename one of them (reported once)"
    )
    assert total.endswith("2 values were left out in total (a/b 2)")


def test_names_that_differ_are_not_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nested values with names of their own are all written, without a word."""
    assert [{"a/b": 1.0, "a/c/d": 2.0, "b": 3.0}] == logged(tmp_path, {"a": {"b": 1, "c": {"d": 2}}, "b": 3})
    assert "" == capsys.readouterr().err


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda members: defaultdict(float, members), MappingProxyType])
def test_any_mapping_may_be_nested(tmp_path: Path, kind: Any) -> None:
    """Counters and read-only mappings are written as dicts are, with keys of any type."""
    assert [{"layer/0": 0.5, "layer/1": 0.25}] == logged(tmp_path, {"layer": kind({0: 0.5, 1: 0.25})})


def test_mapping_without_members_has_no_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An evaluation without results does not cost the other values of the record."""
    assert [{"loss": 1.0}] == logged(tmp_path, {"eval": {}, "loss": 1})
    assert "" == capsys.readouterr().err


def test_mapping_that_holds_itself_ends_somewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is too deep is data, not metrics; the values above it are written."""
    endless: dict[str, Any] = {"loss": 1}
    endless["again"] = endless
    (found,) = logged(tmp_path, endless)
    assert [f"{'again/' * depth}loss" for depth in reversed(range(9))] == list(found)
    assert "nested in more than 8 mappings" in capsys.readouterr().err


@pytest.mark.parametrize("values", [5, [("a", 1)], "loss"])
def test_values_without_names_are_refused(tmp_path: Path, values: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """No empty record is written; the message has the argument, the value, and what to pass; what is named is kept."""
    with start_run(tmp_path, run_id="a") as run:
        run.log(values)
        run.log(values, acc=0.5)
        assert (1, {"values": 1}) == (run.dropped, run.left_out)
    assert [{"acc": 0.5}] == [record["values"] for record in read(run.directory) if record.kind == "scalars"]
    said = capsys.readouterr().err
    assert f"values must be a mapping, got {type(values).__name__} {values!r}; pass names with their values" in said


def test_values_of_a_step_by_other_names_are_members_of_extra(tmp_path: Path) -> None:
    """What people write is what they get, beside extra, with what cannot be a number left out alone."""
    with start_run(tmp_path, run_id="a") as run:
        odd: Any = object()
        run.step(5, loss=1, acc=0.5, extra={"mfu": 0.3}, done=True, odd=odd)
    (step,) = [record for record in read(run.directory) if record.kind == "step"]
    assert ({"acc": 0.5, "done": 1.0, "mfu": 0.3}, 1.0) == (step["extra"], step["loss"])
    assert {"extra/odd": 1} == run.left_out


def test_extra_without_names_is_left_out_alone(tmp_path: Path) -> None:
    """What has names beside it is kept, and what has none is counted."""
    with start_run(tmp_path, run_id="a") as run:
        odd: Any = 5
        run.step(1, loss=1.0, extra=odd, acc=0.5)
    (step,) = [record for record in read(run.directory) if record.kind == "step"]
    assert ({"acc": 0.5}, {"extra": 1}) == (step["extra"], run.left_out)


@pytest.mark.parametrize(
    ("step", "kept"), [("x", "x"), (2.5, 2.5), (-3, -3.0), (True, 1.0), ([5], "[5]"), (float("inf"), float("inf"))]
)
def test_a_step_that_is_not_a_number_costs_no_value(
    tmp_path: Path, step: Any, kept: float | str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The values are where they are without a step, each at one of its own; what was passed is kept, and counted."""
    with start_run(tmp_path, run_id="a") as run:
        run.log(acc=0.5, step=4)
        run.log(acc=0.6, step=step)
        run.log(acc=0.7, step=step)
        assert (0, {"step": 2}) == (run.dropped, run.left_out)
    found = history(run.directory)
    assert ([4, 5, 6], [0.5, 0.6, 0.7]) == (found["step"], found["acc"])
    assert [None, kept, kept] == found["given_step"]
    (line, total) = capsys.readouterr().err.splitlines()
    assert f"step of scalars is left out, and all else is written: it must be an integer ≥ 0, got {kind(step)}" in line
    assert "2 values were left out in total (step 2)" in total


def kind(value: Any) -> str:
    """Return the name of the type of *value*."""
    return type(value).__name__


@pytest.mark.parametrize("step", [7, "7", 7.0])
def test_a_whole_number_of_any_type_is_a_step(tmp_path: Path, step: Any) -> None:
    """A step that comes from a command line or from the name of a checkpoint is a text."""
    with start_run(tmp_path, run_id="a") as run:
        run.log(acc=0.5, step=step)
        run.step(step, loss=1.0)
    assert [7, 7] == [record["step"] for record in read(run.directory) if record.kind in {"scalars", "step"}]
    assert {} == run.left_out


def test_a_step_record_whose_number_is_none_is_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loss is not lost: the record is the next step, and what was passed is counted and said once."""
    with start_run(tmp_path, run_id="a") as run:
        run.step(4, loss=1.0)
        for step in (-3, -4, "x"):
            wrong: Any = step
            run.step(wrong, loss=2.0, extra={"acc": 0.5})
        assert (0, {"step": 3}) == (run.dropped, run.left_out)
    found = history(run.directory)
    assert ([4, 5, 6, 7], [1.0, 2.0, 2.0, 2.0]) == (found["step"], found["loss"])
    assert [None, -3.0, -4.0, None] == found["given_step"]
    assert [None, None, None, "x"] == found["texts/given_step"]
    said = capsys.readouterr().err
    assert "got int -3.0" in said
    assert "got int -4" not in said


@dataclasses.dataclass
class Scores:
    """What an evaluation returns."""

    acc: float
    worst: Path


class Split(enum.Enum):
    """What a program calls its data."""

    TEST = "test"
    THIRD = 3


class Range(NamedTuple):
    """What an evaluation returns as well."""

    low: float
    high: float


def test_what_has_a_name_or_fields_is_written(tmp_path: Path) -> None:
    """Paths, dates and members of enumerations are texts, and the fields of a dataclass or a named tuple are values."""
    with start_run(tmp_path, run_id="a") as run:
        scores: dict[str, Any] = {"scores": Scores(0.5, Path("x/y")), "range": Range(1.0, 2.0)}
        run.log({"split": Split.TEST, "third": Split.THIRD, "at": dt.date(2026, 5, 31), **scores}, step=1)
        run.step(2, loss=1.0, took=dt.timedelta(seconds=3), path=Path("ckpt"))
    found = {name: list(cells) for name, cells in history(run.directory).items()}
    assert {
        "step": [1, 2],
        "split": ["test", None],
        "third": [3.0, None],
        "at": ["2026-05-31", None],
        "scores/acc": [0.5, None],
        "scores/worst": ["x/y", None],
        "range/low": [1.0, None],
        "range/high": [2.0, None],
        "loss": [None, 1.0],
        "took": [None, "0:00:03"],
        "path": [None, "ckpt"],
    } == found
    assert {} == run.left_out


def test_a_count_that_is_a_fraction_keeps_its_name_and_value(tmp_path: Path) -> None:
    """Times that a clock gives are fractions: they are written in extra, where readers find them by the same name."""
    with start_run(tmp_path, run_id="a") as run:
        fraction: Any = 12.75
        run.step(1, loss=1.0, compute_us=fraction, tokens=-1)
        run.step(2, loss=1.0, compute_us=13, wall_us=math.nan)  # type: ignore[arg-type]
        run.eval("test", step=2, samples=fraction)
        both: Any = {"tokens": 5}
        run.step(3, tokens=fraction, extra=both)
    found = history(run.directory)
    assert [12.75, 13.0, None] == found["compute_us"]
    assert [-1.0, None, 5.0] == found["tokens"]
    assert [None, 12.75, None] == found["test/samples"]
    assert math.isnan(float(found["wall_us"][1] or 0))
    assert {"tokens": 1} == run.left_out


def test_what_a_mask_hides_is_null(tmp_path: Path) -> None:
    """The mean of nothing but masked numbers is not 0."""
    numpy = pytest.importorskip("numpy")
    hidden = numpy.ma.array([1.0, 2.0], mask=[True, True])
    with start_run(tmp_path, run_id="a") as run:
        run.log({"mean": hidden.mean(), "first": numpy.ma.array(1.5, mask=True), "known": numpy.ma.array(2.5)})
    (values,) = [record["values"] for record in read(run.directory) if record.kind == "scalars"]
    assert {"first": None, "known": 2.5, "mean": None} == values
