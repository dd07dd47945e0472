"""Files that come into the bundle with an import."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Final

from toyspec.convert.losses import Cause
from toyspec.core.format.run_files import MEDIA_FOLDER, parts_below
from toyspec.core.writing.artifacts import FOLDER, placed_file
from toyspec.core.writing.opening import free_names

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_COPIED_BYTES: Final = 1 << 26
"""A larger artifact stays where it is."""

MISSING_FILE = Cause("missing-file", "dropped", "its file is not there, lies elsewhere, or is not what its record says")
LARGE_FILE = Cause("large-file", "changed", "a file of more than 64 MiB stays where it is: a `reference` names it")


def placed_artifact(path: str, name: str, directory: str) -> dict[str, Any]:
    """Bring the file *path* into the bundle *directory*, and return kind and members of its event; raise OSError.

    *name* is its path below the folder of artifacts, with ``/``. A large file stays where it is: the event is a
    ``reference``.
    """
    if os.stat(path).st_size > MOST_COPIED_BYTES:
        found = placed_file(directory, os.path.abspath(path), copy=False)
        return {"kind": found.kind, **found.members}
    target = os.path.join(directory, FOLDER, *(parts_below(name) or ["file"]))
    if os.path.lexists(target):
        target = next(free_names(target, first=2))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(path, target)
    found = placed_file(directory, os.path.relpath(target, directory), copy=False)
    return {"kind": found.kind, **found.members}


def file_below(root: str, relative: object) -> str | None:
    """Return the regular file at the path *relative* to the directory *root*, which a log names.

    None where there is none, and for a path that leaves *root*, also by a link.
    """
    if not isinstance(relative, str) or not relative or "\0" in relative:
        return None
    path = os.path.realpath(os.path.join(root, *relative.replace("\\", "/").split("/")))
    is_below = path.startswith(os.path.join(os.path.realpath(root), ""))
    return path if is_below and not os.path.isabs(relative) and os.path.isfile(path) else None


def files_to_bring(partial: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield each file that an import brought into *partial*, and its place in the bundle *target*."""
    for folder in (MEDIA_FOLDER, FOLDER):
        for place, _, names in os.walk(os.path.join(partial, folder)):
            for name in sorted(names):
                path = os.path.join(place, name)
                yield path, os.path.join(target, os.path.relpath(path, partial))
