"""Opens files for reading, so that whatever has the name of a file can neither block nor be read without end.

Files that ship with the code, such as schemas, are under ``toyspec/data`` in a wheel, else in their own directories.
The corpus is in a package of its own, ``toyspec_conformance``, which not every installation has.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import TYPE_CHECKING, Literal

from toyspec.core.errors import ToyspecError

if TYPE_CHECKING:
    import io

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# Opening does not wait if a FIFO replaces the file between stat and open, and no terminal becomes that of the process.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_KINDS = ((stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"))


class NamedFile(str):
    """A path that the user named: it may be a FIFO or a device too, whose writer is waited for. Not kept."""

    __slots__ = ()


class SpecialFileError(OSError):
    """What has the name of a file is a FIFO, a socket or a device."""


def open_file(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Return the regular file at *path*, open for reading.

    Raises OSError: IsADirectoryError for a directory, SpecialFileError for a FIFO, a socket or a device.
    """
    return open(path, "rb", opener=lambda name, _: descriptor_of(name))


def refuse_special(path: str) -> None:
    """Raise what ``open_file`` raises before it opens the file at *path*: for one that is not there or not regular."""
    _refuse_special(path, os.stat(path).st_mode)


def null_device(flags: int) -> int:
    """Return a descriptor on the null device, open with *flags*."""
    return os.open(os.devnull, flags)


def descriptor_of(path: str) -> int:
    """Return a descriptor on the regular file at *path*, or on what a NamedFile is.

    Raises what ``open_file`` raises.
    """
    mode = os.stat(path).st_mode
    if isinstance(path, NamedFile) and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return _open_shared(path, _FLAGS)
    _refuse_special(path, mode)
    descriptor = _open_shared(path, _FLAGS | _NO_WAIT)
    try:
        _refuse_special(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _open_shared(path: str, flags: int) -> int:
    """Return a descriptor that allows other processes to rename or delete the file."""
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        share_read_write_delete = 7
        handle = _winapi.CreateFile(path, _winapi.GENERIC_READ, share_read_write_delete, 0, _winapi.OPEN_EXISTING, 0, 0)
        return msvcrt.open_osfhandle(handle, flags)
    return os.open(path, flags)


def _refuse_special(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a directory, not a regular file", path)
    if not stat.S_ISREG(mode):
        kind = next((noun for is_kind, noun in _KINDS if is_kind(mode)), "device")
        raise SpecialFileError(errno.EINVAL, f"a {kind}, not a regular file", path)


Area = Literal["schemas", "spec", "conformance", "reference/emitters", "reference/skill"]


class ResourceMissingError(ToyspecError, FileNotFoundError):
    """A shipped file is not there: the corpus is not installed, or the installation is incomplete."""


def resource_path(area: Area, *parts: str) -> str:
    """Return the path of a shipped file or folder; raise ResourceMissingError when it is absent."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    root = os.path.join(package, "data")
    if not os.path.isdir(root):
        root = os.path.join(package, "..", "..", "..")
    elif area == "conformance":
        root = _corpus()
    path = os.path.normpath(os.path.join(root, area, *parts))
    if not os.path.exists(path):
        raise ResourceMissingError(f"{path} is missing; reinstall toyspec")
    return path


def _corpus() -> str:
    from importlib.util import find_spec

    found = find_spec("toyspec_conformance")
    if found is None or not found.submodule_search_locations:
        raise ResourceMissingError(
            "the corpus is not installed; install it with `python -m pip install toyspec-conformance`, "
            "or in a clone with `python -m pip install . ./conformance`"
        )
    return next(iter(found.submodule_search_locations))


def read_resource(area: Area, *parts: str) -> bytes:
    """Return the content of a shipped file; raise ResourceMissingError when it is absent."""
    with open(resource_path(area, *parts), "rb") as file:
        return file.read()
