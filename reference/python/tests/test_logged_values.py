"""What ``run.log`` makes of nested mappings: one name for each value, and nothing lost without a word."""

from collections import OrderedDict, defaultdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from toyspec import RunWriter, read, start_run


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


def test_the_message_about_a_wrong_step_has_the_step_and_comes_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The value that was found is named; more values of the same kind are counted, and not reported again."""
    with start_run(tmp_path, run_id="a") as run:
        for step in (-3, -4, -5):
            run.step(step, loss=1.0)
        assert 3 == run.dropped
    said = capsys.readouterr().err
    assert "which is -3" in said
    assert "which is -4" not in said
