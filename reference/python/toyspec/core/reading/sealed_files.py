"""The files that a seal covers, and their digests: computed without opening anything outside of the bundle."""

from __future__ import annotations

import errno
import os
import re
import stat
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import msgspec

from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.run_files import files_of
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BLOCK_BYTES = 1 << 18
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # does not wait for the other end of a FIFO
)

# Annotations are added after the run was sealed.
_NEVER_SEALED = re.compile(rb"(" + os.fsencode(SEAL_FILE) + rb"|annotations\.jsonl)(\.[^/]*)?")

TEMPORARY_FILE = f"{SEAL_FILE}.new"
"""Name of a seal that is being written; no seal lists it."""

Problem = Literal["missing", "outside", "irregular", "unreadable"]
"""Why a file has no digest. Outside: its path leaves the bundle, and it was not opened. Irregular: no regular file."""


class FileDigest(msgspec.Struct, frozen=True):
    """The digest of a file, or why it has none."""

    digest: str = ""
    """SHA-256 in lower-case hexadecimal digits."""
    size: int = 0
    """Number of bytes."""
    problem: Problem | None = None
    cause: str = ""
    """What the system said, for the problem unreadable."""


class _UnusableError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def digest_in(
    directory: str, parts: Sequence[bytes] | None, *, on_bytes: Callable[[int], None] | None = None
) -> FileDigest:
    """Return the digest of the file with the path *parts* below *directory*; None leaves it.

    Memory does not grow with the file. *on_bytes* is called with the number of bytes in each block.
    """
    try:
        if is_address(directory):
            return _remote_digest(directory, parts, on_bytes)
        descriptor = _open_inside(directory, parts)
        try:
            return _digest(descriptor, on_bytes)
        finally:
            os.close(descriptor)
    except _UnusableError as error:
        return FileDigest(problem=error.problem)
    except (FileNotFoundError, NotADirectoryError):
        return FileDigest(problem="missing")
    except OSError as error:
        is_irregular = error.errno in {errno.ELOOP, errno.ENXIO}  # links in a circle, a socket
        return (
            FileDigest(problem="irregular") if is_irregular else FileDigest(problem="unreadable", cause=cause_of(error))
        )


def _open_inside(directory: str, parts: Sequence[bytes] | None) -> int:
    if parts is None or (os.name == "nt" and any(set(part) & set(b":\\") for part in parts)):
        raise _UnusableError("outside")
    root = os.path.realpath(os.fsencode(directory), strict=True)
    path = os.path.realpath(os.path.join(root, *parts), strict=True)
    if path != root and not path.startswith(os.path.join(root, b"")):
        raise _UnusableError("outside")
    return os.open(path, _FLAGS)


def _remote_digest(directory: str, parts: Sequence[bytes] | None, on_bytes: Callable[[int], None] | None) -> FileDigest:
    # Imported with the first address: start-up time counts.
    from toyspec.core.places.remote_files import RemoteFile

    if parts is None:
        raise _UnusableError("outside")
    digest, size = sha256(), 0
    with RemoteFile(path_in(directory, "/".join(map(os.fsdecode, parts)))) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            size += len(block)
            if on_bytes is not None:
                on_bytes(len(block))
    return FileDigest(digest.hexdigest(), size)


def _digest(descriptor: int, on_bytes: Callable[[int], None] | None) -> FileDigest:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _UnusableError("irregular")
    digest, size = sha256(), 0
    while block := os.read(descriptor, _BLOCK_BYTES):
        digest.update(block)
        size += len(block)
        if on_bytes is not None:
            on_bytes(len(block))
    return FileDigest(digest.hexdigest(), size)


def covered_files(directory: str) -> list[tuple[bytes, int]]:
    """Return the path from *directory* and the size of every file that a seal covers, in the order of paths.

    These are all regular files below *directory*, except seals, of this time and earlier, and annotations. Raises
    OSError.
    """
    found = ((os.fsencode(file.name), file.size) for file in files_of(directory, "all"))
    return sorted(item for item in found if not _NEVER_SEALED.fullmatch(item[0]))


def has_seal(directory: str) -> bool:
    """Return whether the run in *directory* has a seal; a check finds out whether it holds."""
    return os.path.lexists(os.path.join(directory, SEAL_FILE))
