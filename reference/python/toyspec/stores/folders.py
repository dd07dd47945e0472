"""A directory of this machine, or of one that is mounted: streams grow in it as their writers let them grow."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import time
from errno import ENOENT
from typing import TYPE_CHECKING

from toyspec.core.directories import Directory
from toyspec.core.errors import PlaceError
from toyspec.core.files import open_file
from toyspec.core.places.place import ChangedError, Entry, FetchedBytes
from toyspec.core.system_calls import SYSTEM_CALLS, cause_of, try_lock
from toyspec.stores.transfers import ShortenedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.stores.transfers import LocalFile

_BLOCK_BYTES = 1 << 20
_DAY_SECONDS = 86_400.0
_HOST = re.sub(r"[^A-Za-z0-9-]", "-", platform.node()) or "host"
_LEFTOVER = re.compile(r"\..+\.(?P<host>[A-Za-z0-9-]+)\.(?P<process>[0-9]+)\.new")


class Folder:
    """Files by their addresses ``file:///…``; a place for reading too."""

    appends = True

    def __init__(self, root: str) -> None:
        """Write below the address *root*, and through no link there."""
        self._root = root

    def entries(self, address: str) -> Iterator[Entry]:
        """See Place."""
        for directory, _, names in os.walk(_path(address)):
            for name in names:
                if _LEFTOVER.fullmatch(name):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    path = os.path.join(directory, name)
                    relative = os.path.relpath(path, _path(address)).replace(os.sep, "/")
                    yield self.status(f"{address}/{relative}")

    def status(self, address: str) -> Entry:
        """See Place."""
        with _reported(address):
            found = os.stat(_path(address))
        return Entry(address, found.st_size, f"{found.st_size}-{found.st_mtime_ns}")

    def read_range(self, address: str, offset: int, size: int, identity: str | None) -> FetchedBytes:
        """See Place."""
        entry = self.status(address)
        if identity is not None and entry.identity != identity:
            raise ChangedError(address)
        with _reported(address), open_file(_path(address)) as file:
            file.seek(offset)
            return FetchedBytes(file.read(size), entry)

    def put(self, file: LocalFile, address: str, known: Entry | None, shared: int = 0) -> Entry:
        """See Target."""
        if known is None or not shared:
            self._write(file.blocks(_BLOCK_BYTES), address, known)
        else:
            with _reported(address), self._locked(address, known) as descriptor:
                _append(descriptor, file, shared)
        return self.status(address)

    def copy(self, base: Entry, address: str) -> None:
        """See Target."""
        with _reported(base.address), open_file(_path(base.address)) as file:
            self._write(iter(lambda: file.read(_BLOCK_BYTES), b""), address, None)

    def _write(self, blocks: Iterator[bytes], address: str, known: Entry | None) -> None:
        """Write a file beside the one at *address*, and give it the name at once."""
        with _reported(address), self._place(address) as (directory, name):
            _remove_leftovers(directory)
            new = f".{name}.{_HOST}.{os.getpid()}.new"
            directory.write(new, blocks)
            try:
                if known is not None:
                    with self._locked(address, known):
                        directory.move(new, name)
                else:
                    directory.link(new, name)
            except FileExistsError:
                raise ChangedError(address) from None
            finally:
                directory.delete(new)
            directory.sync()

    @contextlib.contextmanager
    def _place(self, address: str) -> Iterator[tuple[Directory, str]]:
        *folders, name = os.path.relpath(_path(address), _path(self._root)).split(os.sep)
        with Directory(_path(self._root), missing="make") as root, root.folder(*folders) as directory:
            yield directory, name

    @contextlib.contextmanager
    def _locked(self, address: str, known: Entry) -> Iterator[int]:
        """Open the file *known*, which no other process may have locked, for appending."""
        with self._place(address) as (directory, name):
            descriptor = directory.existing(name, os.O_APPEND)
        try:
            try_lock(SYSTEM_CALLS, descriptor)
            if self.status(address).identity != known.identity:
                raise ChangedError(address)
            yield descriptor
        except BlockingIOError:
            raise ChangedError(address) from None
        finally:
            os.close(descriptor)


def _path(address: str) -> str:
    path = address.partition("://")[2]
    return path.lstrip("/") if os.name == "nt" else path


def _append(descriptor: int, file: LocalFile, size: int) -> None:
    """Append *file* from *size* on to a file of so many bytes, or nothing: what a failed write has left is removed."""
    try:
        for block in file.blocks(_BLOCK_BYTES, size):
            rest = memoryview(block)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _remove_leftovers(directory: Directory) -> None:
    """Remove what processes that were killed have left in *directory*; those of other machines after a day."""
    with os.scandir(directory.path) as entries:
        found = [(entry, _LEFTOVER.fullmatch(entry.name)) for entry in entries]
    for entry, name in found:
        with contextlib.suppress(FileNotFoundError):
            if name is not None and (_is_gone(name) or entry.stat().st_mtime < time.time() - _DAY_SECONDS):
                directory.delete(entry.name)


def _is_gone(name: re.Match[str]) -> bool:
    """Return whether the process that *name* names was one of this machine, and has ended."""
    if name["host"] != _HOST or os.name != "posix":
        return False
    try:
        os.kill(int(name["process"]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


@contextlib.contextmanager
def _reported(address: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(ENOENT, "No such file", address) from None
    except (PlaceError, ShortenedError):
        raise
    except OSError as error:
        raise PlaceError(address, f"{cause_of(error)}; check the directory", number=error.errno or 0) from None
