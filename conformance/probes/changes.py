"""Changes to a file that is followed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def append(path: str, data: bytes) -> int:
    """Write *data* at the end of the file at *path*, which is created if it does not exist; return its new size."""
    with open(path, "ab") as file:
        file.write(data)
        return file.tell()


def overwrite(path: str, data: bytes) -> None:
    """Overwrite the first bytes of the file at *path*; it stays the same file."""
    with open(path, "r+b") as file:
        file.write(data)


def replace(path: str, data: bytes) -> None:
    """Replace the file at *path* by another file."""
    with open(f"{path}.new", "wb") as file:
        file.write(data)
    os.replace(f"{path}.new", path)


def rename(path: str, name: str) -> None:
    """Give the file at *path* another name in its folder."""
    os.rename(path, os.path.join(os.path.dirname(path), name))


def manifest(path: str, data: bytes) -> None:
    """Write run.json beside the file at *path*."""
    with open(os.path.join(os.path.dirname(path), "run.json"), "wb") as file:
        file.write(data)


_CHANGES: Mapping[str, Callable[[str, Any], object]] = {
    "append": lambda path, text: append(path, text.encode()),
    "append_hex": lambda path, text: append(path, bytes.fromhex(text)),
    "overwrite": lambda path, text: overwrite(path, text.encode()),
    "replace": lambda path, text: replace(path, text.encode()),
    "rename": rename,
    "manifest": lambda path, text: manifest(path, text.encode()),
    "truncate": os.truncate,
    "remove": lambda path, _: os.remove(path),
}


def change(path: str, step: Mapping[str, Any]) -> None:
    """Apply *step* of a case to the file at *path*."""
    ((name, value),) = step.items()
    _CHANGES[name](path, value)
