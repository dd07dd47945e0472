"""Parts of conversions by themselves: the items of a run, files that come along, sources that are looked through."""

from __future__ import annotations

import json
import os
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from toyspec.convert import sources
from toyspec.convert.exporting import ExportedRun
from toyspec.convert.reports import NO_PLACE, Ledger
from toyspec.convert.run_items import items_of
from toyspec.convert.sources import drop_files, files_below, name_below
from toyspec.convert.wandb_files import bins_of, taken_objects
from toyspec.core.errors import SourceError
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.records import RecordFeed

if TYPE_CHECKING:
    pass

AT = "2026-05-31T09:30:00Z"
RECORDS: list[dict[str, Any]] = [
    {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a", "started_at": AT, "phase": "eval",
     "config": {"lr": 0.5, "net": {"depth": 2, "own": {}}}, "tags": ["x"]},
    {"kind": "step", "t": 1.0, "step": 1, "phase": "train", "loss": 0.5, "extra": {"acc": 0.25}},
    {"kind": "step", "t": 2.0, "step": 2, "phase": "train", "loss": 0.4},
    {"kind": "note", "t": 2.5, "text": "hm", "step": 2},
    {"kind": "define", "t": 2.5, "name": "loss", "goal": "min"},
    {"kind": "run_resume", "t": 3.0, "from_step": 1},
    {"kind": "step", "t": 4.0, "step": 2, "phase": "train", "loss": 0.3},
    {"kind": "scalars", "t": 4.0, "epoch": 2.0, "values": {"x": None}, "nonfinite": {"x": "inf"},
     "texts": {"mood": "good"}},
    {"kind": "system", "t": 4.5, "memory_used_bytes": 7},
    {"kind": "own", "t": 5.0, "a": 1},
    {"kind": "run_end", "t": 6.0, "reason": "completed", "ended_at": "2026-05-31T09:30:06Z", "final_step": 2,
     "final_loss": 0.3, "exit_code": 0},
]  # fmt: skip
ITEMS: list[tuple[str, str, Any, float, int | None, str]] = [
    ("setting", "lr", 0.5, 0.0, None, "line 1: config/lr"),
    ("setting", "net/depth", 2, 0.0, None, "line 1: config/net/depth"),
    ("setting", "net/own", {}, 0.0, None, "line 1: config/net/own"),
    ("fact", "phase", "eval", 0.0, None, "line 1: phase"),
    ("fact", "tags", ["x"], 0.0, None, "line 1: tags"),
    ("measure", "train/loss", 0.5, 1.0, 1, "line 2: train/loss at step 1"),
    ("measure", "train/acc", 0.25, 1.0, 1, "line 2: train/acc at step 1"),
    ("measure", "train/loss", 0.4, 2.0, 2, "line 3: train/loss at step 2"),
    ("note", "note", RECORDS[3], 2.5, 2, "line 4: note"),
    ("definition", "define", RECORDS[4], 2.5, None, "line 5: define"),
    ("resume", "run_resume", RECORDS[5], 3.0, None, "line 6: run_resume"),
    ("measure", "train/loss", 0.3, 4.0, 2, "line 7: train/loss at step 2"),
    ("measure", "x", inf, 4.0, None, "line 8: x"),
    ("measure", "epoch", 2.0, 4.0, None, "line 8: epoch"),
    ("text", "mood", "good", 4.0, None, "line 8: mood"),
    ("measure", "system/memory_used_bytes", 7, 4.5, None, "line 9: system/memory_used_bytes"),
    ("record", "own", RECORDS[9], 5.0, None, "line 10: own"),
    ("end", "reason", "completed", 6.0, None, "line 11: reason"),
    ("end", "exit_code", 0, 6.0, None, "line 11: exit_code"),
]


