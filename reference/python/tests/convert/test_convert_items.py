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
    """Return a folder of files and links, beside one that is outside."""
    for name in ("a.png", "aa/e.txt", "sub/c.txt", "sub/x/d.txt", "../out.txt"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out.txt")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    return tmp_path / "in"


def names_below(files: Path, ending: str = "", refused: Any = None) -> list[str]:
    """Return the paths of the files below *files*."""
    found = files_below(str(files), lambda name: name.endswith(ending), refused)
    return [os.path.relpath(path, files) for _, paths in found for path in paths]


def test_files_below_are_found_in_their_order(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders come in the order of their names, without links to folders; what cannot be listed is reported."""
    assert ["aa/e.txt", "sub/c.txt", "sub/x/d.txt"] == names_below(files, ".txt")
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_MAX_DEPTH", 1)
        assert ["a.png", "link", "aa/e.txt", "sub/c.txt"] == names_below(files)
    scandir, refused, unlisted = os.scandir, list[tuple[str, OSError]](), {str(files / "aa")}

    def listed(path: str) -> Any:
        if path in unlisted:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)
    for given in (refused, None):
        assert ["sub/c.txt", "sub/x/d.txt"] == names_below(files, ".txt", given)
    assert [str(files / "aa")] == [path for path, _ in refused]
    unlisted.add(str(files))
    with pytest.raises(PermissionError):
        names_below(files, "", refused)


def test_files_without_a_place_are_dropped_one_by_one(files: Path) -> None:
    """All but those below a folder that has one; a folder that is missing has none."""
    ledger = Ledger()
    drop_files(str(files.parent), str(files), ledger, but=str(files / "sub"))
    drop_files(str(files), str(files / "none"), ledger)
    (loss,) = ledger.losses
    sizes = {"a.png": 5, "link": 10, "aa/e.txt": 8}
    assert [(f"in/{name}", f"{size} bytes") for name, size in sizes.items()] == [
        (each.place, each.value) for each in loss.examples
    ]
    assert ("no-place", 3, True) == (loss.cause, ledger.items, ledger.is_settled)
    assert ("in", "in-sub") == (name_below(str(files), str(files)), name_below(str(files.parent), str(files / "sub")))
