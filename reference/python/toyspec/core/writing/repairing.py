"""Moves the fragment that a dead writer left after the last committed line of a stream to a side file."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Literal

import msgspec

from toyspec.core.errors import StreamMissingError, StreamRefusedError
from toyspec.core.format.line_validation import decode
from toyspec.core.format.profiles import stream_name
from toyspec.core.reading.log_detection import detect_profile_at
from toyspec.core.reading.stream_files import STREAM_NAMES, locate_stream
from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.appending import move_fragment
from toyspec.core.writing.stream_scan import StreamScan

_HEAD_BYTES = 4096
# What the first record of each profile begins with, without white space, whatever its first step is.
_STARTS = (b'{"kind":"run_start"', b'{"type":"scalar"', b'{"step":0,"wall_time_ms"')
_FIRST_STEP = re.compile(rb'^(\{"step":)[\d.]+')
_NOT_PROVEN = (
    "it has no whole record, and its bytes do not begin as one of toyspec's; the file was not changed; "
    "`toyspec check` says what it looks like"
)


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a repair."""

    path: str
    """Path of the stream."""
    change: Literal["none", "cut", "would-cut"]
    """None: there was no fragment. Would-cut: a repair that is not a dry run would cut."""
    records: int
    """Number of records in the stream; all of them stay."""
    committed_bytes: int
    """Number of bytes up to the last LF; all of them stay."""
    fragment_bytes: int
    """Number of bytes after it."""
    torn_path: str | None
    """Path of the file that has the fragment now; None without a cut."""


def repair(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    calls: SystemCalls = SYSTEM_CALLS,
) -> Repair:
    """Cut the stream *path*, or the one in the run directory *path*, after its last LF; return what was done.

    The fragment is kept as ``<stream>.torn-<offset>``. Committed lines are never cut, and a second repair does nothing.
    Raises StreamMissingError without a stream, StreamUnreadableError if it is not a regular file, StreamRefusedError if
    a writer has it open, if nothing proves that the file is a stream of toyspec, or if a committed line is damaged,
    which a cut cannot fix, and OSError if the system fails; no byte is lost then.
    """
    stream = locate_stream(os.fspath(path))
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


def _is_ours(file: AppendFile, offset: int) -> bool:
    """Return whether the bytes from *offset* on, which no record precedes, begin with a record of toyspec.

    NUL bytes, and too few bytes to say, do in a file with the name of a stream.
    """
    head = file.read(offset, _HEAD_BYTES)
    value = decode(head)
    if value is not None:
        return detect_profile_at(file.path, value) is not None
    is_named = stream_name(os.path.basename(file.path)) in STREAM_NAMES
    plain = _FIRST_STEP.sub(rb"\g<1>0", b"".join(head.split()))
    is_short = any(start.startswith(plain) for start in _STARTS)
    return plain.startswith(_STARTS) or (is_named and (is_short or not head.strip(b"\0")))


def _repaired(file: AppendFile, *, dry_run: bool) -> Repair:
    scan = StreamScan(file)
    records = sum(1 for _ in scan)
    fragment_bytes = file.size - scan.committed
    if fragment_bytes and not records and not _is_ours(file, scan.committed):
        raise StreamRefusedError(file.path, "foreign", _NOT_PROVEN)
    torn_path = None if dry_run else move_fragment(file, scan.committed)
    change: Literal["none", "cut", "would-cut"] = "none" if not fragment_bytes else "would-cut" if dry_run else "cut"
    return Repair(
        path=file.path,
        change=change,
        records=records,
        committed_bytes=scan.committed,
        fragment_bytes=fragment_bytes,
        torn_path=torn_path,
    )
