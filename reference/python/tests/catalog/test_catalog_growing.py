"""A catalog reads a run that grows again; of one that takes long to read it keeps the row until the run ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from growing_runs import grow, lines_of, rows
from loopback_store import BUCKET
from toyspec import Catalog, build_catalog, update_catalog
from toyspec.catalog import reading_runs
from toyspec.core.format.profiles import SEAL_FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from loopback_store import Store

END = b'{"kind":"run_end","t":900.0,"reason":"completed","final_step":%d}\n'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the stream of a run that is in a catalog."""
    stream = tmp_path / "runs" / "run" / "events.jsonl"
    stream.parent.mkdir(parents=True)
    stream.write_bytes(lines_of(0, 100))
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    return stream


def assert_update_is_a_build(directory: Path) -> None:
    """Update the catalog of the runs in *directory* and compare it with a new one."""
    update_catalog(directory / "catalog")
    build_catalog(directory / "runs", out=directory / "fresh")
    assert rows(directory / "fresh") == rows(directory / "catalog")


def replaced(stream: Path) -> None:
    """Put another file in the place of *stream*."""
    stream.rename(stream.with_name("before"))
    stream.write_bytes(lines_of(0, 220).replace(b'"loss": 3.0', b'"loss": 0.0'))


def shortened(stream: Path) -> None:
    """Cut *stream*."""
    os.truncate(stream, 3000)


def rewritten(stream: Path) -> None:
    """Write another, longer stream into the same file."""
    stream.write_bytes(lines_of(0, 300).replace(b'"loss"', b'"cost"'))


def resumed(stream: Path) -> None:
    """Go on with the run at an earlier step."""
    grow(stream, b'{"kind":"run_resume","t":900.0,"from_step":50}\n' + lines_of(51, 60))


def sealed(stream: Path) -> None:
    """Put a seal beside the stream, which does not hold any more."""
    grow(stream, lines_of(200, 210))
    stream.with_name(SEAL_FILE).write_bytes(b"0" * 64 + b"  events.jsonl\n")


@pytest.mark.parametrize("change", [replaced, shortened, rewritten, resumed, sealed])
def test_update_has_the_rows_of_a_build(run: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Whatever became of the stream."""
    change(run)
    assert_update_is_a_build(tmp_path)
    grow(run, lines_of(300, 310))
    assert_update_is_a_build(tmp_path)


@pytest.fixture
def long_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the stream of a run that takes more than a second to read."""
    monkeypatch.setattr(reading_runs, "longest", lambda _: 1000)
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    return run


def test_long_run_is_as_of_a_byte_until_it_ends(long_run: Path, tmp_path: Path) -> None:
    """Its row says how much of the stream it is about; the update after its end reads it whole."""
    size = long_run.stat().st_size
    for last in (110, 120):
        grow(long_run, lines_of(last - 10, last))
        assert (1, 0, 0) == update_catalog(tmp_path / "catalog")[:3]
        (found,) = Catalog(tmp_path / "catalog").runs()
        assert (99, size, size) == (found.facts.last_step, found.facts.bytes, found.facts.as_of)
    grow(long_run, END % 119)
    assert (1, 1, 0) == update_catalog(tmp_path / "catalog")[:3]
    (found,) = Catalog(tmp_path / "catalog").runs()
    assert (119, "complete", None) == (found.facts.last_step, found.facts.state, found.facts.as_of)


def test_long_run_that_stops_is_read(long_run: Path, tmp_path: Path) -> None:
    """A run whose stream did not change since the last update has crashed or waits: what it has is read."""
    grow(long_run, lines_of(100, 120))
    assert [0, 1, 0] == [update_catalog(tmp_path / "catalog").read for _ in range(3)]
    (found,) = Catalog(tmp_path / "catalog").runs()
    assert (119, long_run.stat().st_size) == (found.facts.last_step, found.facts.as_of)


def test_long_object_is_not_read_at_each_update(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an object that grows only the ends are requested."""
    monkeypatch.setattr(reading_runs, "longest", lambda _: 1 << 20)
    out, steps, key = tmp_path / "catalog", 30_000, "runs/run/events.jsonl"
    store.put(key, lines_of(0, steps))
    build_catalog(f"s3://{BUCKET}/runs", out=out)
    store.put(key, data := lines_of(0, steps + 1000))
    before = store.sent
    assert 0 == update_catalog(out).read
    assert store.sent - before < 300_000 < len(data)
    store.put(key, data + END % (steps + 999))
    assert 1 == update_catalog(out).read
    build_catalog(f"s3://{BUCKET}/runs", out=tmp_path / "fresh")
    assert rows(tmp_path / "fresh") == rows(out)
