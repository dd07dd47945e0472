"""What a record says in numbers reaches an export: the numbers are those of ``Record``, whatever null was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from toyspec import list_runs
from toyspec.convert.exporting import ExportedRun, export_runs
from toyspec.convert.importing import import_runs
from toyspec.convert.reports import Ledger

RECORDS: dict[str, tuple[str, list[tuple[str, str, Any]]]] = {
    "the null of a step that was NaN": (
        '"kind":"step","loss":null,"nonfinite":{"loss":"nan"}',
        [("measure", "loss", math.nan)],
    ),
    "an infinity among scalars": (
        '"kind":"scalars","values":{"x":null,"y":1.5},"nonfinite":{"x":"-inf"},"texts":{"mood":"good"}',
        [("measure", "x", -math.inf), ("measure", "y", 1.5), ("text", "mood", "good")],
    ),
    "an extra that has the name of a key": (
        '"kind":"step","loss":2.0,"extra":{"loss":3.0,"lr":null}',
        [("measure", "extra/loss", 3.0), ("measure", "loss", 2.0), ("measure", "lr", None)],
    ),
    "an evaluation with a text": (
        '"kind":"eval","name":"val","loss":2.0,"phase":"eval","extra":{"grade":"b"}',
        [("measure", "val/loss", 2.0), ("text", "val/grade", "b")],
    ),
    "a text among numbers": (
        '"kind":"scalars","values":{"x":1.0,"odd":"t","none":null}',
        [("measure", "none", None), ("measure", "x", 1.0), ("text", "odd", "t")],
    ),
    "an evaluation with everything else": (
        (
            '"kind":"eval","name":"val","phase":"eval","own":false,"extra":{"ok":true,"recall":[0.5,null],'
            '"inner":{"a":{"b":2},"s":"t"},"mixed":[1,{"x":"y"}]},"nonfinite":{"extra/recall/1":"inf"}'
        ),
        [
            ("measure", "val/ok", 1.0),
            ("measure", "val/recall/0", 0.5),
            ("measure", "val/recall/1", math.inf),
            ("measure", "val/inner/a/b", 2),
            ("text", "val/inner/s", "t"),
            ("text", "val/mixed", '[1,{"x":"y"}]'),
            ("measure", "val/own", 0.0),
        ],
    ),
    "an evaluation without a name": (
        '"kind":"eval","loss":2.0,"extra":{"f1":0.5}',
        [("record", "loss", 2.0), ("record", "extra", {"f1": 0.5})],
    ),
    "members of wrong types": (
        '"kind":"scalars","values":[1],"texts":{"a":1},"own":2',
        [("record", "values", [1]), ("record", "texts", {"a": 1}), ("record", "own", 2)],
    ),
    "members of wrong types beside a text": (
        '"kind":"scalars","values":{},"texts":{"a":1,"b":"t"},"own":2',
        [("text", "b", "t"), ("record", "a", 1), ("record", "own", 2)],
    ),
    "scalars of an epoch": (
        '"kind":"scalars","epoch":2,"values":{"x":1.0}',
        [("measure", "epoch", 2), ("measure", "x", 1.0)],
    ),
}
"""The members of a record, and its items by kind, name and value."""


def stream_of(path: Path, *records: str) -> Path:
    """Return the run directory *path*, made with records of these members after a run_start."""
    path.mkdir()
    lines = [
        '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}',
        *(f'{{"t":1.0,"step":4,{each}}}' for each in records),
    ]
    (path / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize("name", RECORDS)
def test_items_are_those_of_the_record(tmp_path: Path, name: str) -> None:
    """Each number is an item with its full name, and each other member is one too."""
    record, expected = RECORDS[name]
    run = ExportedRun(str(stream_of(tmp_path / "a", record)))
    items = [item for row in run.rows(Ledger()) for item in row.items if item.record["kind"] != "run_start"]
    assert sorted(map(repr, expected)) == sorted(repr((item.kind, item.name, item.value)) for item in items)
    assert {(1.0, 4)} == {(item.t, item.step) for item in items}


def test_settings_known_after_the_start_are_exported(tmp_path: Path) -> None:
    """An export has the settings that the run had in the end; a value before the last one is reported."""
    run = stream_of(
        tmp_path / "a",
        '"kind":"run_config","config":{"lr":0.5,"batch":8}',
        '"kind":"scalars","values":{"loss":1.0}',
        '"kind":"run_config","config":{"lr":0.25}',
    )
    (conversion,) = export_runs("tensorboard", [run], tmp_path / "out").runs
    assert {"changed-setting": 1} == {each.cause: each.count for each in conversion.losses if "setting" in each.cause}
    import_runs([tmp_path / "out"], tmp_path / "back")
    (back,) = list_runs(tmp_path / "back")
    assert {"lr": 0.25, "batch": 8} == {name: back.config.get(name) for name in ("lr", "batch")}
