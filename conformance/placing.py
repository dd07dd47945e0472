"""Writes the folder of a case to disk, with the entries that no archive of the corpus can hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.cases import Case

ENTRIES = ("text", "directory", "link", "link_outside")
"""What an entry of a case can be."""


def place(case: Case, folder: str) -> str:
    """Return the path of a new directory in *folder* with everything that *case* has; raise OSError."""
    directory = os.path.join(folder, os.path.basename(case.folder))
    os.mkdir(directory)
    for name, data in case.files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, data)
    for name, entry in case.entries.items():
        _place_entry(directory, name, entry)
    return directory


def _place_entry(directory: str, name: str, entry: Mapping[str, Any]) -> None:
    path = os.path.join(directory, name)
    if "directory" in entry:
        os.mkdir(path)
    elif "link" in entry:
        os.symlink(entry["link"], path)
    elif "link_outside" in entry:
        target = f"{directory}.outside"
        _write(target, entry["link_outside"].encode())
        os.symlink(target, path)
    else:
        _write(path, entry["text"].encode())


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
