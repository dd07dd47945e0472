from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.checker import check
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.errors import StreamUnreadableError
from toyspec.core.findings import FileReport
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record
from toyspec.core.reading.stream_files import GzipData, GzipDataError
from toyspec.core.runs.summary import summarize_ends

STREAM = (
    b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n'
    b'{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
    b'{"kind":"run_end","t":2.0,"reason":"completed"}\n'
)


def decompressed(data: bytes, size: int, piece: int) -> bytes:
    """Return what *data* holds, asked for in blocks of *size* and received in pieces of *piece* bytes."""
    file = io.BytesIO(data)
    reader = GzipData(lambda asked: file.read(min(asked, piece)), file.read(2))
    found = b""
    while block := reader.read(size):
        assert len(block) <= size
        found += block
    return found


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=3), st.integers(1, 70), st.integers(1, 40), st.integers(0, 3)
)
def test_any_members_and_pieces_give_the_bytes(parts: list[bytes], size: int, piece: int, padding: int) -> None:
    """Members follow one another, NUL may pad them, and how they are read changes nothing."""
    data = b"".join(gzip.compress(part) + bytes(padding) for part in parts)
    assert b"".join(parts) == decompressed(data, size, piece)


def test_memory_is_bounded_by_what_is_asked_for() -> None:
    """A small file that holds a large one is given block by block."""
    file = io.BytesIO(gzip.compress(bytes(50_000_000)))
    reader = GzipData(file.read, b"")
    assert 1000 == len(reader.read(1000))
    assert file.tell() < 100_000


def test_damaged_data_is_an_error() -> None:
    """A flipped bit shows in the check sum at the latest."""
    data = bytearray(gzip.compress(STREAM))
    data[-6] ^= 1
    with pytest.raises(GzipDataError, match="is damaged after"):
        decompressed(bytes(data), 64, 64)


@pytest.mark.parametrize("name", ["events.jsonl.gz", "metrics.jsonl.gz", "log.jsonl", "log"])
def test_compressed_file_is_read_and_checked_in_place(name: str, tmp_path: Path) -> None:
    """The first bytes decide, not the name; size and offsets are those of the stream in the file."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(STREAM[:100]) + gzip.compress(STREAM[100:]))
    reading = read(path, attempts="latest")
    assert [1, 2, 3] == [record.line for record in reading]
    assert ("toy/v1", "complete", len(STREAM)) == (
        reading.report.profile,
        reading.report.state,
        reading.report.size,
    )
    with path.open("rb") as file:
        assert [1, 2, 3] == [record.line for record in read(file)]
    (report,) = check(path).files
    assert ("toy/v1", "complete", True, len(STREAM)) == (report.profile, report.state, report.valid, report.bytes)
    assert 2.5 == summarize_ends(str(path)).facts.final_loss


def test_run_directory_may_have_a_compressed_stream(tmp_path: Path) -> None:
    """It is the stream of its run, and the name of the directory is compared with its run_id."""
    (tmp_path / "events.jsonl.gz").write_bytes(gzip.compress(STREAM))
    assert 3 == read(tmp_path).report.records
    (report,) = check(tmp_path).files
    assert isinstance(report, FileReport)
    assert ["run-id-mismatch"] == [finding.rule for finding in report.findings]


def test_file_that_is_cut_off_cannot_be_read_to_its_end(tmp_path: Path) -> None:
    """Its records are given up to there; a check is an error, not a verdict on a part."""
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(STREAM * 3000)[:-200])
    reading = read(path, mode="salvage")
    records: list[Record] = []
    with pytest.raises(StreamUnreadableError, match="is cut off after"):
        records.extend(reading)
    report = check(path)
    assert [] == report.files
    assert "copy the file again" in report.errors[0].message


def test_damaged_start_is_said_once() -> None:
    """The place in the unpacked log is a part of the sentence; no byte of the file is added behind its advice."""
    with pytest.raises(StreamUnreadableError, match=r"after 0 bytes of unpacked log: unknown .*; copy the file again$"):
        read(io.BytesIO(b"\x1f\x8bnull\n"))


def test_bytes_are_the_stream_itself() -> None:
    """Only files are decompressed: bytes that a caller holds are taken unchanged."""
    assert "damaged" == read(b"\x1f\x8b\n", mode="salvage").report.state


def test_compressed_file_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not grow: tail names what reads it, and check reads it."""
    path = tmp_path / "a" / "events.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(STREAM))
    for named in (path, path.parent):
        assert exit_codes.USAGE == main(["tail", str(named)])
        assert "read it with `toyspec show`" in capsys.readouterr().err
        assert exit_codes.OK == main(["check", str(named)])
        assert "1 run: complete · no findings\n" == capsys.readouterr().out
