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
from toyspec.catalog import growing
from toyspec.catalog.growing import RESUMED
from toyspec.catalog.reading_runs import Job, Plan, read_batch
from toyspec.generated.limits import MAX_FINDINGS_PER_RULE
from toyspec.reading.log_detection import DialectChoice
from toyspec.runs.discovery import Stream, find_streams

if TYPE_CHECKING:
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


READ_WHOLE = frozenset([18, 20, 25, 27, 28, 30, 32])


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


TOY = [START, *map(step, range(9))]
TEXT = [b"{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.1}"] * 1000


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


def test_stream_vanishes(tmp_path: Path) -> None:
    """A run that is gone since it was listed is an error of its own."""
    (tmp_path / "events.jsonl").write_bytes(lines_of(0, 5))
    (stream,) = find_streams(str(tmp_path))
    (tmp_path / "events.jsonl").unlink()
    assert isinstance(stream, Stream)
    (run,) = read_batch([Job(stream, b"")], PLAN)
    assert ("e", "No such file or directory") == (run.kind, run.error)
