"""Nothing in another program's log vanishes: each value is carried, changed or dropped, and a wrong one is reported."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property_examples import examples
from toyspec import check, check_bytes, history
from toyspec.convert import import_runs

if TYPE_CHECKING:
    from pathlib import Path

    from toyspec.convert.reports import RunConversion

BLANK = ("", "NA", "N/A", "None", "null")
cell = st.sampled_from(
    [*BLANK, "1.5", "-2", "nan", "inf", "1.02nan", "1.021.03", "0x10", "1_000", "1,5", "abc", "1e999", "9" * 25, " 3 "]
)
keys = st.sampled_from(["loss", "a", "a/b", "b", "time", "epoch", "phase"])
leaf = st.sampled_from([1.5, 2, "1.02nan", "NaN", "abc", None, True, [1]])
members = st.recursive(leaf, lambda inner: st.lists(st.tuples(keys, inner), min_size=1, max_size=4), max_leaves=6)


def imported(path: Path) -> RunConversion:
    """Return what became of the log *path*."""
    (run,) = import_runs([path], path.parent / "runs").runs
    assert run.items == run.carried + run.changed + run.dropped
    return run


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(keys, min_size=1, max_size=4), st.data())
def test_every_cell_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, header: list[str], data: st.DataObject
) -> None:
    """The items of a table are its cells that are not blank, those of columns with one name included."""
    path = tmp_path_factory.mktemp("cells") / "metrics.csv"
    width = len(header)
    rows = data.draw(st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=8))
    rows = [[str(number), *row] for number, row in enumerate([["1.5"] * width, *rows])]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([["step", *header], *rows])
    assert sum(each not in BLANK for row in rows for each in row) == imported(path).items


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.lists(st.tuples(keys, members), max_size=4), min_size=1, max_size=8))
def test_every_member_is_accounted_for(tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    """Members with one key, and those that have one name after flattening, are items too."""
    path = tmp_path_factory.mktemp("members") / "metrics.jsonl"
    records = [[("step", number), *record] for number, record in enumerate([[("loss", 1.5)], *records])]
    path.write_text("".join(written(record) + "\n" for record in records), encoding="utf-8")
    assert sum(map(items, records)) == imported(path).items


def is_object(value: Any) -> bool:
    """Return whether *value* stands for an object: a list of pairs."""
    return isinstance(value, list) and value != [1]


def items(pairs: list[Any]) -> int:
    """Return the number of values in an object; an object that a later one replaces is one, and what it repeats."""
    last = {key: index for index, (key, _) in enumerate(pairs)}
    kept = [value for index, (key, value) in enumerate(pairs) if last[key] == index]
    lost = [value for index, (key, value) in enumerate(pairs) if last[key] != index]
    return sum(items(each) if is_object(each) else 1 for each in kept) + len(lost) + sum(map(repeats, lost))


def repeats(value: Any) -> int:
    """Return the number of members in *value* that a later one replaces."""
    if not is_object(value):
        return 0
    return len(value) - len(dict(value)) + sum(repeats(inner) for _, inner in value)


def written(value: Any) -> str:
    """Return pairs as a JSON object, repeated keys included."""
    if is_object(value):
        return "{" + ",".join(f"{json.dumps(key)}:{written(inner)}" for key, inner in value) + "}"
    return json.dumps(value)


@pytest.mark.parametrize("odd", ["1.02nan", "1.021.03", "0x10", "1_000", "-", "abc"])
@pytest.mark.parametrize("rows", [3, 300])
def test_cell_that_is_not_a_number_is_reported(tmp_path: Path, odd: str, rows: int) -> None:
    """A text in a column of numbers is an error at its place; an import keeps it as a text."""
    path = tmp_path / "metrics.csv"
    lines = [f"{number},{2.5 + number},0.1" for number in range(rows)]
    lines[-2] = f"{rows - 2},{odd},0.1"
    path.write_text("\n".join(["step,loss,lr", *lines, ""]), encoding="utf-8")
    (finding,) = check_bytes(path.read_bytes(), name=path.name).findings
    assert ("bad-format", rows, "/loss") == (finding.rule, finding.line, finding.pointer)
    assert odd in finding.message
    assert [] == imported(path).losses
    stream = (path.parent / "runs" / "metrics" / "events.jsonl").read_text(encoding="utf-8")
    assert 1 == stream.count(f'"texts":{{"loss":"{odd}"}}')


def test_console_value_is_whole_or_text(tmp_path: Path) -> None:
    """A number is not cut out of a longer word, and two values of one name are two."""
    path = tmp_path / "train.log"
    path.write_text("step 1: loss: 1.5, lr=0.1\nstep 2: loss: 1.02nan, lr=0.1\nstep 3: loss 1.25, loss 1.5\n")
    assert [] == imported(path).losses
    stream = (path.parent / "runs" / "train" / "events.jsonl").read_text(encoding="utf-8")
    assert '"values":{"loss":1.25,"loss.1":1.5}' in stream
    assert '"texts":{"loss":"1.02nan"}' in stream


_STEPS = "".join(f'{{"step":{step},"loss":0.5}}\n' for step in range(1, 60))
_PAIRS = "".join(f'{{"step":{step},"name":"{name}","value":0.5}}\n' for step in range(1, 5) for name in ("loss", "acc"))
_UNREAD: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "a mixed list after the first records": (
        _STEPS + '{"step":60,"mix":[1,{"a":2}]}\n{"step":61,"mix":[{},1]}\n',
        [(60, '`mix` is [1, {"a": 2}], expected a number')],
    ),
    "a truth in an inner object": (
        _STEPS + '{"step":60,"a":{"ok":true}}\n',
        [(60, "`a/ok` is true, expected a number")],
    ),
    "a column of truths": (
        _STEPS + '{"step":60,"ok":true}\n' * 30,
        [(60, "`ok` is true, expected a number")],
    ),
    "a text of one of several metrics": (
        _PAIRS + '{"step":5,"name":"grade","value":"high"}\n{"step":6,"name":"grade","value":"low"}\n',
        [(9, '`grade` is "high", expected a number')],
    ),
    "a mixed list of one of several metrics": (
        _PAIRS + '{"step":5,"name":"mix","value":[1,{"a":2}]}\n{"step":6,"name":"none","value":null}\n',
        [(9, '`mix` is [1, {"a": 2}], expected a number')],
    ),
    "lists of texts, and what the first records have": (
        _STEPS.replace("}", ',"known":true}') + '{"step":60,"known":true,"tags":["a"],"s":"t"}\n',
        [],
    ),
}


@pytest.mark.parametrize("case", _UNREAD)
def test_a_value_that_no_reader_takes_is_reported_once(tmp_path: Path, case: str) -> None:
    """What the notes on the log do not name is a finding, at its first record."""
    data, expected = _UNREAD[case]
    path = tmp_path / "metrics.jsonl"
    path.write_text(data)
    found = check(path).files[0].findings
    assert expected == [(each.line, each.message) for each in found if each.rule == "values-left-out"]
    assert len(expected) == len(found)


_LONG_LINES = """{"step":1,"name":"loss","value":0.5}
{"step":1,"name":null,"value":0.25}
{"step":2,"name":"loss","value":0.4}
{"step":2,"value":NaN}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metrics.csv", "step,name,value\n1,loss,0.5\n1,,0.25\n2,loss,0.4\n2,,nan\n"),
        ("metrics.jsonl", _LONG_LINES),
    ],
)
def test_a_value_of_a_long_table_without_a_name_is_read(tmp_path: Path, name: str, text: str) -> None:
    """It has the name of its column, in a table and in an import, and each of its members is settled once."""
    path = tmp_path / name
    path.write_text(text)
    table = history(path)
    assert ([0.5, 0.4], [1, 2]) == (table["loss"], table["step"])
    assert "[0.25, nan]" == repr(table["value"])
    (run,) = import_runs([path], tmp_path / "back").runs
    assert 0 == run.dropped
    assert run.items == run.carried + run.changed
    assert ["step", "loss", "value"] == list(history(run.target))
