"""Finds out where a file of a run lies: in its bundle, or outside, from where it is copied or only referred to."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from toyspec.core.files import open_file
from toyspec.core.places.addresses import is_address, without_secrets
from toyspec.core.writing.opening import free_names

FOLDER: Final = "artifacts"
"""Folder of the bundle that files from outside are copied into."""

MOST_HASHED_BYTES: Final = 1 << 28
"""A larger file is not hashed while the training waits."""

_BLOCK_BYTES: Final = 1 << 20


class PlacedFile(NamedTuple):
    """How a file is named in the log."""

    kind: Literal["artifact", "reference"]
    members: dict[str, Any]
    """``path`` or ``uri``, and ``size_bytes`` and ``sha256`` where the file is there."""


def placed_file(directory: str, path: str | os.PathLike[str], *, copy: bool) -> PlacedFile:
    """Return how the file *path* belongs to the bundle *directory*; with *copy*, copy one from outside into it.

    A relative path is one in the bundle, else one in the working directory. Raise OSError where copying fails.
    """
    given = os.fspath(path)
    if is_address(given):
        return PlacedFile("reference", {"uri": without_secrets(given)})
    root = os.path.realpath(directory)
    inside = os.path.join(root, given)
    found = inside if _is_in(inside, root) and (os.path.exists(inside) or not os.path.exists(given)) else given
    if not _is_in(found, root) and copy:
        found = _copied(found, root)
    if _is_in(found, root):
        relative = os.path.relpath(os.path.realpath(found), root)
        return PlacedFile("artifact", {"path": Path(relative).as_posix(), **_facts(found)})
    return PlacedFile("reference", {"uri": Path(os.path.abspath(found)).as_uri(), **_facts(found)})


def _is_in(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(root, ""))


def _copied(path: str, root: str) -> str:
    folder = os.path.join(root, FOLDER)
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, os.path.basename(path))
    if os.path.lexists(target):
        target = next(free_names(target, first=2))
    shutil.copyfile(path, target)
    return target


def _facts(path: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            facts["size_bytes"] = os.path.getsize(path)
            if facts["size_bytes"] <= MOST_HASHED_BYTES:
                facts["sha256"] = _digest(path)
    return facts


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(_BLOCK_BYTES):
            found.update(block)
    return found.hexdigest()
