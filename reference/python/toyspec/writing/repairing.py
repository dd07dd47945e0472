"""Cuts off what a dead writer left behind the last committed line of a stream, and keeps it in a file beside."""

from __future__ import annotations

import contextlib
import os
from typing import Literal

import msgspec

from toyspec.errors import StreamMissingError
from toyspec.reading.stream_files import locate_stream
from toyspec.system_calls import SYSTEM_CALLS, SystemCalls
from toyspec.writing.append_file import AppendFile, Options
from toyspec.writing.fragments import set_aside
from toyspec.writing.stream_scan import StreamScan


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair found and did."""

    path: str
    """Path of the stream."""
    change: Literal["none", "cut", "would-cut"]
    """None: there was nothing behind the last line. Would-cut: a repair that is not a dry run would cut."""
    records: int
    """Number of records in the stream; all of them stay."""
    committed_bytes: int
    """Number of bytes up to the last LF; all of them stay."""
    fragment_bytes: int
    """Number of bytes behind it."""
    aside: str | None
    """Path of the file that has the fragment now; None without a cut."""


def repair(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    calls: SystemCalls = SYSTEM_CALLS,
) -> Repair:
    """Cut the stream at *path*, itself or in the run directory that it is, after its last LF; return what was done.

    The fragment is kept as ``<stream>.torn-<offset>``. Nothing is cut that was committed, and a second repair does
    nothing. Raise StreamMissingError without a stream, StreamRefusedError when a writer has it open or a committed
    line is damaged, which no cut can mend, and OSError when the system fails; every byte is still there then.
    """
    stream, _ = locate_stream(os.fspath(path))
    try:
        file = AppendFile.reopen(stream, missing="fail", options=Options(calls=calls))
    except FileNotFoundError:
        raise StreamMissingError(stream, "No such file or directory") from None
    try:
        result = _repaired(file, dry_run=dry_run)
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        raise
    file.close()
    return result


def _repaired(file: AppendFile, *, dry_run: bool) -> Repair:
    scan = StreamScan(file)
    records = sum(1 for _ in scan)
    fragment_bytes = file.size - scan.committed
    aside = None if dry_run else set_aside(file, scan.committed)
    change: Literal["none", "cut", "would-cut"] = "none" if not fragment_bytes else "would-cut" if dry_run else "cut"
    return Repair(
        path=file.path,
        change=change,
        records=records,
        committed_bytes=scan.committed,
        fragment_bytes=fragment_bytes,
        aside=aside,
    )
