"""The files of a run are the same on a disk and in a store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopback_store import BUCKET, Store
from toyspec.core.reading.run_files import Below, files_of

NAMES = ["events.jsonl", "events.rank-1.jsonl", "media/a.png", "notes/deep/a.txt", "other/events.jsonl.gz", "other/x/y"]


@pytest.mark.parametrize(
    ("below", "expected"),
    [("media", NAMES[:3]), ("own", NAMES[:4]), ("all", NAMES)],
)
@pytest.mark.parametrize("place", ["disk", "store"])
def test_files_of_a_run(tmp_path: Path, store: Store, place: str, below: Below, expected: list[str]) -> None:
    """A folder with a stream is another run, whatever is below it; links on a disk are left out."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
        store.put(f"runs/a/{name}", name.encode())
    (tmp_path / "link").symlink_to("events.jsonl")
    (tmp_path / "folder").symlink_to("notes")
    directory = str(tmp_path) if place == "disk" else f"s3://{BUCKET}/runs/a"
    found = sorted(files_of(directory, below))
    assert [(name, f"{directory}/{name}", len(name)) for name in expected] == found


def test_folder_that_cannot_be_listed_is_an_error_or_left_out(tmp_path: Path) -> None:
    """By default what cannot be listed is raised; a caller that shows what it can gets the rest."""
    for name in ("a/x", "b/y"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"")
    scandir = os.scandir

    def refused(path: str) -> object:
        if str(path).endswith("a"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", refused)
        with pytest.raises(PermissionError):
            list(files_of(str(tmp_path)))
        assert ["b/y"] == [file.name for file in files_of(str(tmp_path), on_error=lambda _: None)]
    with pytest.raises(FileNotFoundError):
        list(files_of(str(tmp_path / "none")))
