"""The files that a seal covers, their digests, and its text.

Digests are computed without opening anything outside of the bundle. The text of a seal, the file SHA256SUMS of a
bundle, is in the format of sha256sum: see spec/bundle.md.
"""

from __future__ import annotations

import errno
import os
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import msgspec

from toyspec.core.files import SpecialFileError, open_file
from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.places.remote_files import RemoteFile
from toyspec.core.reading.run_files import files_of
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Sequence


# sha256sum also takes upper-case digits, comments and empty lines; with them, a flipped bit could hide a line.
_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *]([^\x00]+)", re.DOTALL)
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}
_UNESCAPES = {escape: plain for plain, escape in _ESCAPES.items()}
_ESCAPE = re.compile(rb"\\[\\nr]")
_ESCAPED_NAME = re.compile(rb"(?:[^\\]|\\[\\nr])+", re.DOTALL)
_TO_ESCAPE = re.compile(rb"[\\\n\r]")


class SealLine(msgspec.Struct, frozen=True):
    """One line of a seal: the digest of a file."""

    digest: str
    """SHA-256 in 64 lower-case hexadecimal digits."""
    name: bytes
    """Path of the file from the bundle, as it is in the seal, without escapes."""


def parse_seal_line(line: bytes) -> SealLine | None:
    """Return what *line*, without its LF, says; None if it is not a line of sha256sum."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    is_escaped, digest, name = match.groups()
    if is_escaped:
        if _ESCAPED_NAME.fullmatch(name) is None:
            return None
        name = _ESCAPE.sub(lambda escape: _UNESCAPES[escape[0]], name)
    return SealLine(digest.decode(), name)


def seal_line(digest: str, name: bytes) -> bytes:
    """Return the line of the file *name* with its LF, as ``sha256sum`` writes it."""
    # sha256sum takes the name `-` for its standard input.
    shown = b"./-" if name == b"-" else name
    escaped = _TO_ESCAPE.sub(lambda character: _ESCAPES[character[0]], shown)
    return b"%s%s  %s\n" % (b"\\" if escaped != shown else b"", digest.encode(), escaped)


def parts_of(name: bytes) -> tuple[bytes, ...] | None:
    """Return the parts of the path *name* that matter; None if it leaves the bundle by itself."""
    parts = name.split(b"/")
    if name.startswith(b"/") or b".." in parts:
        return None
    return tuple(part for part in parts if part not in {b"", b"."})


_BLOCK_BYTES = 1 << 18
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


def digest_in(
    directory: str, parts: Sequence[bytes] | None, *, on_bytes: Callable[[int], None] | None = None
) -> FileDigest:
    """Return the digest of the file with the path *parts* below *directory*; None leaves it.

    Memory does not grow with the file. *on_bytes* is called with the number of bytes in each block.
    """
    try:
        digest, size = sha256(), 0
        opened = _opened(directory, parts)
        if isinstance(opened, str):
            return FileDigest(problem=opened)
        with opened as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                size += len(block)
                if on_bytes is not None:
                    on_bytes(len(block))
        return FileDigest(digest.hexdigest(), size)
    except (FileNotFoundError, NotADirectoryError):
        return FileDigest(problem="missing")
    except OSError as error:
        is_irregular = error.errno in {errno.ELOOP, errno.ENXIO}  # links in a circle, a socket
        return (
            FileDigest(problem="irregular") if is_irregular else FileDigest(problem="unreadable", cause=cause_of(error))
        )


def _opened(directory: str, parts: Sequence[bytes] | None) -> io.RawIOBase | io.BufferedReader | Problem:
    """Return the file, open for reading, or why it may not be: it is not inside or not regular; raise OSError."""
    if parts is None:
        return "outside"
    if is_address(directory):
        return RemoteFile(path_in(directory, "/".join(map(os.fsdecode, parts))))
    if os.name == "nt" and any(set(part) & set(b":\\") for part in parts):
        return "outside"
    root = os.path.realpath(os.fsencode(directory), strict=True)
    path = os.path.realpath(os.path.join(root, *parts), strict=True)
    if path != root and not path.startswith(os.path.join(root, b"")):
        return "outside"
    try:
        return open_file(os.fsdecode(path))
    except (IsADirectoryError, SpecialFileError):
        return "irregular"


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
