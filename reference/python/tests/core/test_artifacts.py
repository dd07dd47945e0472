"""Files of a run: those in its bundle, and those outside, which are copied or referred to."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from toyspec import check, read, start_run

CONTENT = b"weights"
FACTS = {"size_bytes": len(CONTENT), "sha256": sha256(CONTENT).hexdigest()}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (".", "one", "two"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "outside.bin").write_bytes(CONTENT)


def logged(*paths: str, **options: Any) -> list[dict[str, Any]]:
    """Return the records of the files *paths*."""
    with start_run("runs", run_id="a", git=None) as run:
        (Path(run.directory) / "inside.bin").write_bytes(CONTENT)
        for path in paths:
            run.artifact(path, **options)
    assert [] == check("runs").files[0].findings
    found = [record.value for record in read(run.directory) if record.kind in ("artifact", "reference")]
    return [{key: value for key, value in each.items() if key != "t"} for each in found]


def test_file_is_named_by_its_place_in_the_bundle_or_referred_to(tmp_path: Path) -> None:
    """Size and digest are filled in, wherever the path begins; a checkpoint may be named before it is written."""
    outside = {"kind": "reference", "uri": (tmp_path / "outside.bin").as_uri(), **FACTS}
    assert [
        *[{"kind": "artifact", "path": "inside.bin", **FACTS}] * 3,
        {"kind": "artifact", "path": "weights/later.bin"},
        outside,
        outside,
        {"kind": "reference", "uri": "s3://bucket/model.bin"},
    ] == logged(
        "inside.bin",
        "runs/a/inside.bin",
        "runs/../runs/a/inside.bin",
        "weights/later.bin",
        "outside.bin",
        f"../{tmp_path.name}/outside.bin",
        "s3://bucket/model.bin",
    )


def test_file_outside_is_copied_under_a_free_name_when_asked(tmp_path: Path) -> None:
    """A second file of one name is kept beside the first; a silent run looks at no file."""
    given = {"role": "weights", "media_type": "a/b", "step": 2}
    names = ["outside.bin", "outside.bin-2", "outside.bin-3"]
    assert [{"kind": "artifact", "path": f"artifacts/{name}", **FACTS, **given} for name in names] == logged(
        "one/outside.bin", "two/outside.bin", "outside.bin", copy=True, **given
    )
    assert [CONTENT] * 3 == [(tmp_path / "runs/a/artifacts" / name).read_bytes() for name in names]


def test_file_that_cannot_be_copied_is_referred_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says why; the log says where the file is."""
    with start_run("runs", run_id="a", git=None) as run:
        (tmp_path / "runs/a/artifacts").write_text("no folder")
        run.artifact("outside.bin", copy=True, media_type="a/b")
    assert f"{run.events_path}: outside.bin could not be copied (Not a directory)" in capsys.readouterr().err
    (found,) = [record.value for record in read(run.directory) if record.kind == "reference"]
    assert ((tmp_path / "outside.bin").as_uri(), False) == (found["uri"], "media_type" in found)
