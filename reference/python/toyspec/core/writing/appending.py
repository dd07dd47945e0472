"""Opens a stream of another writer to append to it, one that was cut, or one to repair.

The stream is read under the lock of the handle that will append to it; a damaged or foreign file is refused. What is
not a line moves to a side file.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from toyspec.core.directories import Directory, directory_of
from toyspec.core.errors import StreamMissingError, StreamRefusedError
from toyspec.core.findings import Gap
from toyspec.core.format.known_formats import look_of
from toyspec.core.format.line_validation import decode
from toyspec.core.format.profiles import stream_name
from toyspec.core.generated.looks import HEAD_BYTES
from toyspec.core.reading.log_detection import detect_profile_at
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.stream_files import STREAM_NAMES, locate_stream
from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls, named, say
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.opening import free_names, lift_seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.core.findings import Profile


_GZIP = b"\x1f\x8b"


def scanned(file: AppendFile, profile: Profile | None = None, take: Callable[[Record], object] = id) -> tuple[int, int]:
    """Hand each record of *file* to *take*; return their number, and the byte offset after the last LF.

    Raise StreamRefusedError at an unreadable line, and for a stream of another profile than *profile*; by default, for
    one without a profile.
    """
    refuse_compressed(file)
    feed = RecordFeed(detect=partial(detect_profile_at, file.path))
    count = 0
    while block := file.read(feed.size, _BLOCK_BYTES):
        for item in feed.feed(block):
            if isinstance(item, Gap):
                _refuse_gap(file, item, has_record=count > 0)
                continue
            if not count and feed.profile is None:
                _refuse_foreign(file, list(item.value))
            if not count and profile not in {None, feed.profile}:
                fact = f"it is a {feed.profile} log; {profile} records cannot be appended to it"
                raise StreamRefusedError(file.path, "foreign", f"{fact}; write them to another directory")
            count += 1
            take(item)
    if not count and feed.profile is None:
        _refuse_foreign(file)
    return count, feed.committed


def _refuse_gap(file: AppendFile, gap: Gap, *, has_record: bool) -> None:
    if not has_record and detect_profile_at(file.path, None, has_gap=True) is None:
        _refuse_foreign(file)
    damage = f"line {gap.line} is damaged ({gap.reason}: {gap.message})"
    fact = f"{damage}; the file was not changed; `toyspec check` lists the damage"
    raise StreamRefusedError(file.path, "damaged", fact)


def _refuse_foreign(file: AppendFile, keys: list[str] | None = None) -> None:
    """Raise StreamRefusedError with what *file* is, whose first record has these *keys*."""
    # Imported here: few files are refused.
    from toyspec.core.reading import log_detection

    head = file.read(0, log_detection.HEAD_BYTES)
    found = log_detection.DialectChoice().choose(head, path=file.path)
    if found is None:
        look = look_of(head[:HEAD_BYTES], keys, is_all=file.size <= HEAD_BYTES)
        fact = "; ".join(filter(None, [look.fact, "it was not changed", look.advice]))
    else:
        name = f"{found.use.name}: {found.title}"
        advice = "`toyspec check` lists what is wrong with it, and `toyspec import` makes a run of its readable lines"
        fact = f"the log of another program ({name}), which is only read; it was not changed; {advice}"
    raise StreamRefusedError(file.path, "foreign", fact)


def refuse_compressed(file: AppendFile) -> None:
    """Raise StreamRefusedError if *file* is gzip data, which cannot be appended to."""
    if file.read(0, len(_GZIP)) == _GZIP:
        raise StreamRefusedError(file.path, "foreign", "gzip data cannot be appended to; unpack it first")


_DEFAULT = Options()
_BLOCK_BYTES = 1 << 20


def open_to_append(
    path: str, learn: Callable[[AppendFile], int] | Profile, *, options: Options = _DEFAULT
) -> AppendFile:
    """Return the file *path*, locked, without bytes after its last line; it is created where it is missing.

    *learn* reads the file and returns the offset after its last line, or raises if nothing may be appended; a profile
    refuses a damaged stream, and a file of another format. The fragment moves to a side file, which is reported on
    standard error. Raises OSError, also as StreamRefusedError; nothing is changed then.
    """
    file = AppendFile.reopen(path, options=options)
    try:
        refuse_compressed(file)
        committed = learn(file) if callable(learn) else scanned(file, learn)[1]
        file.torn_path = move_fragment(file, committed)
        file.moves += lift_seal(path, options.calls)
    except BaseException as error:
        with contextlib.suppress(OSError):
            file.discard()
        if isinstance(error, OSError):
            named(error, path)
        raise
    if file.torn_path is not None:
        say(f"{path}: the bytes after the last line were moved to {file.torn_path}; no line is lost")
    return file


def remaining_lines(file: AppendFile, run_start: bytes) -> tuple[int, int, list[bytes]]:
    """Return how many lines are left as they were, where they end, and the whole lines after that.

    The writer went on at the cut, which may have joined two lines: of the lines from that place on, those that are JSON
    are returned. Where the stream does not begin with *run_start* any more, that place is its beginning.
    """
    count, end, after = 0, 0, []
    is_cut = False
    for number, (offset, line) in enumerate(_lines(file)):
        is_whole = _is_whole(line)
        is_cut = is_cut or not is_whole or (number == 0 and line.rstrip(b"\n") != run_start)
        if not is_cut:
            count, end = count + 1, offset + len(line)
        elif is_whole:
            after.append(line.rstrip(b"\n"))
    return count, end, after


def _lines(file: AppendFile) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each line; the last one may lack its LF."""
    offset, rest = 0, b""
    while block := file.read(offset + len(rest), _BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield offset, line + b"\n"
            offset += len(line) + 1
    if rest:
        yield offset, rest


def _is_whole(line: bytes) -> bool:
    if not line.endswith(b"\n"):
        return False
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except msgspec.DecodeError:
        return False


def move_fragment(file: AppendFile, offset: int) -> str | None:
    """Move the bytes of *file* from *offset* on to ``<path>.torn-<offset>``; return its path, None without bytes.

    If that name is taken, ``-2``, ``-3`` and so on are added. The copy and its name are synced before the file is cut:
    an error or a crash loses nothing.
    """
    with file.lock:
        if file.size <= offset:
            return None
        side_file = _copy(file, offset)
        try:
            file.truncate(offset)
        except OSError:
            with contextlib.suppress(OSError):
                if file.size > offset:
                    with directory_of(side_file) as (directory, name):
                        directory.delete(name)
            raise
        return side_file


def _copy(file: AppendFile, offset: int) -> str:
    wanted = f"{file.path}.torn-{offset}"
    with Directory(os.path.dirname(wanted), calls=file.calls) as directory:
        for candidate in itertools.chain([wanted], free_names(wanted, first=2)):
            name = os.path.basename(candidate)
            try:
                directory.write(name, _bytes_from(file, offset), exist="fail")
            except FileExistsError:
                continue
            try:
                directory.sync()
            except BaseException:
                with contextlib.suppress(OSError):
                    directory.delete(name)
                raise
            return candidate
    raise AssertionError("a free number always exists")


def _bytes_from(file: AppendFile, offset: int) -> Iterator[bytes]:
    while block := file.read(offset, _BLOCK_BYTES):
        offset += len(block)
        yield block


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
    records, committed = scanned(file)
    fragment_bytes = file.size - committed
    if fragment_bytes and not records and not _is_ours(file, committed):
        raise StreamRefusedError(file.path, "foreign", _NOT_PROVEN)
    torn_path = None if dry_run else move_fragment(file, committed)
    change: Literal["none", "cut", "would-cut"] = "none" if not fragment_bytes else "would-cut" if dry_run else "cut"
    return Repair(
        path=file.path,
        change=change,
        records=records,
        committed_bytes=committed,
        fragment_bytes=fragment_bytes,
        torn_path=torn_path,
    )
