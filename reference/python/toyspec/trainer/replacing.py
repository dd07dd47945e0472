"""Files that have their name only when they are whole."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from toyspec.system_calls import SYSTEM_CALLS, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def replaced(path: str) -> Iterator[str]:
    """Give another name in the directory of *path*; what was written under it then becomes *path*, at once.

    When the body fails, *path* stays as it was and the other file is removed.
    """
    directory, name = os.path.split(path)
    unfinished = os.path.join(directory, f".{name}.unfinished")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Write *value* to the file *path*, which never holds a part of it, and force it to the device."""
    with replaced(path) as unfinished:
        with open(unfinished, "w", encoding="utf-8", newline="\n") as file:
            json.dump(value, file, indent=1, ensure_ascii=False, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        sync_directory(SYSTEM_CALLS, os.path.dirname(path))
