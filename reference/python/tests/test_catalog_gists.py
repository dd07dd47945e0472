"""What is kept of a run that grows: with it, a reading goes on as if it had begun at the start."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from growing_runs import START, entry, grow, joined, lines_of, step
from property_examples import examples
from strategies import kinds, lines, valid_records
from toyspec.catalog import gists, growing
from toyspec.catalog.growing import RESUMED
from toyspec.catalog.reading_runs import Job, Plan, read_batch
from toyspec.catalog.tails import Tails
from toyspec.generated.limits import MAX_FINDINGS_PER_RULE
from toyspec.reading.log_detection import DialectChoice
from toyspec.runs.discovery import Stream, find_streams

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAN = Plan(DialectChoice(), with_values=False)


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
        b'{"step":%d,"loss":0.5,"wall_time_ms":1}' % number,
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
        patch.setattr(growing, "_BLOCK", data.draw(st.sampled_from([16, 100, 1 << 20])))
        tail = b""
        for cut in [*sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4))), len(stream)]:
            with open(path, "ab") as file:
                file.write(stream[file.tell() : cut])
            tail, row = read(path, tail)
            assert row == read(path, None)[1]


COMPARING = START.replace(b"}}", b'},"compare_to":"base"}')
COMPARISON = b'{"kind":"compare","t":99,"step":1,"baseline_run_id":"base","verdict":"par"}'
END = b'{"kind":"run_end","t":900.0,"reason":"completed","final_step":9,"final_loss":9.5}'
READ_WHOLE = frozenset([18, 20, 25, 27, 28, 30, 32])


@pytest.mark.parametrize("at", range(len(odd_lines(1))))
def test_each_odd_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A run with such a line is continued; it is read whole where the gist would not be enough."""
    monkeypatch.setattr(growing, "_BLOCK", 16)
    parts = [START, *map(step, range(5))], [odd_lines(5)[at], *map(step, range(6, 9))], [odd_lines(9)[at], step(10)]
    assert [True, at not in READ_WHOLE, at not in READ_WHOLE] == are_kept(tmp_path / "events.jsonl", *parts)


def are_kept(path: Path, *parts: list[bytes]) -> list[bool]:
    """Return whether something is kept of a stream after each of *parts*; each has the row of a reading of all."""
    tail, kept = b"", []
    for part in parts:
        grow(path, joined(part))
        tail, row = read(path, tail)
        assert row == read(path, None)[1]
        kept.append(tail not in (b"", RESUMED))
    return kept


@pytest.mark.parametrize("at", range(len(odd_lines(1))))
def test_each_odd_line_at_the_end(tmp_path: Path, at: int) -> None:
    """What follows depends on such a line, or on those before."""
    parts = (
        [START, *map(step, range(5)), odd_lines(5)[at]],
        [step(6), odd_lines(7)[at]],
        [step(8), *odd_lines(9)[18:20]],
    )
    are_kept(tmp_path / "events.jsonl", *parts)


