"""Each kind of value, by each way into a log: every reader has it, or says that the log does not."""

from __future__ import annotations

import contextlib
import io
import json
import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import toyspec
from command_line import toyspec_within as command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Found(NamedTuple):
    """What becomes of a value: cells by what follows its name, or what follows the name that is counted as left out."""

    numbers: Mapping[str, float] = MappingProxyType({})
    texts: Mapping[str, str] = MappingProxyType({})
    left_out: str | None = None


class Attached:
    """A tensor that is part of a graph, of which PyTorch would warn."""

    requires_grad = True

    def detach(self) -> Any:
        """Return the number."""
        return np.float32(0.5)


NAN, INF = math.nan, math.inf
LEFT_OUT = Found(left_out="")
LONG = [0.5] * 257
LONG_TEXT = "[" + ",".join(["0.5"] * 257) + "]"
# A value; what is found of it where only numbers and texts can be written; and in the extra of an evaluation.
VALUES: dict[str, tuple[Any, Found, Found | None]] = {
    "number": (2.5, Found({"": 2.5}), None),
    "integer": (7, Found({"": 7.0}), None),
    "wide number": (2**60 + 1, Found({"": float(2**60)}), Found({"": 2**60 + 1})),
    "number beyond binary64": (10**400, Found({"": INF}), LEFT_OUT),
    "true": (True, Found({"": 1.0}), None),
    "false": (False, Found({"": 0.0}), None),
    "null": (None, Found({"": NAN}), None),
    "nan": (NAN, Found({"": NAN}), None),
    "infinity": (-INF, Found({"": -INF}), None),
    "text": ("high", Found(texts={"": "high"}), None),
    "object": ({"a": 1, "b": {"c": True, "d": "t"}}, Found({"/a": 1.0, "/b/c": 1.0}, {"/b/d": "t"}), None),
    "list of numbers": ([1, 2.5, True, None], LEFT_OUT, Found({"/0": 1.0, "/1": 2.5, "/2": 1.0, "/3": NAN})),
    "list in an object": ({"a": [1, -INF]}, Found({"/a/0": 1.0, "/a/1": -INF}), None),
    "list of texts": (["a", "b"], LEFT_OUT, Found(texts={"": '["a","b"]'})),
    "list of both": ([1, {"a": NAN}], LEFT_OUT, Found(texts={"": '[1,{"a":NaN}]'})),
    "long list": (LONG, LEFT_OUT, Found(texts={"": LONG_TEXT})),
    "empty list": ([], LEFT_OUT, Found(texts={"": "[]"})),
    "value of the program": (object(), LEFT_OUT, None),
    "tensor of a graph": (Attached(), Found({"": 0.5}), None),
}
DOORS: dict[str, tuple[Callable[[toyspec.RunWriter, Any], object], str, str]] = {
    "step extra": (lambda run, value: run.step(1, loss=0.5, extra={"x": value}), "x", "extra/x"),
    "keyword of a step": (lambda run, value: run.step(1, loss=0.5, x=value), "x", "extra/x"),
    "log": (lambda run, value: run.log({"x": value}, step=1), "x", "x"),
    "loss of a step": (lambda run, value: run.step(1, loss=value), "loss", "loss"),
    "extra of an evaluation": (lambda run, value: run.eval("val", step=1, extra={"x": value}), "val/x", "extra/x"),
}


def said(*arguments: str) -> str:
    """Return what a command prints."""
    done = command(*arguments)
    assert done.returncode in (0, 1)
    return done.stdout.decode()


def same(one: Any, other: Any) -> bool:
    """Return whether two numbers are the same, as a float has them; NaN is NaN."""
    return other is not None and repr(float(one)) == repr(float(other))


def finite(value: float) -> float | None:
    """Return a number as JSON and a list of runs have it."""
    return float(value) if math.isfinite(value) else None


def id_of(kind: str, door: str) -> str:
    """Return the id of the run of a value and a way into a log."""
    return f"{door}.{kind}".replace(" ", "-")


