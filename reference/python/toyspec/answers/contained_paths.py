"""Paths below one folder: nothing outside of it is reached, through links neither."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.errors import ToyspecError
from toyspec.escaping import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN_CHARS = 200


class OutsideRootError(ToyspecError):
    """A path leads out of the folder that may be read."""


class ContainedPaths:
    """The paths below the folder *root*. Links are looked at whenever a path is asked for."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def within(self, path: str) -> str:
        """Return the real path of *path*, which is relative to the root.

        Raises OutsideRootError if it is outside, or if a link in its folder or below leads outside.
        """
        found = os.path.realpath(os.path.join(self.root, path))
        shown = shortened(path, _SHOWN_CHARS)
        if "\0" in path or not self._has(found):
            raise OutsideRootError(f"{shown!r} is outside of the folder that may be read; name a path below it")
        folder = found if os.path.isdir(found) else os.path.dirname(found)
        if any(self._is_way_out(entry) for each in _folders(folder) for entry in each):
            raise OutsideRootError(
                f"{shown!r} has a link that leads out of the folder that may be read; remove the link"
            )
        return found

    def clean_folders(self, path: str) -> tuple[list[str], int]:
        """Return the folders at or below *path* without links that lead outside, and the number of others."""
        folder = os.path.realpath(os.path.join(self.root, path))
        if not self._has(folder):
            raise OutsideRootError(f"{shortened(path, _SHOWN_CHARS)!r} is outside of the folder that may be read")
        dirty = set(self._dirty(folder))
        if not dirty:
            return [folder], 0
        clean: list[str] = []
        pending = [folder]
        while pending:
            each = pending.pop()
            if not any(other == each or other.startswith(each + os.sep) for other in dirty):
                clean.append(each)
                continue
            pending += [entry.path for entry in _entries(each) if entry.is_dir(follow_symlinks=False)]
        return sorted(clean), len(dirty)

    def name(self, path: str) -> str:
        """Return *path* relative to the root."""
        return os.path.relpath(os.path.realpath(path), self.root)

    def _dirty(self, folder: str) -> Iterator[str]:
        for entries in _folders(folder):
            if any(self._is_way_out(entry) for entry in entries):
                yield os.path.dirname(entries[0].path)

    def _has(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root.rstrip(os.sep) + os.sep)

    def _is_way_out(self, entry: os.DirEntry[str]) -> bool:
        return entry.is_symlink() and not self._has(os.path.realpath(entry.path))


def _folders(folder: str) -> Iterator[list[os.DirEntry[str]]]:
    """Yield the entries of *folder* and of each folder below it, without following links."""
    pending = [folder]
    while pending:
        entries = _entries(pending.pop())
        if entries:
            yield entries
        pending += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []
