"""Tests of reading whole streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import account, drained
from toyspec.core.errors import DamagedStreamError, TornStreamError
from toyspec.core.findings import Gap, ReadReport
from toyspec.core.generated.limits import MAX_LISTED_GAPS
from toyspec.core.generated.toy_v1 import RunStart, Step
from toyspec.core.reading.reader import Mode, read
from toyspec.core.reading.records import Record, RecordFeed

BOM = b"\xef\xbb\xbf"
START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}\n'
STEPS = [b'{"kind":"step","t":%d.0,"step":%d,"loss":1.5}\n' % (i, i) for i in range(1, 4)]
END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'
RUN = START + b"".join(STEPS) + END
MODES: tuple[Mode, ...] = ("strict", "tail", "prefix", "salvage")

PIECES = [START, *STEPS, END, b"\n", b" \r\n", b"{}", b"\n\n", b'{"kind":', b"\x00", b"\x00\n", b"NaN\n", b"\xff\n"]
PIECES += [
    b'{"a":NaN}\n',
    b'{"a":1,"a":2}\n',
    b"[]\n",
    b"x" * 300,
    b"\xef\xbb\xbf",
    b'{"type":"scalar","step":1,"tag":"a"}\n',
]
PIECES += [b'{"step":1,"wall_time_ms":2.0}\n', b'{"kind":"run_resume","t":1.0,"from_step":1}\n', b'{"kind":7}\n']
STREAMS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.binary(max_size=60))
LIMIT = 200


def test_complete_run_gives_its_records_and_a_fullaccount() -> None:
    """Each record carries its bytes, place, kind, value and typed event."""
    reading = read(RUN)
    records = list(reading)

    assert [line.rstrip(b"\n") for line in (START, *STEPS, END)] == [record.raw for record in records]
    assert [1, 2, 3, 4, 5] == [record.line for record in records]
    assert [RUN.index(record.raw) for record in records] == [record.offset for record in records]
    assert ["run_start", "step", "step", "step", "run_end"] == [record.kind for record in records]
    assert {"kind": "step", "t": 1.0, "step": 1, "loss": 1.5} == records[1].value
    assert Step(t=1.0, step=1, loss=1.5) == records[1].event
    assert isinstance(records[0].event, RunStart)
    expected = ReadReport(
        state="complete",
        profile="toy/v1",
        records=5,
        committed_bytes=len(RUN),
        fragment=None,
        uncommitted=None,
        gaps=[],
        unlisted_gaps=0,
        gap_bytes=0,
        size=len(RUN),
    )
    assert expected == reading.report


@given(STREAMS, st.sampled_from(MODES), st.sampled_from(["all", "latest"]))
def test_every_byte_is_accounted_for(data: bytes, mode: Mode, attempts: str) -> None:
    """Committed bytes, fragment and gaps add up to the size, in every mode, for any bytes, raised or not."""
    records, report = drained(data, mode=mode, attempts=attempts, max_line_bytes=LIMIT)

    assert len(data) == report.size == sum(account(report))
    assert report.gap_bytes == sum(gap.length for gap in report.gaps)
    assert (report.records == len(records)) or attempts == "latest"
    taken = bytearray(len(data))
    for gap in report.gaps:
        taken[gap.offset : gap.offset + gap.length] = b"\x01" * gap.length
    for record in records:
        assert record.raw == data[record.offset : record.offset + len(record.raw)]
        assert not any(taken[record.offset : record.offset + len(record.raw) + 1])


@given(STREAMS, st.lists(st.integers(1, 50), max_size=20))
def test_any_chunking_is_one_read(data: bytes, sizes: list[int]) -> None:
    """A feed that gets a stream in pieces finds what a reading of the whole finds."""
    # A feed of records knows the profiles alone; a reading may take the stream for the log of another program.
    records, report = drained(data, mode="salvage", max_line_bytes=LIMIT, dialect=None)
    feed = RecordFeed(max_line_bytes=LIMIT)
    found: list[Record | Gap] = []
    rest = data
    for size in sizes:
        found += feed.feed(rest[:size])
        rest = rest[size:]
    found += feed.feed(rest)

    assert records == [item for item in found if isinstance(item, Record)]
    assert report.gaps == [item for item in found if isinstance(item, Gap)]
    assert (report.state, report.profile, report.fragment) == (feed.state, feed.profile, feed.fragment())
    assert report.uncommitted == feed.uncommitted()


@pytest.mark.parametrize(
    ("mode", "data", "line", "offset", "message"),
    [
        ("tail", START + b"{\n", 2, 60, "invalid-json: expected a key in double quotes, found the end of the line"),
        ("tail", START + b"x" * 201 + b"\n", 2, 60, "line-too-long: the line has 201 bytes; the limit is 200"),
        ("tail", BOM + START, 1, 0, "byte-order-mark: the stream starts with a byte order mark (EF BB BF)"),
        ("strict", START + b'{"k', 2, 60, "unterminated-line: the last line has 3 bytes and no LF at its end"),
        ("strict", START + bytes(9), 2, 60, "nul-bytes: the stream ends with 9 NUL bytes instead of LF"),
        ("strict", START + STEPS[0], 2, 60, "run-end-missing: the stream ends without `run_end`"),
        ("strict", b"\n\n", 1, 0, "stream-empty: the stream has 2 bytes and no record"),
    ],
)
def test_damage_and_torn_end_name_path_line_and_offset(
    mode: Mode, data: bytes, line: int, offset: int, message: str
) -> None:
    """The exception says where the damage is, or what is missing where, and has the report."""
    reading = read(data, mode=mode, max_line_bytes=200)
    with pytest.raises(DamagedStreamError if mode == "tail" else TornStreamError) as caught:
        list(reading)
    error = caught.value
    assert ("<bytes>", line, offset, f"<bytes>:{line}: {message}") == (error.path, error.line, error.offset, str(error))
    assert error.report is reading.report


def test_strict_gives_every_record_before_it_refuses_the_end() -> None:
    """A caller that takes records one by one loses none to the exception."""
    reading = read(START + STEPS[0], mode="strict")
    assert ["run_start", "step"] == [next(reading).kind, next(reading).kind]
    with pytest.raises(TornStreamError):
        next(reading)
    assert 2 == reading.report.records


def test_complete_record_without_its_lf_is_shown_apart() -> None:
    """Such a record is not committed, and no record of the reading."""
    records, report = drained(START + END[:-1])
    assert ["run_start"] == [record.kind for record in records]
    assert report.uncommitted is not None
    assert report.fragment is not None
    assert ("run_end", 2, len(START)) == (report.uncommitted["kind"], report.fragment.number, report.fragment.offset)
    assert drained(START + END[:-2])[1].uncommitted is None


def test_record_gives_its_members() -> None:
    """Its members are those of its value."""
    record = next(read(STEPS[0]))
    assert (1.5, None, True) == (record["loss"], record.get("no"), "t" in record)


def test_record_shows_itself_on_one_line() -> None:
    """The representation of a hostile record is short and inert."""
    record = next(read(b'{"a":"' + "\u202e".encode() * 99 + b'"}\n'))
    assert repr(record).startswith('<Record line=1 offset=0 b\'{"a":"\\xe2\\x80\\xae')
    assert len(repr(record)) < 300


def test_gaps_beyond_the_list_are_counted() -> None:
    """A stream of a million bad lines has a short report with exact totals."""
    report = drained(b"{\n" * (MAX_LISTED_GAPS + 7), mode="salvage")[1]
    assert (MAX_LISTED_GAPS, 7, 2 * (MAX_LISTED_GAPS + 7)) == (len(report.gaps), report.unlisted_gaps, report.gap_bytes)


def test_report_needs_the_whole_reading() -> None:
    """A reading that was closed halfway has no account to give."""
    with read(RUN) as reading:
        next(reading)
    with pytest.raises(ValueError, match="closed before its end"):
        _ = reading.report
