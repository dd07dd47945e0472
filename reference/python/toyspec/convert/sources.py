"""Finds and identifies the files of a source."""

from __future__ import annotations

import hashlib
import os
import stat
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.reports import NO_PLACE
from toyspec.core.files import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toyspec.convert.reports import Ledger


# A deeper tree is a mistake, or a loop of mounts.
_MAX_DEPTH = 40


def head_of(path: str, size: int = 4096) -> bytes:
    """Return the first *size* bytes of the regular file at *path*; none of anything else."""
    if not is_file(path):
        return b""
    with open_file(path) as file:
        return file.read(size)


def json_of(text: Any) -> Any:
    """Return the value of the JSON *text*; None for anything that is not JSON, or is nested too deep."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError):
        return None


def number_in(text: str | bytes) -> float:
    """Return the number that *text* is, an integer exactly; raise ValueError if it is not one."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def is_file(path: str) -> bool:
    """Return whether *path* is a regular file; raise OSError if it cannot be found out."""
    return stat.S_ISREG(os.stat(path).st_mode)


def files_below(
    path: str, wanted: Callable[[str], bool], refused: list[tuple[str, OSError]] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield each directory at or below *path* and its files, sorted, whose name is *wanted*; only where there is one.

    Links to directories are not followed. A directory that cannot be listed raises OSError if it is *path* itself; each
    other one is added to *refused* with its error.
    """
    pending = [(path, 0)]
    while pending:
        directory, depth = pending.pop()
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            if directory == path:
                raise
            if refused is not None:
                refused.append((directory, error))
            continue
        found = [entry.path for entry in entries if wanted(entry.name) and entry.is_file()]
        if found:
            yield directory, found
        if depth < _MAX_DEPTH:
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            pending += [(entry, depth + 1) for entry in reversed(below)]


def identity_of(files: Iterable[str], extra: str = "") -> str:
    """Return a text that changes when one of *files* is changed, added or removed.

    It is made from names, sizes and times of modification: a source may be too large to be read twice.
    """
    digest = hashlib.sha256(extra.encode("utf-8", "surrogatepass"))
    for file in files:
        status = os.stat(file)
        entry = f"{os.path.basename(file)}\0{status.st_size}\0{status.st_mtime_ns}\n"
        digest.update(entry.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def files_at(path: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """Yield the file *path*, or each file in the directory *path* and below whose name is *wanted*."""
    if os.path.isdir(path):
        yield from (file for _, files in files_below(path, wanted) for file in files)
    elif is_file(path):
        yield path


def drop_files(root: str, directory: str, ledger: Ledger, *, but: str | None = None) -> None:
    """Drop each file at and below *directory*, which may be missing, but those below *but*; paths are from *root*."""
    if not os.path.isdir(directory):
        return
    for folder, files in files_below(directory, bool):
        if but is None or os.path.commonpath([folder, but]) != but:
            for file in files:
                ledger.lose(NO_PLACE, os.path.relpath(file, root), f"{os.path.getsize(file)} bytes")


def name_below(root: str, directory: str) -> str:
    """Return the name of a run in *directory*, found in a search from *root*: its relative path, or its own name."""
    relative = os.path.relpath(directory, root)
    return os.path.basename(os.path.abspath(directory)) if relative == os.curdir else relative.replace(os.sep, "-")


def needed(module: str, extra: str, purpose: str) -> Any:
    """Return *module*; raise ImportError with what to install for *purpose* if it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {package}: pip install 'toyspec[{extra}]'") from error
