"""Sets aside what a dead writer left behind the last committed line, so that the next line does not join it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from toyspec.system_calls import sync_directory, write_new_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.writing.append_file import AppendFile

_BLOCK_BYTES = 1 << 20


def set_aside(file: AppendFile, offset: int) -> str | None:
    """Move the bytes of *file* from *offset* on into ``<path>.torn-<offset>``; return its path, None without bytes.

    The copy is whole and on its device before the file is cut, so that a second attempt after a crash, or after
    an error, loses nothing. A copy of other bytes that has the name already is kept: a number is added.
    """
    with file.lock:
        if file.size <= offset:
            return None
        aside = _copy(file, offset)
        file.truncate(offset)
        return aside


def _copy(file: AppendFile, offset: int) -> str:
    directory, name = os.path.split(f"{file.path}.torn-{offset}")
    temporary = os.path.join(directory, f"{name}.tmp")
    try:
        write_new_file(file.calls, temporary, _bytes_from(file, offset))
        aside = _free_name(os.path.join(directory, name), temporary)
        file.calls.replace(temporary, aside)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(file.calls, directory)
    return aside


def _bytes_from(file: AppendFile, offset: int) -> Iterator[bytes]:
    while block := file.read(offset, _BLOCK_BYTES):
        offset += len(block)
        yield block


def _free_name(name: str, content: str) -> str:
    """Return *name*, or with a number behind it, such that no file of other bytes than *content* has it."""
    candidate, number = name, 1
    while os.path.exists(candidate) and not _same_bytes(candidate, content):
        number += 1
        candidate = f"{name}.{number}"
    return candidate


def _same_bytes(first: str, second: str) -> bool:
    if os.path.getsize(first) != os.path.getsize(second):
        return False
    with open(first, "rb") as one, open(second, "rb") as other:
        while block := one.read(_BLOCK_BYTES):
            if block != other.read(_BLOCK_BYTES):
                return False
    return True
