"""The folder of a catalog: which files belong to it, and who may write them.

``catalog.json`` names the files. It is replaced last, so that a build that is killed leaves the earlier catalog.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.directories import Directory, directory_of
from toyspec.core.errors import CatalogError
from toyspec.core.files import open_file
from toyspec.core.findings import PathError
from toyspec.core.system_calls import SYSTEM_CALLS, cause_of, is_at, sync_file, try_lock
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MANIFEST = "catalog.json"
LAYOUT = 12
"""Version of the layout: another one is not read."""

_LOCK = ".lock"
_WORK = ".work"
_FOLDERS = ("runs", "names", "index")
_NAME = re.compile(rf"({'|'.join(_FOLDERS)})/[A-Za-z0-9_-][A-Za-z0-9._-]*")
_held: set[int] = set()
"""Descriptors of the locks that this process holds."""
_OWN = (".parquet", ".records")
"""How the names of the files end that a catalog has, and removes."""


class Manifest(msgspec.Struct, kw_only=True):
    """The content of ``catalog.json``."""

    catalog: int = LAYOUT
    toyspec: str = __version__
    roots: list[str]
    """Absolute paths and addresses of what was searched."""
    health: list[dict[str, Any]] | None = None
    """The health rules whose incidents the runs have, in full; None if they were not asked for."""
    generation: int = 1
    """Number of times that the catalog was written."""
    count: int = 0
    """Number of runs."""
    skipped: int = 0
    """Number of files of other formats."""
    errors: list[PathError] = []
    """What could not be read."""
    runs: list[str] = []
    """Paths of the files of the table of runs in the catalog."""
    names: list[str] = []
    """Paths of the files with the names of settings, metrics and findings: one for each of ``runs``."""
    former: list[str] = []
    """Paths of the files of the catalog before that it does not have: those who opened that one still read them."""
    index: list[str] = []
    """The path of the records of everything that was found, by which an update knows what has changed."""


class _Version(msgspec.Struct):
    catalog: int
    toyspec: str = "?"
    roots: list[str] = []


def read_manifest(catalog: str) -> Manifest:
    """Return the manifest of the directory *catalog*; raise CatalogError."""
    path = os.path.join(catalog, MANIFEST)
    try:
        with open_file(path) as file:
            data = file.read()
    except FileNotFoundError:
        raise CatalogError(catalog, "not a catalog; make one with `toyspec catalog build ROOT --out DIR`") from None
    except OSError as error:
        raise CatalogError(path, f"cannot be read: {cause_of(error)}") from None
    try:
        version = msgspec.json.decode(data, type=_Version)
        if version.catalog != LAYOUT:
            fact = f"layout {version.catalog}, written by toyspec {version.toyspec}; this version reads layout {LAYOUT}"
            raise CatalogError(catalog, f"{fact}; {again(catalog, version.roots)}, or use that version")
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CatalogError(path, f"not the file of a catalog: {error}; build it again") from None
    names = (*manifest.runs, *manifest.names, *manifest.former, *manifest.index)
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise CatalogError(path, f"names {wrong!r}, which is not a file of a catalog; build it again")
    _refuse_links(catalog)
    return manifest


def _refuse_links(catalog: str) -> None:
    """Raise CatalogError if a folder of *catalog* or a file in one is a symbolic link, which may lead anywhere."""
    for folder in (os.path.join(catalog, name) for name in _FOLDERS):
        links = [folder] if os.path.islink(folder) else []
        if not links and os.path.isdir(folder):
            links = [each.path for each in os.scandir(folder) if each.is_symlink()]
        if links:
            raise CatalogError(links[0], "a symbolic link, which no catalog has; remove it, or build another one")


def again(catalog: str, roots: Sequence[str]) -> str:
    """Return the advice to build the directory *catalog* of *roots* again."""
    return f"build it again with `{shlex.join(['toyspec', 'catalog', 'build', *roots, '--out', catalog])}`"


def unreadable(catalog: str, manifest: Manifest, error: Exception) -> CatalogError:
    """Return the error for a catalog whose files cannot be read, with what to do."""
    fact = str(error).partition("\n")[0]
    if read_manifest(catalog).generation != manifest.generation:
        return CatalogError(catalog, f"was written twice while it was read ({fact}); try again")
    return CatalogError(catalog, f"cannot be read: {fact}; {again(catalog, manifest.roots)}")


def write_manifest(catalog: str, manifest: Manifest) -> None:
    """Make the files of *manifest* the catalog, and remove all others."""
    with Directory(catalog) as directory:
        for path in (*manifest.runs, *manifest.names, *manifest.index):
            place, name = path.split("/")
            with directory.folder(place) as folder:
                descriptor = folder.existing(name)
            try:
                sync_file(SYSTEM_CALLS, descriptor)
            finally:
                os.close(descriptor)
        directory.replace(MANIFEST, [msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"])
        directory.sync()
        known = {*manifest.runs, *manifest.names, *manifest.former, *manifest.index}
        for place in _FOLDERS:
            with directory.folder(place) as folder:
                for name in os.listdir(folder.path):
                    if f"{place}/{name}" not in known and name.endswith(_OWN):
                        folder.delete(name)


@contextlib.contextmanager
def writing(catalog: str) -> Iterator[str]:
    """Hold the directory *catalog*, which is made, and yield an empty directory for temporary files in it.

    A first build that fails leaves nothing of its own. Raises CatalogError if another process writes the catalog, or if
    the directory has other things in it.
    """
    made = _missing(catalog)
    try:
        os.makedirs(catalog, exist_ok=True)
    except OSError as error:
        fact = f"the directory cannot be made: {cause_of(error)}; name another one with --out"
        raise CatalogError(catalog, fact) from None
    others = [name for name in os.listdir(catalog) if not name.startswith(".")]
    # A first build that was killed has left some of its own.
    if not _is_catalog(catalog) and not {*others} <= {*_FOLDERS, f"{MANIFEST}.new"}:
        raise CatalogError(catalog, "the directory is not empty and not a catalog; name another one with --out")
    _refuse_links(catalog)
    lock = _locked(catalog)
    with Directory(catalog) as directory:
        try:
            # What a killed build has left.
            directory.delete_tree(_WORK)
            with directory.folder(_WORK) as work:
                yield work.path
        finally:
            directory.delete_tree(_WORK)
            if not _is_catalog(catalog):
                _remove_beginning(directory, made)
            _unlock(lock)


def _release_in_child() -> None:
    """Close the locks that a fork has copied: a worker that outlives its builder must not hold the catalog."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)


