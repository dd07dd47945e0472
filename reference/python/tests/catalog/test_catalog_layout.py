"""The folder of a catalog, who may write it, and the index by which an update finds what has changed."""

from __future__ import annotations

import multiprocessing
import os
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from loopback_store import stream
from toyspec import CatalogError, build_catalog
from toyspec.catalog import building, layout, tables
from toyspec.catalog.index import IndexComparison, read_index, record_of
from toyspec.catalog.layout import Manifest, writing
from toyspec.core.generated import runs
from toyspec.core.runs.discovery import Stream
from toyspec.core.system_calls import try_lock

if TYPE_CHECKING:
    from pathlib import Path

    from toyspec.core.system_calls import SystemCalls


def test_two_builders(tmp_path: Path) -> None:
    """The second builder is refused, says why, and leaves the work of the first alone."""
    (tmp_path / "runs").mkdir()
    fact = "another process is writing this catalog"
    with writing(str(tmp_path / "catalog")) as work:
        with pytest.raises(CatalogError, match=fact):
            build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
        assert os.path.isdir(work)
    assert 0 == build_catalog(tmp_path / "runs", out=tmp_path / "catalog").runs


@pytest.mark.parametrize("is_made", [True, False])
def test_failed_first_build_leaves_nothing(tmp_path: Path, is_made: bool) -> None:
    """What it has made is removed, the directories above too; a directory that was there stays, empty."""
    out = tmp_path / "not" / "there" / "catalog"
    if is_made:
        out.mkdir(parents=True)
    with pytest.raises(CatalogError, match="the catalog was not changed"):
        build_catalog(tmp_path / "gone", out=out)
    assert [out.parent.parent] * is_made == list(tmp_path.iterdir())
    assert not is_made or [] == list(out.iterdir())


def test_file_is_not_a_place_for_a_catalog(tmp_path: Path) -> None:
    """The message says what to do, and the file stays."""
    (tmp_path / "out").write_text("x")
    with pytest.raises(CatalogError, match="the directory cannot be made: File exists; name another one with --out"):
        build_catalog(tmp_path, out=tmp_path / "out")
    assert "x" == (tmp_path / "out").read_text()


def test_stopped_first_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that it has written before its manifest are removed too."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "events.jsonl").write_bytes(stream(5))
    monkeypatch.setattr(building, "write_manifest", stop)
    with pytest.raises(KeyboardInterrupt):
        build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    assert [tmp_path / "runs"] == list(tmp_path.iterdir())


@pytest.mark.posix
def test_lock_that_was_removed_is_not_held(tmp_path: Path) -> None:
    """A builder that opened the lock of a failed first build makes its own: two never write at once."""
    out = tmp_path / "catalog"
    is_first = True

    def locked(calls: SystemCalls, lock: int) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            (out / ".lock").unlink()
        try_lock(calls, lock)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "try_lock", locked)
        with writing(str(out)), pytest.raises(CatalogError, match="another process"), writing(str(out)):
            pass


@pytest.mark.posix
def test_forked_worker_does_not_hold_the_lock_of_its_builder(tmp_path: Path) -> None:
    """A worker that outlives its builder, as after a kill, does not keep the next builder out."""
    (tmp_path / "runs").mkdir()
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    context = multiprocessing.get_context("fork")
    started, released = context.Event(), context.Event()

    def wait() -> None:
        started.set()
        released.wait(300)

    with writing(str(tmp_path / "catalog")):
        worker = context.Process(target=wait, daemon=True)
        worker.start()
        assert started.wait(300)  # the fork returns before the worker has run
    try:
        with writing(str(tmp_path / "catalog")):
            assert worker.is_alive()
    finally:
        released.set()
        worker.join()


def test_layout_is_raised_with_what_is_in_a_catalog() -> None:
    """Other columns or files need another LAYOUT: an older catalog would be read wrongly, not refused."""
    content = [tables.COLUMNS, tables.NAMED, Manifest.__struct_fields__]
    digest = sha256(repr(content).encode()).hexdigest()[:16]
    known = {12: "4aa35a6c71d2ec79"}
    assert {layout.LAYOUT: digest} == known, "raise LAYOUT in catalog/layout.py, and give its digest here"


def test_catalog_has_every_column_of_a_run() -> None:
    """Each column that filters and lists know is in the table of runs, under its name."""
    assert set() == runs.COLUMNS.keys() - tables.COLUMNS.keys()


def test_damaged_index_is_named(tmp_path: Path) -> None:
    """A file that is cut, or is gone, is an error that says what to do."""
    path = tmp_path / "1.records"
    IndexComparison({}, [record_of(Stream("r/a", 1, identity="1"), 0)[:-1]], list).write(str(path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CatalogError, match="cut within a record; build the catalog again"):
        read_index(str(path))
    path.unlink()
    with pytest.raises(CatalogError, match="cannot be read: No such file"):
        read_index(str(path))
