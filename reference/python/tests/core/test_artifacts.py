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
    (tmp_path / "outside.bin").write_bytes(CONTENT)


def logged(path: str, *, copy: bool = False) -> dict[str, Any]:
    """Return the record of the file *path*."""
    with start_run("runs", run_id="a", git=None) as run:
        (Path(run.directory) / "inside.bin").write_bytes(CONTENT)
        run.artifact(path, copy=copy)
    assert [] == check("runs").files[0].findings
    (found,) = [record.value for record in read(run.directory) if record.kind in ("artifact", "reference")]
    return {key: value for key, value in found.items() if key != "t"}


@pytest.mark.parametrize("path", ["inside.bin", "runs/a/inside.bin", "runs/../runs/a/inside.bin"])
def test_file_in_the_bundle_is_named_by_its_place_there(path: str) -> None:
    """Size and digest are filled in, wherever the path begins."""
    assert {"kind": "artifact", "path": "inside.bin", **FACTS} == logged(path)


def test_file_that_is_not_there_yet_has_no_size() -> None:
    """A checkpoint may be named before it is written."""
    assert {"kind": "artifact", "path": "weights/later.bin"} == logged("weights/later.bin")


@pytest.mark.parametrize("path", ["outside.bin", "../{}/outside.bin"])
def test_file_outside_is_referred_to(path: str, tmp_path: Path) -> None:
    """The log names no file of the bundle that is none."""
    expected = {"kind": "reference", "uri": (tmp_path / "outside.bin").as_uri(), **FACTS}
    assert expected == logged(path.format(tmp_path.name))


def test_file_outside_is_copied_when_asked(tmp_path: Path) -> None:
    """The bundle has it then."""
    assert {"kind": "artifact", "path": "artifacts/outside.bin", **FACTS} == logged("outside.bin", copy=True)
    assert CONTENT == (tmp_path / "runs/a/artifacts/outside.bin").read_bytes()


def test_object_in_a_store_is_referred_to() -> None:
    """An address is its own reference, without what is secret in it."""
    assert {"kind": "reference", "uri": "s3://bucket/model.bin"} == logged("s3://bucket/model.bin")
