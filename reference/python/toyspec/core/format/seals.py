"""The text of a seal, the file SHA256SUMS of a bundle, in the format of sha256sum: see spec/bundle.md."""

from __future__ import annotations

import re

import msgspec

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