def region(kind: str, name: str, time: float, **more: Any) -> bytes:
    """Return an event at the begin or at the end of a region."""
    return json.dumps({"kind": f"region_{kind}", "t": time, "region": name, **more}).encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([START, step(4), step(5, step="x")], [step(6)]),
        ([START.replace(b'"t"', b'"phase":"eval","t"'), step(4)], [step(5, phase="eval")]),
        ([step(4, phase="train")], [START.replace(b'"t"', b'"phase":"eval","t"')]),
        ([START, step(4)], [b'{"kind":"note","t":9.0,"text":"x"}']),
        (
            [START, b'{"kind":"define","t":1,"name":"x","goal":"max"}', step(4, extra={"x": 0.9})],
            [step(5, extra={"x": 0.5})],
        ),
        ([START, step(4), step(5, bogus=1)], [step(6)]),
        ([START, step(4), step(5), step(4, bogus=1)], [step(6)]),
        ([START, step(4), b'{"kind":"step","t":5.5,"step":5}'], [END]),
        ([START, step(4), step(5, phase="eval")], [END]),
        ([START, step(4), b'{"kind":"unknown","t":5,"step":9,"loss":0.5}'], [step(5), END]),
        ([START, step(4), b'{"kind":["step"],"t":9.5}'], [step(5)]),
        ([START, step(4), b'{"kind":"step","t":5.5,"step":5,"loss":1,"host":"\\ud800"}'], [step(6)]),
        ([START, b'{"kind":"define","t":99,"name":"loss"}', b'{"kind":"define","name":"loss"}'], [step(5)]),
        ([COMPARING, step(4), COMPARISON], [step(5), END]),
        ([START, step(4), region("enter", "a", 99), region("exit", "a", 100)], [step(5)]),
        ([START, region("enter", "a", 1)], [region("exit", "a", 2)]),
        ([START, *[region("enter", each, 1) for each in "ab"], region("exit", "b", 2)], [region("exit", "a", 3)]),
        ([START, *[region("enter", "a", 1)] * 2, region("exit", "a", 2)], [region("exit", "a", 3)]),
        (
            [
                START,
                region("enter", "a", 1, bogus=1),
                *[region(*each, 1) for each in (("exit", "a"), ("enter", "b"), ("exit", "b"))],
            ],
            [region("exit", "a", 3)],
        ),
        ([START, b'{"kind":"region_enter","t":1,"region":7}'], [b'{"kind":"region_exit","t":1,"region":7}']),
        ([entry(4), entry(5).replace(b', "wall_time_ms": 50', b"")], [entry(6, wall_time_ms=10)]),
        ([entry(0), entry(1, kind="x", t=1.0), entry(2)], [entry(3)]),
        ([entry(0), entry(1, kind=[1], phase=[2]), entry(2)], [entry(1)]),
        ([entry(0), entry(5, kind="region_enter", region="a")], [entry(4)]),
    ],
)
def test_what_a_later_line_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: list[bytes], after: list[bytes]
) -> None:
    """A line has the findings that it has after the whole stream, however it is read."""
    monkeypatch.setattr(growing, "_BLOCK", 16)
    are_kept(tmp_path / "events.jsonl", before, after, after)


TOY = [START, *map(step, range(9))]
TEXT = [b"iter 1: loss 2.5000, time 20.00ms, mfu 30.00%"] * 2000


@pytest.mark.parametrize(
    ("name", "data", "kept"),
    [
        ("events.jsonl", joined(TOY), True),
        ("events.jsonl", joined(TOY) + b'{"kind":"st', True),
        ("metrics.jsonl", joined(map(entry, range(9))), True),
        ("events.jsonl", joined(map(entry, range(9))), True),
        ("other.jsonl", joined(TOY), False),
        ("events.jsonl", b"", False),
        ("events.jsonl", START, False),
        ("events.jsonl", joined([b"", b"{]"]), False),
        ("events.jsonl", joined([b'{"a":1}']), False),
        ("events.jsonl", joined([START.replace(b"0.1", b"1" + b"0" * 30), *map(step, range(9))]), False),
        ("events.jsonl", joined([*map(step, range(9)), START]), False),
        ("events.jsonl", joined([*TEXT, *TOY]), False),
        ("events.jsonl", gzip.compress(joined(TOY), compresslevel=0), False),
        ("events.jsonl", joined(TOY) + b" " * 2000, False),
        ("metrics.jsonl", joined([b'{"current_steps": 1, "total_steps": 2, "loss": 1.5, "lr": 0.1}']), False),
    ],
)
def test_of_what_something_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, kept: bool
) -> None:
    """Whatever it is, it has the row of a reading from the start, now and when it has grown."""
    monkeypatch.setattr(growing, "_MOST_UNCOMMITTED", 1000)
    (tmp_path / name).write_bytes(data)
    tail, row = read(tmp_path / name, b"")
    assert (kept, read(tmp_path / name, None)[1]) == (tail not in (b"", RESUMED), row)
    grow(tmp_path / name, b"\n" + joined(map(step, range(9, 12))))
    assert read(tmp_path / name, None)[1] == read(tmp_path / name, tail)[1]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (lambda number: step(10 * number), True),
        (lambda number: step(10_000 - number, t=number), True),
        (lambda number: step(number, t=10_000 - number), True),
        (lambda number: entry(10_000 - number, wall_time_ms=number), True),
        (lambda number: entry(number, wall_time_ms=10_000 - number), True),
        (lambda number: step(number, loss="x"), False),
    ],
)
def test_more_findings_than_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: Callable[[int], bytes], kept: bool
) -> None:
    """A run that logs every tenth step is continued; one with very many findings in records is read whole."""
    if kept:
        # Lines with such findings count no more than others.
        monkeypatch.setattr(gists, "_MOST_BYTES", 1000)
    found = list(map(line, range(3 * MAX_FINDINGS_PER_RULE)))
    start = [START] if b"kind" in found[0] else []
    parts = [*start, *found[: 2 * MAX_FINDINGS_PER_RULE]], found[2 * MAX_FINDINGS_PER_RULE :]
    assert [kept, kept] == are_kept(tmp_path / "events.jsonl", *parts)