def _locked(catalog: str) -> int:
    """Return the descriptor of the lock of the directory *catalog*; raise CatalogError if another process has it."""
    path = os.path.join(catalog, _LOCK)
    while True:
        os.makedirs(catalog, exist_ok=True)
        with directory_of(path) as (directory, name):
            lock = directory.existing(name, os.O_CREAT)
        _held.add(lock)
        try:
            try_lock(SYSTEM_CALLS, lock)
            # A first build that failed removes its lock, which another process may have opened before.
            if is_at(path, lock):
                return lock
        except BlockingIOError:
            _unlock(lock)
            fact = "another process is writing this catalog; wait until it has ended, or choose another --out"
            raise CatalogError(catalog, fact) from None
        _unlock(lock)


def _unlock(lock: int) -> None:
    _held.discard(lock)
    os.close(lock)


def _missing(path: str) -> list[str]:
    """Return *path* and the directories above it that are not there, the deepest first."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    return missing


def _remove_beginning(directory: Directory, made: Sequence[str]) -> None:
    """Remove what a first build has written into *directory*, and the directories that it has *made*."""
    with contextlib.suppress(OSError):
        for folder in _FOLDERS:
            directory.delete_tree(folder)
        for name in (f"{MANIFEST}.new", _LOCK):
            directory.delete(name)
        for path in made:
            os.rmdir(path)


def _is_catalog(directory: str) -> bool:
    return os.path.lexists(os.path.join(directory, MANIFEST))