class Written(NamedTuple):
    """A run for each value and way into a log, and what lists and a catalog say of each, by its id."""

    folder: Path
    listed: dict[str, dict[str, Any]]
    kept: dict[str, dict[str, Any]]

    def path(self, kind: str, door: str) -> str:
        """Return the path of the run of a value."""
        return str(self.folder / "runs" / id_of(kind, door))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Write all runs."""
    folder = tmp_path_factory.mktemp("written")
    for door, (write, _, _) in DOORS.items():
        for kind, (value, _, _) in VALUES.items():
            with (
                contextlib.redirect_stderr(io.StringIO()),
                toyspec.start_run(folder / "runs", run_id=id_of(kind, door), git=None) as run,
            ):
                write(run, value)
    toyspec.build_catalog(folder / "runs", out=folder / "catalog")
    rows = [each.row() for each in toyspec.list_runs(folder / "runs")]
    kept = [each.row() for each in toyspec.Catalog(folder / "catalog").runs()]
    return Written(folder, {row["run_id"]: row for row in rows}, {row["run_id"]: row for row in kept})


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", VALUES)
def test_a_value_is_found_by_every_reader(written: Written, kind: str, door: str) -> None:
    """Tables, summaries, lists, catalogs, comparisons and exports have it, or the log says that it was left out."""
    value, plain, result = VALUES[kind]
    _, name, written_as = DOORS[door]
    expected = result if result is not None and door == "extra of an evaluation" else plain
    if door == "loss of a step" and value is None:
        # A step without a loss.
        expected = Found()
    elif door == "loss of a step" and isinstance(value, dict):
        # The parts of a loss have room there.
        written_as = "extra/loss"
    path = written.path(kind, door)
    rows = [rows[id_of(kind, door)] for rows in (written.listed, written.kept)]
    check_numbers(path, {name + rest: each for rest, each in expected.numbers.items()}, rows)
    check_texts(path, {name + rest: text for rest, text in expected.texts.items()}, door)
    left_out = {} if expected.left_out is None else {written_as + expected.left_out: 1}
    assert left_out == toyspec.history(path).missing["left_out"]
    assert all(f" 1 {name} " in f"{' '.join(said('show', path).split())} " for name in left_out)
    assert bool(left_out) == ("values-left-out" in {each.rule for each in toyspec.check(path).files[0].findings})


def check_numbers(path: str, numbers: dict[str, float], listed: list[dict[str, Any]]) -> None:
    """Find *numbers* in each place where a metric is; *listed* is the row of the run in each list."""
    table = toyspec.history(path)
    wide, columns = json.loads(said("show", path, "--json"))["metrics"], table.to_numpy()
    found = {name for name in table if name not in ("step", "loss") and not isinstance(table[name][-1], str)}
    assert found - {"loss"} == numbers.keys() - {"loss"}
    for name, number in numbers.items():
        assert [repr(number)] == [repr(each) for each in table[name] if each is not None], name
        assert any(same(number, each) for each in columns[name]), name
        assert (1, finite(number)) == (wide[name]["count"], wide[name].get("last")), name
        assert [finite(number)] * 2 == [row[f"last.{name}"] for row in listed], name


def check_texts(path: str, texts: dict[str, str], door: str) -> None:
    """Find *texts* in tables and in what ``show`` lists."""
    table = toyspec.history(path)
    shown = said("show", path)
    for name, text in texts.items():
        # A loss that is a text is beside the metric of this name.
        assert text in (table[name][-1], table.get(f"texts/{name}", [None])[-1]), name
        if door == "extra of an evaluation":
            assert "eval" in shown
        else:
            assert any(line.split()[0] == "text" and name in line and text[:20] in line for line in shown.splitlines())


def test_things_are_counted_where_they_have_no_cell(tmp_path: Path) -> None:
    """Samples, media and notes have no cell: the table counts them by kind, and lists without names by their key."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        run.step(1, loss=0.5)
        run.sample("prompt", "text", step=1)
        run.log({"table": toyspec.Table(columns=["a"], data=[[1]])}, step=1)
        run.note("a remark")
        run.histogram("weights", edges=[0.0, 1.0], counts=[2], step=1)
        run.tap("attn", step=1, l2=1.0, histogram=[1] * 32)
        run.region_enter("forward", step=1)
        run.region_exit("forward", step=1)
    table = toyspec.history(tmp_path / "a")
    assert {"sample": 1, "media": 1, "note": 1, "histogram": 1, "tap/histogram": 1} == table.other_records
    assert {"left_out": {}, "dropped": {}} == table.missing
    assert ["step", "loss", "tap/attn/l2"] == list(table)
    things = {line.split()[0] for line in said("show", str(tmp_path / "a")).splitlines()}
    assert {"sample", "histogram", "media"} <= things