def test_gist_that_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept where too many lines count."""
    monkeypatch.setattr(gists, "_MOST_BYTES", 300)
    parts = [START, step(0)], [step(1, phase=f"phase-{number}") for number in range(9)]
    assert [True, False] == are_kept(tmp_path / "events.jsonl", *parts)


def test_run_of_kaun_is_read_whole(tmp_path: Path) -> None:
    """Its manifest says what it is."""
    (tmp_path / "run.json").write_text('{"run_id": "run", "state": "running"}', encoding="utf-8")
    scalars = [b'{"type":"scalar","t":1.0,"step":%d,"tag":"loss","value":0.5}' % number for number in range(9)]
    assert [False, False] == are_kept(tmp_path / "events.jsonl", scalars, scalars)


def test_stream_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read up to where it ended when it was opened."""
    monkeypatch.setattr(growing, "_BLOCK", 16)
    (tmp_path / "events.jsonl").write_bytes(lines_of(0, 5))
    found = b""
    for block in growing._blocks_of(str(tmp_path / "events.jsonl"), 7, []):
        found += block
        grow(tmp_path / "events.jsonl", b"more\n")
    assert lines_of(0, 5)[7:] == found


def test_tails_that_are_cut_or_damaged(tmp_path: Path) -> None:
    """What is found of a damaged file is what was kept, or nothing."""
    names, file = ["runs/a", "runs/b"], str(tmp_path / "tails")
    kept = dict(zip(names, [b"tail of a", b"tail of b"], strict=True))
    tails = Tails(None)
    for name, tail in kept.items():
        tails.keep(name, tail)
    assert tails.write(file, [])
    assert [*kept.values(), b""] == [Tails(file).find(name) for name in [*names, "runs/c"]]
    data = (tmp_path / "tails").read_bytes()
    damaged = [data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :] for at in range(len(data))]
    for text in [*(data[:end] for end in range(len(data))), *damaged]:
        (tmp_path / "tails").write_bytes(text)
        assert all(Tails(file).find(name) in (b"", kept[name]) for name in names)
    (tmp_path / "tails").write_bytes(data)
    again = Tails(file)
    again.keep("runs/a", b"new")
    assert again.write(str(tmp_path / "next"), ["runs/b"])
    assert [b"new", b""] == [Tails(str(tmp_path / "next")).find(name) for name in names]
    assert not Tails(file).write(str(tmp_path / "none"), names)


def test_stream_vanishes(tmp_path: Path) -> None:
    """A run that is gone since it was listed is an error of its own."""
    (tmp_path / "events.jsonl").write_bytes(lines_of(0, 5))
    (stream,) = find_streams(str(tmp_path))
    (tmp_path / "events.jsonl").unlink()
    assert isinstance(stream, Stream)
    (run,) = read_batch([Job(stream, b"")], PLAN)
    assert ("e", "No such file or directory") == (run.kind, run.error)
