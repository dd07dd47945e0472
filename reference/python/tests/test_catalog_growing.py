"""A catalog reads only what is new of a long run that grows, and has the rows that a build has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from growing_runs import START, entry, grow, joined, lines_of, rows, step
from loopback_store import BUCKET
from toyspec import Catalog, build_catalog, update_catalog
from toyspec.catalog import building, growing
from toyspec.format.profiles import SEAL_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from loopback_store import Handler, Store


@pytest.fixture
def long_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the stream of a run of which a catalog has kept what counts; all streams count as long."""
    monkeypatch.setattr(building, "SHORTEST", 0)
    stream = tmp_path / "runs" / "run" / "events.jsonl"
    stream.parent.mkdir(parents=True)
    stream.write_bytes(lines_of(0, 100))
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    assert [] == Catalog(tmp_path / "catalog").manifest.tails
    grow(stream, lines_of(100, 200))
    update_catalog(tmp_path / "catalog")
    assert ["index/000002.tails"] == Catalog(tmp_path / "catalog").manifest.tails
    return stream


def assert_update_is_a_build(directory: Path, workers: int = 1) -> None:
    """Update the catalog of the runs in *directory* and compare it with a new one."""
    update_catalog(directory / "catalog", workers=workers)
    build_catalog(directory / "runs", out=directory / "fresh")
    assert rows(directory / "fresh") == rows(directory / "catalog")


