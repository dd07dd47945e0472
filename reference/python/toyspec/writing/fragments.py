"""Moves the fragment of a dead writer to a side file, so that the next line does not join it."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING

from toyspec.system_calls import sync_directory, write_new_file
from toyspec.writing.opening import free_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.writing.append_file import AppendFile

_BLOCK_BYTES = 1 << 20


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
