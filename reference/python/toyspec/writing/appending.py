"""Opens a stream of another writer to append to it: reads it, then moves its fragment to a side file."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from toyspec.system_calls import named, say
from toyspec.writing.append_file import AppendFile, Options
from toyspec.writing.fragments import move_fragment
from toyspec.writing.opening import lift_seal
from toyspec.writing.stream_scan import StreamScan, refuse_compressed

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.findings import Profile

_DEFAULT = Options()


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