@pytest.mark.parametrize("workers", [1, 2])
def test_update_reads_the_tail(long_run: Path, tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there before is not read again but for its end, also by an update that keeps the run for a later one."""
    monkeypatch.setattr(growing, "_BEFORE", 64)
    grow(long_run, lines_of(200, 201))
    # A tail has the number of bytes that was usual when it was made.
    assert_update_is_a_build(tmp_path)
    more = lines_of(201, 204)
    first, second = (more.index(b"\n", at) + 20 for at in (0, len(more) // 2))
    for end, piece in [(202, more[:first]), (203, more[first:second]), (204, more[second:])]:
        # A reading from the start would find this.
        with open(long_run, "r+b") as file:
            file.seek(150)
            file.write(b"#")
            file.seek(0, os.SEEK_END)
            file.write(piece)
        update_catalog(tmp_path / "catalog", workers=workers)
        (run,) = [run for run in Catalog(tmp_path / "catalog").runs() if run.path == str(long_run)]
        assert ("torn", end - 1, end + 1) == (run.state, run.last_step, run.extent.records)


@pytest.fixture
def reads(long_run: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list that gets the place where each reading of a long run begins."""
    starts: list[int] = []
    blocks = growing._blocks_of

    def noted(path: str, start: int, place: list[int]) -> Iterator[bytes]:
        starts.append(start)
        return blocks(path, start, place)

    monkeypatch.setattr(growing, "_BEFORE", 64)
    monkeypatch.setattr(growing, "_blocks_of", noted)
    grow(long_run, lines_of(200, 210))
    update_catalog(long_run.parents[2] / "catalog")
    assert [0] == starts
    starts.clear()
    return starts


def test_end_is_read_alone(long_run: Path, tmp_path: Path, reads: list[int]) -> None:
    """The update that finds the end of a run, or damage, reads what is new; nothing is kept then."""
    size = long_run.stat().st_size
    grow(long_run, b'{"kind":"run_end","t":900.0,"reason":"completed","final_step":209}\n{]\n')
    assert_update_is_a_build(tmp_path)
    assert [size - 64] == reads
    assert [] == Catalog(tmp_path / "catalog").manifest.tails


def test_file_beside_a_run_changes(long_run: Path, tmp_path: Path, reads: list[int]) -> None:
    """The end of the stream is read, and what is kept of it stays."""
    long_run.with_name("run.json").write_text("{}", encoding="utf-8")
    for _ in range(2):
        assert_update_is_a_build(tmp_path)
        assert [long_run.stat().st_size - 64] == reads


def test_resumed_run_is_read_in_one_way(long_run: Path, tmp_path: Path, reads: list[int]) -> None:
    """What is kept of it says that it is not continued."""
    resumed(long_run)
    update_catalog(tmp_path / "catalog")
    reads.clear()
    grow(long_run, lines_of(60, 70))
    assert_update_is_a_build(tmp_path)
    assert [] == reads


def replaced(stream: Path) -> None:
    """Put another file in the place of *stream*, which has the same bytes at the place where reading would go on."""
    stream.rename(stream.with_name("before"))
    stream.write_bytes(lines_of(0, 220).replace(b'"loss": 3.0', b'"loss": 0.0'))


def shortened(stream: Path) -> None:
    """Cut *stream*."""
    os.truncate(stream, 3000)


def replaced_by_a_longer_one(stream: Path) -> None:
    """Cut *stream*, and let it grow beyond what it was."""
    os.truncate(stream, 3000)
    stream.write_bytes(stream.read_bytes().rpartition(b"\n")[0] + b"\n" + lines_of(100, 250))


def changed_before_the_end(stream: Path) -> None:
    """Change the last record but one of *stream*, which grows."""
    data = stream.read_bytes()
    stream.write_bytes(data.replace(b'"step": 199, "loss": 0.015', b'"step": 199, "loss": -9.15') + lines_of(201, 203))


def rewritten(stream: Path) -> None:
    """Write another, longer stream into the same file."""
    stream.write_bytes(lines_of(0, 300).replace(b'"loss"', b'"cost"'))


def ended(stream: Path) -> None:
    """End the run."""
    grow(stream, b'{"kind":"run_end","t":900.0,"reason":"completed","final_step":199}\n')


def resumed(stream: Path) -> None:
    """Go on with the run at an earlier step."""
    grow(stream, b'{"kind":"run_resume","t":900.0,"from_step":50}\n' + lines_of(51, 60))


def damaged(stream: Path) -> None:
    """Write a line that is not JSON."""
    grow(stream, b"{]\n" + lines_of(200, 210))


def sealed(stream: Path) -> None:
    """Put a seal beside the stream, which does not hold any more."""
    grow(stream, lines_of(200, 210))
    stream.with_name(SEAL_FILE).write_bytes(b"0" * 64 + b"  events.jsonl\n")


def with_another_tail(stream: Path) -> None:
    """Damage what was kept."""
    (tails,) = stream.parent.parent.parent.glob("catalog/index/*.tails")
    data = bytearray(tails.read_bytes())
    data[-3] ^= 1
    tails.write_bytes(data)
    grow(stream, lines_of(200, 210))


def without_tails(stream: Path) -> None:
    """Delete what was kept."""
    (tails,) = stream.parent.parent.parent.glob("catalog/index/*.tails")
    tails.unlink()
    grow(stream, lines_of(200, 210))


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (replaced, True),
        (shortened, True),
        (replaced_by_a_longer_one, True),
        (changed_before_the_end, True),
        (rewritten, True),
        (ended, False),
        (resumed, True),
        (damaged, False),
        (sealed, False),
        (with_another_tail, True),
        (without_tails, True),
    ],
)
def test_what_is_not_a_continuation(
    long_run: Path, tmp_path: Path, change: Callable[[Path], None], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that is another one is read whole, and something is kept of it again if that is possible."""
    monkeypatch.setattr(growing, "_BEFORE", 200)
    grow(long_run, lines_of(200, 201))
    update_catalog(tmp_path / "catalog")
    change(long_run)
    assert_update_is_a_build(tmp_path)
    assert kept == bool(Catalog(tmp_path / "catalog").manifest.tails)
    grow(long_run, lines_of(300, 310))
    assert_update_is_a_build(tmp_path)


def test_run_that_is_gone_is_not_kept(long_run: Path, tmp_path: Path) -> None:
    """What was kept of an unchanged run stays, and that of one that is gone is dropped."""
    other = tmp_path / "runs" / "other" / "events.jsonl"
    other.parent.mkdir()
    other.write_bytes(lines_of(0, 5))
    update_catalog(tmp_path / "catalog")
    (tails,) = Catalog(tmp_path / "catalog").manifest.tails
    assert str(long_run).encode() in (tmp_path / "catalog" / tails).read_bytes()
    long_run.unlink()
    update_catalog(tmp_path / "catalog")
    assert [] == Catalog(tmp_path / "catalog").manifest.tails
    assert [] == list(tmp_path.glob("catalog/index/*.tails"))


def test_values_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog with values keeps nothing: it needs every value."""
    monkeypatch.setattr(building, "SHORTEST", 0)
    stream = tmp_path / "runs" / "run" / "events.jsonl"
    stream.parent.mkdir(parents=True)
    stream.write_bytes(lines_of(0, 100))
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog", values=True)
    grow(stream, lines_of(100, 120))
    update_catalog(tmp_path / "catalog")
    assert [] == Catalog(tmp_path / "catalog").manifest.tails
    assert [(120,)] == Catalog(tmp_path / "catalog").query("select count(*) from values").rows


def test_object_that_grows(store: Store, tmp_path: Path) -> None:
    """Of a longer object in the place of an object only what is new is requested, and the last 64 KiB before it."""
    out, steps, key = tmp_path / "catalog", 30_000, "runs/run/events.jsonl"
    for number in range(4):
        data = lines_of(0, steps + 100 * number)
        store.put(key, data)
        store.requests.clear()
        before = store.sent
        report = (build_catalog(f"s3://{BUCKET}/runs", out=out) if number == 0 else update_catalog(out))[:3]
        assert (1, 1, 0) == report
        sent = store.sent - before
        assert sent > len(data) if number < 2 else sent < (1 << 16) + 100 * 100 + 20_000, (number, sent)
        (run,) = Catalog(out).runs()
        assert (steps + 100 * number - 1, len(data)) == (run.last_step, run.extent.size)
    store.put(key, lines_of(0, steps + 500).replace(b"3.0", b"4.0"))
    update_catalog(out)
    build_catalog(f"s3://{BUCKET}/runs", out=tmp_path / "fresh")
    assert rows(tmp_path / "fresh") == rows(out)


def test_object_that_is_replaced_while_it_is_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a row has is of one object."""
    monkeypatch.setattr(building, "SHORTEST", 0)
    monkeypatch.setattr(growing, "_BLOCK", 1 << 10)
    monkeypatch.setattr(growing, "_BEFORE", 64)
    out, key, ranges = tmp_path / "catalog", "runs/run/events.jsonl", []

    def replace(handler: Handler) -> bool:
        ranges.extend([handler.path] * (handler.path.endswith("/events.jsonl") and "Range" in handler.headers))
        if len(ranges) == 2:
            store.put(key, joined([START, *(step(number, extra={"acc": 0.5}) for number in range(900))]))
        return False

    store.put(key, lines_of(0, 100))
    build_catalog(f"s3://{BUCKET}/runs", out=out)
    for steps in (200, 700):
        store.put(key, lines_of(0, steps))
        store.every = replace if steps == 700 else None
        update_catalog(out)
    (run,) = Catalog(out).runs()
    assert ("torn", 899, 901) == (run.state, run.last_step, run.extent.records)


@pytest.mark.parametrize("last", ["whole line", "fragment"])
def test_object_of_one_line_that_grows(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """What it is is decided by its first line, when that is complete."""
    monkeypatch.setattr(building, "SHORTEST", 0)
    line, out = entry(0), tmp_path / "catalog"
    for number, end in enumerate([5, 6, len(line), None]):
        data = line[:end] if end else line + b"\n" + entry(1) + (b"\n" if last == "whole line" else b"")
        store.put("runs/run/events.jsonl", data)
        build_catalog(f"s3://{BUCKET}/runs", out=tmp_path / "fresh")
        _ = update_catalog(out) if number else build_catalog(f"s3://{BUCKET}/runs", out=out)
        assert rows(tmp_path / "fresh") == rows(out)
