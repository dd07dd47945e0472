"""What an update keeps of a long run that grows, so that the next update reads only what is new: see ``growing``."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.findings import Severity
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_FORMAT = f"toyspec tails 2 {__version__}\n".encode()
_NUMBER = 8
_DIGEST = 16


class Tail(msgspec.Struct, array_like=True):
    """What counts of the first bytes of a stream."""

    place: list[int]
    """Device and inode; none of an object in a store, which is another one each time."""
    offset: int
    """Number of bytes, up to the end of a line."""
    before: int
    """Number of bytes before the offset that have the digest."""
    digest: bytes
    profile: str
    gist: bytes
    records: int
    """Number of records that are not in the gist."""
    findings: dict[str, tuple[Severity, int]]
    """Severity and number of findings by rule: those that the gist does not have, less those that only it has."""
    summary: dict[str, Any]


def encoded(tail: Tail) -> bytes:
    """Return *tail* as bytes; none if it holds what cannot be kept."""
    try:
        return msgspec.msgpack.encode(tail)
    except (OverflowError, UnicodeEncodeError, TypeError, RecursionError):
        return b""


def decoded(data: bytes) -> Tail | None:
    """Return the tail in *data*; None if it is not one."""
    try:
        return msgspec.msgpack.decode(data, type=Tail)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Tails:
    """The tails in a file of a catalog, and what is to be in the next one. A file that is damaged counts as empty."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._places: dict[str, tuple[int, int]] = {}
        self._new: dict[str, bytes] = {}
        if file is not None:
            self._places = dict(_places(file))

    def find(self, path: str) -> bytes:
        """Return what is kept of the stream at *path*; nothing if there is none."""
        start, size = self._places.get(path, (0, 0))
        return b"" if self._file is None or not size else _part(self._file, start, size)

    def keep(self, path: str, tail: bytes) -> None:
        """Keep *tail* of the stream at *path*."""
        self._new[path] = tail

    def write(self, file: str, dropped: Collection[str]) -> bool:
        """Write the next file, without those of *dropped* that are not kept again; return False if it is empty."""
        kept = [path for path in self._places if path not in dropped and path not in self._new]
        if not kept and not self._new:
            return False
        with open(file, "wb") as out:
            out.write(_FORMAT)
            for path in kept:
                _append(out, path, self.find(path))
            for path, tail in self._new.items():
                _append(out, path, tail)
        return True


def _append(out: Any, path: str, tail: bytes) -> None:
    if tail:
        name = path.encode()
        out.write(len(name).to_bytes(_NUMBER, "little") + name)
        out.write((_DIGEST + len(tail)).to_bytes(_NUMBER, "little") + _digest(tail) + tail)


def _digest(tail: bytes) -> bytes:
    return blake2b(tail, digest_size=_DIGEST).digest()


def _places(file: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        with open(file, "rb") as data:
            size = os.fstat(data.fileno()).st_size
            if data.read(len(_FORMAT)) != _FORMAT:
                return
            while head := data.read(_NUMBER):
                length = int.from_bytes(head, "little")
                if length > size:
                    return
                path = data.read(length).decode()
                length = int.from_bytes(data.read(_NUMBER), "little")
                yield path, (data.tell(), length)
                data.seek(min(length, size), os.SEEK_CUR)
    except (OSError, UnicodeDecodeError):
        return


def _part(file: str, start: int, size: int) -> bytes:
    try:
        with open(file, "rb") as data:
            data.seek(start)
            found = data.read(size) if start + size <= os.fstat(data.fileno()).st_size else b""
    except OSError:
        return b""
    return found[_DIGEST:] if found and found[:_DIGEST] == _digest(found[_DIGEST:]) else b""
