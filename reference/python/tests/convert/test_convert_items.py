"""Parts of conversions by themselves: the items of a run, files that come along, sources that are looked through."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toyspec.convert import sources
from toyspec.convert.reports import Ledger
from toyspec.convert.run_items import items_of
from toyspec.convert.sources import drop_files, files_below, name_below
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.records import RecordFeed


def lost(ledger: Ledger) -> dict[str, list[tuple[str, str, str | None]]]:
    """Return the examples of each cause: place, value, and what it became."""
    return {loss.cause: [(each.place, each.value, each.became) for each in loss.examples] for loss in ledger.losses}


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
