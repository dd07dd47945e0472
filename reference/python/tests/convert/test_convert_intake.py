"""What an imported value becomes is what the writer makes of it, and the log names what was left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toyspec
from conversions import records
from toyspec.convert.intake import Intake
from toyspec.convert.reports import Ledger
from toyspec.core.format.canonical import encode

if TYPE_CHECKING:
    from pathlib import Path

ODD: dict[str, Any] = {
    "flag": True, "none": None, "nan": float("nan"), "low": -float("inf"), "word": "good", "large": 2**60 + 1,
    "inner": {"x": 1, "y": {"z": "deep"}}, "list": [1, 2.5], "texts": ["a"],
    "object": {"_type": ["x"]}, "huge": 10**400,
}  # fmt: skip


def intake(ledger: Ledger) -> Intake:
    """Return an intake whose run is named a."""
    return Intake(ledger, complete=lambda start: {**start, "schema": "toy/v1", "run_id": "a"})


def made(*parts: Any) -> list[dict[str, Any]]:
    """Return the records of lines."""
    return [json.loads(line) for part in parts for line in part]


def test_values_are_what_the_writer_makes_of_them(tmp_path: Path) -> None:
    """Whatever is given: the record of an import is that of run.log, and both logs lack the same values."""
    with toyspec.start_run(tmp_path, run_id="a") as run:
        run.log(ODD, step=3)
    written = records(tmp_path / "a")
    ledger = Ledger()
    taken = intake(ledger)
    imported = made(taken.begin(0.0), taken.values(1.0, 3, ODD, "row"), taken.finish("completed"))
    kinds = ("values", "texts", "nonfinite")
    ours, theirs = (
        [{key: each[key] for key in kinds if key in each} for each in log if each["kind"] == "scalars"]
        for log in (imported, written)
    )
    assert theirs == ours
    lost = [{**each.get("left_out", {})} for log in (imported, written) for each in log if "left_out" in each]
    assert lost[0] == lost[1]
    assert ["integers beyond 2^53 are rounded to the nearest binary64: large (1); huge (1)"] == [
        each["text"] for each in imported if each.get("topic") == "rounded"
    ]
    assert ledger.is_settled
    assert ("row: large", str(2**60 + 1)) == next(
        (each.place, each.value) for loss in ledger.losses if loss.cause == "binary64" for each in loss.examples
    )


names = st.text(max_size=5) | st.sampled_from(["loss", "a/b", 'q"', "\u00e9", "\x7f"])
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70)


@given(
    values=st.dictionaries(names, numbers, min_size=1, max_size=5),
    step=st.none() | st.integers(0, 2**70),
    members=st.fixed_dictionaries({}, optional={"epoch": st.floats(0, 1e300), "phase": st.sampled_from(["train"])}),
)
def test_line_of_plain_numbers_is_canonical(
    values: dict[str, float], step: int | None, members: dict[str, Any]
) -> None:
    """The fast way writes what the canonical writer does."""
    taken = intake(Ledger())
    list(taken.begin(0.0))
    (line,) = taken.values(0.5, step, values, "row", **members)
    record = {"kind": "scalars", **members, "t": 0.5, **({} if step is None else {"step": step}), "values": values}
    assert encode(record) + b"\n" == line


def test_secrets_of_a_source_are_hidden() -> None:
    """In settings, in the arguments and in the other facts of the run; the report counts those of settings."""
    ledger = Ledger()
    config = {"wandb_api_key": "s3cret", "db": {"password": "hunter2"}, "lr": 0.1}
    lines = b"".join(intake(ledger).begin(0.0, config=config, argv=["--token=s3cret"], rest={"api_key": "hunter2"}))
    assert b"s3cret" not in lines
    assert b"hunter2" not in lines
    assert {"secret": 3} == {loss.cause: loss.count for loss in ledger.losses}


def test_end_is_the_last_one_and_comes_last() -> None:
    """A later end replaces one before."""
    ledger = Ledger()
    taken = intake(ledger)
    lines = list(taken.begin(0.0))
    taken.end("aborted", 3.0)
    taken.end("completed", 4.0)
    lines += taken.values(9.0, 5, {"a": 1}, "row")
    lines += taken.finish("interrupted")
    found = [(each["kind"], each.get("reason"), each["t"]) for each in map(json.loads, lines)]
    assert ("run_end", "completed", 9.0) == found[-1]
    assert 1 == sum(kind == "run_end" for kind, _, _ in found)
    assert ledger.is_settled


PLAIN: dict[str, Any] = {
    "columns": {"b": [0.5, 3], "a": [-1e-9, 1e308]}, "walls": [1.0, 2.5], "steps": [0, 7], "epoch": [0, 0.5],
    "phase": ["train", "eval"],
}  # fmt: skip


def test_rows_by_columns_have_the_bytes_and_counts_of_each_by_itself() -> None:
    """Rows that are taken together are those of ``values``, and so is what comes after them."""
    alone, together = Ledger(), Ledger()
    one, several = intake(alone), intake(together)
    lines, block = list(one.begin(0.0)), list(several.begin(0.0))
    for at in range(2):
        values = {name: column[at] for name, column in PLAIN["columns"].items()}
        members = {"epoch": float(PLAIN["epoch"][at]), "phase": PLAIN["phase"][at]}
        lines += one.values(PLAIN["walls"][at], PLAIN["steps"][at], values, "row", **members)
    block.append(several.rows(**PLAIN) or b"")
    for each, log in ((one, lines), (several, block)):
        log.extend(each.values(None, None, {"c": 1}, "row"))
    assert b"".join(lines) == b"".join(block)
    assert (alone.items, alone.carried) == (together.items, together.carried) == (5, 5)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("columns", {"a": [1.0, float("nan")]}), ("columns", {"a": [1.0, True]}), ("columns", {"a": [2**53 + 1, 1]}),
        ("columns", {"a": [10**400, 1]}), ("columns", {'"': [1.0, 2.0]}), ("columns", {}),
        ("steps", [0, -1]), ("steps", [0, 1.0]), ("steps", [0, 2**53 + 1]),
        ("walls", [2.5, 1.0]), ("walls", [1.0, 1e300]),
        ("epoch", [0.0, -1.0]), ("epoch", [0.0, float("inf")]), ("epoch", [0.0, None]), ("phase", ["train", "warm-up"]),
    ],
)  # fmt: skip
def test_rows_that_would_change_are_refused_uncounted(name: str, column: Any) -> None:
    """What ``values`` would change, drop or write in another way is left to it."""
    ledger = Ledger()
    taken = intake(ledger)
    made(taken.begin(0.0))
    assert taken.rows(**{**PLAIN, name: column}) is None
    assert (0, 0.0) == (ledger.items, taken.timeline.last)
