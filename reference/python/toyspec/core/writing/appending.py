"""Opens a stream of another writer to append to it, or one that was cut: what is not a line moves to a side file."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING

import msgspec

from toyspec.core.system_calls import named, say, sync_directory, write_new_file
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.opening import free_names, lift_seal
from toyspec.core.writing.stream_scan import StreamScan, refuse_compressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.core.findings import Profile

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
        committed = learn(file) if callable(learn) else StreamScan(file, profile=learn).read_all()
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


def clear_from(file: AppendFile, offset: int) -> None:
    """Let *file* end at *offset*; what is after it moves to a side file, and the kept digest is void."""
    file.digest = None
    side_file = move_fragment(file, offset)
    file.torn_path = side_file or file.torn_path


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
                    os.unlink(side_file)
            raise
        return side_file


def _copy(file: AppendFile, offset: int) -> str:
    name = f"{file.path}.torn-{offset}"
    for candidate in itertools.chain([name], free_names(name, first=2)):
        try:
            write_new_file(file.calls, candidate, _bytes_from(file, offset), exist="fail")
        except FileExistsError:
            continue
        try:
            sync_directory(file.calls, os.path.dirname(candidate))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(candidate)
            raise
        return candidate
    raise AssertionError("a free number always exists")


def _bytes_from(file: AppendFile, offset: int) -> Iterator[bytes]:
    while block := file.read(offset, _BLOCK_BYTES):
        offset += len(block)
        yield block