def bundle(folder: Path, *records: dict[str, Any]) -> ExportedRun:
    """Return the run *folder* with these *records*."""
    folder.mkdir()
    (folder / "events.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return ExportedRun(str(folder))


def lost(ledger: Ledger) -> dict[str, list[tuple[str, str, str | None]]]:
    """Return the examples of each cause: place, value, and what it became."""
    return {loss.cause: [(each.place, each.value, each.became) for each in loss.examples] for loss in ledger.losses}


def test_items_of_a_run_are_these(tmp_path: Path) -> None:
    """Every member of a record is an item with name, value, time, step and place, superseded or not."""
    run, ledger = bundle(tmp_path / "a", *RECORDS), Ledger()
    rows = list(run.rows(ledger))
    found = [(item.kind, item.name, item.value, *item[4:]) for row in rows for item in row.items]
    assert (ITEMS, len(ITEMS), {}) == (found, ledger.items, lost(ledger))
    assert [5, 2, 1, 1, 1, 1, 1, 3, 1, 1, 2] == [len(row.items) for row in rows]


def test_facts_of_a_run_are_these(tmp_path: Path) -> None:
    """Settings, start, end and times are those of the first and last record."""
    run = bundle(tmp_path / "a", *RECORDS)
    assert ({"lr": 0.5, "net/depth": 2, "net/own": {}}, "a") == (run.head.settings, run.head.run_id)
    before = sum(len(json.dumps(record)) + 1 for record in RECORDS[:-1])
    assert run.end == ("completed", 6.0, before)
    assert (1780219800.0, 1780219801.5) == (run.head.started, run.head.wall(1.5))
    other = bundle(tmp_path / "b", {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": ""}, *RECORDS[1:5])
    head = other.head
    assert ("b", None, 2.0, None, {}) == (head.run_id, head.started, head.wall(2.0), other.end, head.settings)
    again = bundle(tmp_path / "c", *RECORDS, {"kind": "run_resume", "t": 7.0, "from_step": 2})
    assert again.end is None


@pytest.mark.parametrize("text", ['{"step":0,"wall_time_ms":0.0}\n', "{}\n"])
def test_another_profile_is_refused(tmp_path: Path, text: str) -> None:
    """The message names what it is and what makes a run of it."""
    (tmp_path / "events.jsonl").write_text(text)
    found = "a metrics/v1 run" if "wall" in text else "not a toy/v1 run"
    with pytest.raises(SourceError) as caught:
        ExportedRun(str(tmp_path))
    fact = f"{found}; only toy/v1 is exported. `toyspec import` makes a toy/v1 run of it"
    assert f"{tmp_path}: {fact}" == str(caught.value)


@pytest.mark.parametrize(
    ("edges", "counts", "is_whole"),
    [
        ([0, 1], [2], True), ([0, 1, 2], [2], False), ([0], [], False), ([0, None], [2], False), ([0, 1], ["2"], False),
        (None, [2], False), ([0, 1], None, False),
    ],
)  # fmt: skip
def test_bins_belong_together(edges: Any, counts: Any, is_whole: bool) -> None:
    """There is one edge more than counts, and all are numbers."""
    (record,) = RecordFeed().feed(
        json.dumps({"kind": "histogram", "t": 1.0, "name": "h", "edges": edges, "counts": counts}).encode() + b"\n"
    )
    (item,) = items_of(record, Attempts())
    assert (("histogram", "h", (edges, counts)) if is_whole else ("record", "histogram", record.value)) == item[:3]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder of files, beside one that is outside."""
    for name in ("a.png", "b.png", "t.table.json", "sub/c.txt"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text('{"columns": ["n"], "data": [[5]]}' if "table" in name else name)
    (tmp_path / "out.txt").write_text("outside")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out.txt")
    (tmp_path / "in" / "inner").symlink_to(tmp_path / "in" / "a.png")
    return tmp_path / "in"


HISTOGRAM = {"_type": "histogram", "values": [1, 2]}
PACKED = {"packedBins.min": -1, "packedBins.size": 0.5}


@pytest.mark.parametrize(
    ("members", "bins"),
    [
        ({**HISTOGRAM, "bins": [0, 1, 2.5]}, ([0, 1, 2.5], [1, 2])),
        ({**HISTOGRAM, **PACKED, "packedBins.count": 2}, ([-1.0, -0.5, 0.0], [1, 2])),
        ({**HISTOGRAM, **PACKED, "bins": [-1, -0.5, 0]}, ([-1, -0.5, 0], [1, 2])),
        ({**HISTOGRAM, "bins": [0, 1]}, None),
        (HISTOGRAM, None),
        ({**HISTOGRAM, "values": ["1"], "bins": [0, 1]}, None),
        ({"_type": "image-file", "path": "a.png", "values": [1], "bins": [0, 1]}, None),
    ],
)
def test_bins_of_wandb_are_those_of_the_log(
    members: dict[str, Any], bins: tuple[list[float], list[float]] | None
) -> None:
    """Packed bins begin at the least value, and are equally wide; what is not a whole histogram has none."""
    assert bins == bins_of(members)


def test_members_of_an_object_are_taken_from_its_row() -> None:
    """An object is what has a type; its members have its name before their own."""
    found: dict[str, Any] = {"a._type": "image", "a.path": "x", "b": 1, "ab.c": 2, "a.d._type": "y", "a": 3}
    assert {"a": {"_type": "image", "path": "x", "d._type": "y"}} == taken_objects(found)
    assert {"b": 1, "ab.c": 2, "a": 3} == found


def test_files_below_are_found_in_their_order(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders come in the order of their names, without links to folders; what cannot be listed is reported."""
    for name in ("sub/x/d.txt", "aa/e.txt"):
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(name)
    (files / "loop").symlink_to(files)
    shown = [(os.path.relpath(folder, files), list(map(os.path.basename, found)))
             for folder, found in files_below(str(files), lambda name: name.endswith(".txt"))]  # fmt: skip
    assert [("aa", ["e.txt"]), ("sub", ["c.txt"]), ("sub/x", ["d.txt"])] == shown
    monkeypatch.setattr(sources, "_MAX_DEPTH", 1)
    assert ["aa", "sub"] == [os.path.basename(folder) for folder, _ in files_below(str(files), lambda n: "." in n)][1:]
    scandir, refused = os.scandir, list[tuple[str, OSError]]()

    def listed(path: str) -> Any:
        if os.path.basename(path) in ("aa", "none"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)
    assert ["in", "sub"] == [os.path.basename(folder) for folder, _ in files_below(str(files), bool, refused)]
    assert [str(files / "aa")] == [path for path, _ in refused]
    assert ["in", "sub"] == [os.path.basename(folder) for folder, _ in files_below(str(files), bool)]
    with pytest.raises(PermissionError):
        list(files_below(str(tmp_path / "none"), bool, refused))


def test_files_without_a_place_are_dropped_one_by_one(files: Path) -> None:
    """All but those below a folder that has one; a folder that is missing has none."""
    ledger = Ledger()
    drop_files(str(files.parent), str(files), ledger, but=str(files / "sub"))
    names = ["a.png", "b.png", "inner", "link", "t.table.json"]
    sizes = [(files / name).stat().st_size for name in names]
    expected = [(f"in/{name}", f"{size} bytes", None) for name, size in zip(names, sizes, strict=True)]
    assert ({"no-place": expected}, 5, True) == (lost(ledger), ledger.items, ledger.is_settled)
    drop_files(str(files), str(files / "none"), ledger)
    assert 5 == ledger.items
    assert ("in", "in-sub") == (name_below(str(files), str(files)), name_below(str(files.parent), str(files / "sub")))


def test_numbers_that_are_not_finite_are_shown() -> None:
    """A report has them as texts."""
    ledger = Ledger(max_examples=1)
    ledger.items += 2
    ledger.drop(NO_PLACE, "a", nan)
    ledger.drop(NO_PLACE, "b", inf)
    assert ({"no-place": [("a", "nan", None)]}, 2) == (lost(ledger), ledger.losses[0].count)
