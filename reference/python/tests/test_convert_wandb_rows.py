"""Rows of a W&B history that are read together are what they are when they are read one by one."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversions import imported, losses
from property_examples import examples
from test_convert_wandb import item, run_file
from toyspec.convert import wandb_rows
from toyspec.convert.protobuf import BYTES, MessageError, field, fields, integer_field
from toyspec.convert.wandb_messages import _pair, pairs

NAMES = st.one_of(st.sampled_from(["_step", "loss", "a.b", "\x82\x01", "ü"]), st.text(max_size=140))
VALUES = st.one_of(
    st.floats().map(repr),
    st.integers(-(2**60), 2**60).map(str),
    st.text(max_size=9),
    st.sampled_from(["1,2", "[1", "2]"]),
)
NESTED = st.builds(
    lambda keys, value: field(1, b"".join(field(2, key) for key in keys) + field(16, value)),
    st.lists(NAMES, min_size=1, max_size=3),
    VALUES,
)
KEYED = st.builds(lambda key, value: field(1, field(1, key) + field(16, value)), NAMES, VALUES)


def generic(body: bytes) -> list[tuple[str, Any]]:
    """Return the pairs in *body* as the wire format says, without any shortcut."""
    return [_pair(part) for number, wire, part in fields(body) if number in (1, 3) and wire == BYTES]


@settings(max_examples=examples(300), deadline=None)
@given(items=st.lists(st.one_of(NESTED, KEYED), max_size=8), rest=st.binary(max_size=6), flips=st.data())
def test_items_are_those_of_the_wire_format(items: list[bytes], rest: bytes, flips: st.DataObject) -> None:
    """Names and values are the same with the shortcut for short items, whole or damaged."""
    body = bytearray(b"".join(items) + rest)
    if body and flips.draw(st.booleans()):
        at = flips.draw(st.integers(0, len(body) - 1))
        body[at] = flips.draw(st.sampled_from([0x0A, 0x12, 0x82, 0x01, 0x00, 0x30]))
    found = []
    for reader in (generic, pairs):
        try:
            found.append(repr(reader(bytes(body))))
        except MessageError:
            found.append("refused")
    assert found[0] == found[1]


def rows_of(choose: random.Random, odd: float) -> list[bytes]:
    """Return messages of rows with the same names in any order; each value is odd with the probability *odd*."""
    odds = ["NaN", '"text"', "null", "1,2", "", str(2**60 + 1), "[1]", "true", "-Infinity"]
    messages = []
    for step in range(choose.randrange(40)):
        values = {name: repr(choose.random()) for name in ("loss", "lr", "val/acc")} | {"tokens": str(step * 512)}
        values |= {"_step": str(step), "_timestamp": repr(1790000000.5 + step), "_runtime": "2"}
        for name in values:
            if choose.random() < odd:
                values[name] = choose.choice(odds)
        if choose.random() < odd:
            values["other"] = "1"
        if choose.random() < odd:
            values["_timestamp"] = "1790000000.25"
        items = [item(name, value) for name, value in values.items()]
        if choose.random() < odd:
            items.append(item("loss", "0.5"))
        choose.shuffle(items)
        body = b"".join(items) + (field(2, integer_field(1, step)) if step % 2 else b"")
        messages.append(integer_field(1, step) + field(2, body))
    return messages


@pytest.mark.parametrize("odd", [0.0, 0.01, 0.2])
def test_rows_are_the_same_together_and_one_by_one(odd: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records and losses are the same, whatever the values are, and however many rows become lines at once."""
    choose = random.Random(f"rows {odd}")
    for _ in range(examples(12)):
        messages, results = rows_of(choose, odd), []
        for least, most in ((1, 1 << 14), (2, 30), (1 << 20, 1 << 14)):
            monkeypatch.setattr(wandb_rows, "_LEAST_ROWS", least)
            monkeypatch.setattr(wandb_rows, "_MOST_VALUES", most)
            with tempfile.TemporaryDirectory() as name:
                (run,) = imported(run_file(Path(name) / "run-a.wandb", *messages), Path(name) / "runs").runs
                content = (Path(run.target) / "events.jsonl").read_bytes().split(b"\n", 1)[1]
                results.append((content, losses(run), run.items, run.carried, run.changed, run.dropped))
        assert results[0] == results[1] == results[2]


def test_plain_rows_become_lines_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The shortcut is taken: of 100 plain rows only the first is made by itself."""
    made = []
    whole = wandb_rows.WandbRows.lines

    def lines(self: wandb_rows.WandbRows) -> bytes | None:
        found = whole(self)
        made.append(0 if found is None else found.count(b"\n"))
        return found

    monkeypatch.setattr(wandb_rows.WandbRows, "lines", lines)
    items = [[item("_step", str(step)), item("loss", "2.5"), item("lr", "0.1")] for step in range(100)]
    messages = [field(2, b"".join(each[step % 3 :] + each[: step % 3])) for step, each in enumerate(items)]
    imported(run_file(tmp_path / "run-a.wandb", *messages), tmp_path / "runs")
    assert 99 == sum(made)
