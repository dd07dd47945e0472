"""A catalog reads only what is new of a long run that grows, and has the rows that a build has."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from loopback_store import BUCKET
from property_examples import examples
from strategies import kinds, lines, valid_records
from toyspec import Catalog, build_catalog, update_catalog
from toyspec.catalog import building, growing
from toyspec.catalog.growing import RESUMED
from toyspec.catalog.reading_runs import Job, Plan, read_batch
from toyspec.catalog.rows import COLUMNS
from toyspec.format.profiles import SEAL_FILE
from toyspec.generated.limits import MAX_FINDINGS_PER_RULE
from toyspec.reading.log_detection import DialectChoice
from toyspec.runs.discovery import Stream, find_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from loopback_store import Store

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run","config":{"lr":0.1}}'
PLAN = Plan(DialectChoice(), with_values=False)


def step(number: int, **more: Any) -> bytes:
    """Return a step event."""
    return json.dumps({"kind": "step", "t": number + 0.5, "step": number, "loss": 3.0 / (1 + number), **more}).encode()


def entry(number: int, **more: Any) -> bytes:
    """Return an entry of a metrics log."""
    return json.dumps({"step": number, "loss": 1.0 / (1 + number), "wall_time_ms": 10 * number, **more}).encode()


def odd_lines(number: int) -> list[bytes]:
    """Return lines that rules, or the summary, remember."""
    region = b'{"kind":"region_%%s","t":%d,"region":"%%s"}' % number
    return [
        step(number + 3), step(max(0, number - 2)), step(number, t=0.0), step(number, loss=None), step(number, bogus=1),
        step(number, loss="x"), step(number).replace(b"1", b"1.0"), step(number) + b"\r", b"", b" ",
        step(number, phase="eval"), step(number, phase="decode", loss=0.25), step(number, phase=3),
        step(number, t=2**60),        step(number, extra={"acc": None, "n": 2**54}),
        step(number, step=2**70), step(number, kind="stepp"),
        *(region % pair for pair in [(b"enter", b"a"), (b"exit", b"a"), (b"enter", b"b"), (b"exit", b"b")]),
        b'{"kind":"compare","t":%d,"step":1}' % number, b'{"kind":"unknown","t":%d}' % number,
        b'{"kind":"define","name":"extra/acc","goal":"max"}', b'{"kind":"scalars","t":%d,"values":{"x":1}}' % number,
        b'{"kind":"run_end","t":%d,"reason":"completed","final_step":%d}' % (number, number), START, b"[]",
        b'{"kind":"run_resume","t":%d,"from_step":1}' % number, b'{"t":%d,"t":3}' % number, b"\xff",
        b'\xef\xbb\xbf{"t":1}',
    ]  # fmt: skip


@st.composite
def long_streams(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw the name of a stream and a stream: mostly records in order, and sometimes anything."""
    profile = draw(st.sampled_from(["toy/v1", "toy/v1", "metrics/v1"]))
    usual = entry if profile == "metrics/v1" else step
    found = [] if profile == "metrics/v1" or draw(st.integers(0, 9)) == 0 else [START]
    for number in range(draw(st.integers(1, 40))):
        choice = draw(st.integers(0, 60))
        if choice < 52:
            found.append(usual(number))
        elif choice < 58:
            found.append(draw(st.sampled_from(odd_lines(number))))
            if profile == "metrics/v1":
                odd = [entry(number, loss=None), entry(number, bogus=2), entry(0), found[-1]]
                found[-1] = draw(st.sampled_from(odd))
        elif choice < 60:
            found.append(json.dumps(draw(valid_records(profile, draw(st.sampled_from(kinds(profile)))))).encode())
        else:
            found.append(draw(lines(profile)))
    stream = b"".join(line + b"\n" for line in found)
    name = "metrics.jsonl" if profile == "metrics/v1" else "events.jsonl"
    return name, stream[: len(stream) - draw(st.sampled_from([0, 0, 1, 9]))]


def read(path: Path, tail: bytes | None) -> tuple[bytes, tuple[Any, ...]]:
    """Return what is kept of the stream at *path*, of which *tail* was, and all that a catalog has of it."""
    (stream,) = find_streams(str(path))
    assert isinstance(stream, Stream)
    (run,) = read_batch([Job(stream, tail)], PLAN)
    return run.tail, (run.kind, run.line, run.values, run.error)


@settings(max_examples=examples(150), deadline=None)
@given(drawn=long_streams(), data=st.data())
def test_steps_of_growth(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[str, bytes], data: st.DataObject
) -> None:
    """After each step of growth, cut anywhere, the row is that of a reading from the start."""
    name, stream = drawn
    path = tmp_path_factory.mktemp("run") / name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "_BEFORE", data.draw(st.sampled_from([8, 1 << 16])))
        tail = b""
        for cut in [*sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4))), len(stream)]:
            with open(path, "ab") as file:
                file.write(stream[file.tell() : cut])
            tail, row = read(path, tail)
            assert row == read(path, None)[1]


READ_WHOLE = frozenset([18, 20, 25, 27, 28, 30, 31])


