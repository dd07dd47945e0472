"""What must hold for any bytes: one function for each part that meets bytes of others."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable
from pathlib import Path

from toyspec.core.checker import check_bytes
from toyspec.core.errors import DamagedStreamError, StreamRefusedError, TornStreamError
from toyspec.core.findings import Gap, ReadReport
from toyspec.core.reading.reader import Mode, read
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.stream_files import GZIP_MAGIC
from toyspec.core.writing.appending import repair

MODES: tuple[Mode, ...] = ("strict", "tail", "prefix", "salvage")


def survey(data: bytes) -> tuple[list[bytes], ReadReport]:
    """Return the records and the report of *data* in mode salvage, after trying the other modes against them."""
    reading = read(data, mode="salvage")
    records = [bytes(record.raw) for record in reading]
    report = reading.report
    _demand_account(data, report)
    for mode in MODES:
        _demand_mode(data, mode, records, report)
    return records, report


def check(data: bytes) -> None:
    """Demand that checker and reader agree about *data*, and that findings name places that exist."""
    report, reading = check_bytes(data), read(data, mode="salvage").report
    assert (report.state, report.profile, report.records) == (reading.state, reading.profile, reading.records)
    assert report.bytes == len(data)
    lines = data.count(b"\n") + 1
    for finding in report.findings:
        assert 1 <= finding.line <= lines
        assert 0 <= finding.offset <= len(data)
        assert all(" " <= character for character in finding.message + finding.help)


def feed_in_pieces(data: bytes, chance: random.Random) -> None:
    """Demand that *data* in pieces gives what it gives at once."""
    whole, pieces = RecordFeed(), RecordFeed()
    expected = whole.feed(data)
    found: list[Record | Gap] = []
    place = 0
    while place < len(data):
        size = chance.choice([1, 2, 7, 64, 1000])
        found += pieces.feed(data[place : place + size])
        place += size
    assert [(item.line, item.offset) for item in expected] == [(item.line, item.offset) for item in found]
    assert (whole.state, whole.fragment(), whole.gap_bytes) == (pieces.state, pieces.fragment(), pieces.gap_bytes)


def fix(data: bytes, folder: Path) -> None:
    """Demand that a repair of *data* keeps every byte, in the stream or beside it, and that a second does nothing.

    A damaged stream, one of another format and one that begins like gzip are refused and stay unchanged. One without a
    record may be.
    """
    stream = folder / "events.jsonl"
    for old in folder.iterdir():
        old.unlink()
    stream.write_bytes(data)
    report = read(data, mode="salvage").report
    is_left_alone = bool(report.gaps) or report.profile is None or data.startswith(GZIP_MAGIC)
    try:
        done = repair(stream)
    except StreamRefusedError:
        # Without a record, the fragment alone says whether the file is a stream.
        if not is_left_alone and (report.records or report.fragment is None):
            raise
        assert data == stream.read_bytes()
        return
    assert not is_left_alone
    committed = data.rfind(b"\n") + 1
    assert data[:committed] == stream.read_bytes()
    assert data[committed:] == (b"" if done.torn_path is None else Path(done.torn_path).read_bytes())
    assert repair(stream).change == "none"


def examine(data: bytes, folder: Path, chance: random.Random) -> None:
    """Demand all of it."""
    survey(data)
    check(data)
    feed_in_pieces(data, chance)
    fix(data, folder)


def _demand_account(data: bytes, report: ReadReport) -> None:
    assert len(data) == report.size
    assert len(data) == report.committed_bytes + report.fragment_bytes + report.gap_bytes
    listed = sum(gap.length for gap in report.gaps)
    assert listed <= report.gap_bytes
    assert bool(report.unlisted_gaps) or listed == report.gap_bytes


def _demand_mode(data: bytes, mode: Mode, records: list[bytes], whole: ReadReport) -> None:
    # A file is unpacked where it begins like gzip, bytes never are: tests of gzip data look at such files.
    reading = read(data if data.startswith(GZIP_MAGIC) else io.BytesIO(data), mode=mode)
    found: list[bytes] = []
    failure: Exception | None = None
    try:
        found.extend(bytes(record.raw) for record in reading)
    except (DamagedStreamError, TornStreamError) as error:
        failure = error
    _demand_account(data, reading.report if failure is None else _report_of(failure))
    first_gap = whole.gaps[0].offset if whole.gaps else len(data)
    before = _before(records, data[:first_gap], whole)
    assert found == (records if mode == "salvage" else before)
    assert (mode == "strict" and whole.state != "complete") == (failure is not None) or mode == "tail"
    assert mode != "tail" or bool(whole.gaps) == (failure is not None)


def _report_of(failure: Exception) -> ReadReport:
    assert isinstance(failure, DamagedStreamError | TornStreamError)
    report = failure.report
    assert isinstance(report, ReadReport)
    return report


def _before(records: Iterable[bytes], data: bytes, whole: ReadReport) -> list[bytes]:
    """Return those of *records* that are in *data*, in their order."""
    kept, place = [], 0
    for record in records:
        found = _found(record, data, place, whole)
        if found < 0:
            break
        place = found + len(record)
        kept.append(record)
    return kept


def _found(record: bytes, data: bytes, place: int, whole: ReadReport) -> int:
    # A record of another program's log may be a part of a line or have several: an object in a document.
    if whole.dialect is not None:
        return data.find(record, place)
    line = record + b"\n"
    if place == 0 and data.startswith(line):
        return 0
    at = data.find(b"\n" + line, max(place, 0))
    return -1 if at < 0 else at + 1
