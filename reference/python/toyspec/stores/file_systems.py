"""Everything that fsspec reaches: ``sftp://``, ``hdfs://``, ``memory://`` and many more."""

from __future__ import annotations

import contextlib
from errno import EACCES, ENOENT
from typing import TYPE_CHECKING, Any

import fsspec

from toyspec.core.errors import PlaceError
from toyspec.core.places.place import OWN, ChangedError, Entry, FetchedBytes, NotAPathError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What file systems call the time or the tag of a content.
_MARKS = (
    "ETag", "etag", "md5", "checksum", "blob_id", "xet_hash", "mtime", "LastModified", "last_modified", "modified",
    "created",
)  # fmt: skip
_NOT_IN_PATHS = frozenset({"", ".", ".."})


def open_place(scheme: str, host: str, query: str) -> FilePlace:
    """Return the file system of *scheme* at *host*; raise ImportError if it needs a package, and PlaceError."""
    del query
    user, _, bare = host.rpartition("@")
    try:
        kind = fsspec.get_filesystem_class(scheme)
    except ValueError:
        known = ", ".join(f"{name}://" for name in sorted(OWN))
        fact = f"{scheme}:// is not known to toyspec ({known}) or to fsspec; write ./ before the path of a file"
        raise PlaceError(f"{scheme}://{bare}", fact) from None
    options = kind._get_kwargs_from_urls(f"{scheme}://{user}{'@' if user else ''}{bare}/")  # noqa: SLF001 - as fsspec does
    return FilePlace(kind(**options, use_listings_cache=False), scheme, bare)


class FilePlace:
    """A file system of fsspec."""

    def __init__(self, system: Any, scheme: str, host: str) -> None:
        self._system = system
        self._root = f"{scheme}://{host}"
        # Some strip the host from a path, and some keep it as its first part. Without the slash at its end, file:// is
        # the current directory.
        top = self._path(f"{self._root}/").rstrip("/")
        self._strip = len(top) + 1 if top else 0

    def entries(self, address: str) -> Iterator[Entry]:
        """See Place."""
        with _reported(address):
            for _, below, files in self._system.walk(self._path(address), detail=True):
                for info in below.values():
                    self._address(info["name"])  # before it is walked
                for info in sorted(files.values(), key=lambda each: str(each["name"])):
                    yield self._entry(self._address(info["name"]), info)

    def names(self, address: str) -> list[str]:
        """See Place."""
        with _reported(address):
            if not self._system.isdir(self._path(address)):
                return []
            found = self._system.ls(self._path(address), detail=True)
            for each in found:
                self._address(each["name"])
        is_directory = {str(each["name"]).rstrip("/"): each.get("type") == "directory" for each in found}
        return sorted(f"{name.rpartition('/')[2]}{'/' if below else ''}" for name, below in is_directory.items())

    def status(self, address: str) -> Entry:
        """See Place."""
        with _reported(address):
            info = self._system.info(self._path(address))
            if info.get("type") == "directory":
                raise FileNotFoundError(ENOENT, "No such object", address)
            return self._entry(address, info)

    def read_range(self, address: str, offset: int, size: int, identity: str | None) -> FetchedBytes:
        """See Place."""
        entry = self.status(address)
        if identity is not None and entry.identity != identity:
            raise ChangedError(address)
        end = min(offset + size, entry.size)
        with _reported(address):
            data = self._system.cat_file(self._path(address), start=offset, end=end) if offset < end else b""
        if self.status(address).identity != entry.identity:
            raise ChangedError(address)
        return FetchedBytes(data, entry)

    def _path(self, address: str) -> str:
        return str(self._system._strip_protocol(address))  # noqa: SLF001 - fsspec has no other name for it

    def _address(self, name: str) -> str:
        """Return the address of the file or directory *name*, as the file system lists it; raise NotAPathError."""
        path = str(name)[self._strip :].lstrip("/")
        if not _NOT_IN_PATHS.isdisjoint(path.rstrip("/").split("/")):
            raise NotAPathError(self._root, path)
        return f"{self._root}/{path}"

    @staticmethod
    def _entry(address: str, info: dict[str, Any]) -> Entry:
        marks = [f"{mark}={info[mark]}" for mark in _MARKS if info.get(mark) is not None]
        size = info.get("size") or 0
        return Entry(address, size, ";".join([f"size={size}", *marks]))


@contextlib.contextmanager
def _reported(address: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(ENOENT, "No such object", address) from None
    except PlaceError:
        raise
    except PermissionError:
        raise PlaceError(address, "no permission; check the credentials", number=EACCES) from None
    except Exception as error:  # noqa: BLE001 - its file systems raise what their libraries raise
        # The message may have an address with a password, so only its kind is given.
        name = type(error).__name__
        raise PlaceError(address, f"the file system failed ({name}); check the address and the credentials") from None