@pytest.mark.parametrize("at", range(len(odd_lines(1))))
def test_each_odd_line(tmp_path: Path, at: int) -> None:
    """A run with such a line is continued; it is read whole where the gist would not be enough."""
    parts = [START, *map(step, range(5))], [odd_lines(5)[at], *map(step, range(6, 9))], [odd_lines(9)[at], step(10)]
    tail, kept = b"", []
    for part in parts:
        with open(tmp_path / "events.jsonl", "ab") as file:
            file.write(b"".join(line + b"\n" for line in part))
        tail, row = read(tmp_path / "events.jsonl", tail)
        assert row == read(tmp_path / "events.jsonl", None)[1]
        kept.append(tail not in (b"", RESUMED))
    assert [True, at not in READ_WHOLE, at not in READ_WHOLE] == kept


@pytest.mark.parametrize("findings", ["of order", "of records"])
def test_more_findings_than_are_listed(tmp_path: Path, findings: str) -> None:
    """A run that logs every tenth step is continued; one with very many findings in records is read whole."""
    more = {} if findings == "of order" else {"loss": "x"}
    found = [step(10 * number, **more) for number in range(3 * MAX_FINDINGS_PER_RULE)]
    tail = b""
    for end in (2 * MAX_FINDINGS_PER_RULE, len(found)):
        (tmp_path / "events.jsonl").write_bytes(b"".join(line + b"\n" for line in [START, *found[:end]]))
        tail, row = read(tmp_path / "events.jsonl", tail)
        assert row == read(tmp_path / "events.jsonl", None)[1]
        assert bool(tail) == (findings == "of order")


def lines_of(first: int, last: int) -> bytes:
    """Return the steps of a stream from *first* to before *last*, with its start."""
    start = [START] if first == 0 else []
    return b"".join(line + b"\n" for line in [*start, *map(step, range(first, last))])


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


def grow(stream: Path, data: bytes) -> None:
    """Append *data* to a stream."""
    with open(stream, "ab") as file:
        file.write(data)


def assert_update_is_a_build(directory: Path, workers: int = 1) -> None:
    """Update the catalog of the runs in *directory* and compare it with a new one."""
    update_catalog(directory / "catalog", workers=workers)
    build_catalog(directory / "runs", out=directory / "fresh")
    assert rows(directory / "fresh") == rows(directory / "catalog")


def rows(catalog: Path) -> list[dict[str, Any]]:
    """Return the rows of a catalog, without names that no run has any more."""
    answer = Catalog(catalog).query("select * from runs order by stream")
    found = [zip(answer.columns, row, strict=True) for row in answer.rows]
    return [{name: value for name, value in row if name in COLUMNS or value is not None} for row in found]


@pytest.mark.parametrize("workers", [1, 2])
def test_update_reads_the_tail(long_run: Path, tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there before is not read again but for its end, also by an update that keeps the run for a later one."""
    monkeypatch.setattr(growing, "_BEFORE", 64)
    grow(long_run, lines_of(200, 201))
    # A tail has the number of bytes that was usual when it was made.
    assert_update_is_a_build(tmp_path)
    for end in (202, 203):
        # A reading from the start would find this.
        with open(long_run, "r+b") as file:
            file.seek(150)
            file.write(b"#")
            file.seek(0, os.SEEK_END)
            file.write(lines_of(end - 1, end))
        update_catalog(tmp_path / "catalog", workers=workers)
        (run,) = [run for run in Catalog(tmp_path / "catalog").runs() if run.path == str(long_run)]
        assert ("torn", end - 1, end + 1) == (run.state, run.last_step, run.extent.records)


def test_end_is_read_alone(long_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The update that finds the end of a run, or damage, reads what is new; nothing is kept then."""
    reads: list[int] = []
    blocks = growing._blocks_of

    def noted(path: str, start: int, place: list[int]) -> Iterator[bytes]:
        reads.append(start)
        return blocks(path, start, place)

    monkeypatch.setattr(growing, "_BEFORE", 64)
    monkeypatch.setattr(growing, "_blocks_of", noted)
    grow(long_run, lines_of(200, 210))
    assert_update_is_a_build(tmp_path)
    size = long_run.stat().st_size
    grow(long_run, b'{"kind":"run_end","t":900.0,"reason":"completed","final_step":209}\n{]\n')
    assert_update_is_a_build(tmp_path)
    assert [0, size - 64] == reads
    assert [] == Catalog(tmp_path / "catalog").manifest.tails


def replaced(stream: Path) -> None:
    """Put another file in the place of *stream*, which has the same bytes at the place where reading would go on."""
    stream.rename(stream.with_name("before"))
    stream.write_bytes(lines_of(0, 220).replace(b'"loss": 3.0', b'"loss": 0.0'))


def shortened(stream: Path) -> None:
    """Cut *stream*."""
    os.truncate(stream, 3000)


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
    "change", [replaced, shortened, rewritten, ended, resumed, damaged, sealed, with_another_tail, without_tails]
)
def test_what_is_not_a_continuation(
    long_run: Path, tmp_path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that is another one, or of which nothing can be kept, is read whole."""
    monkeypatch.setattr(growing, "_BEFORE", 64)
    grow(long_run, lines_of(200, 201))
    update_catalog(tmp_path / "catalog")
    change(long_run)
    assert_update_is_a_build(tmp_path)
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
