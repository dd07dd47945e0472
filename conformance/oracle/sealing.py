"""Compares the files of a bundle with its seal: see spec/rules/seal-broken.md."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SEAL = "SHA256SUMS"
_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *]([^\0]+)", re.DOTALL)
_ESCAPED = re.compile(rb"([^\\]|\\[\\nr])+", re.DOTALL)
_PLAIN = {rb"\\": b"\\", rb"\n": b"\n", rb"\r": b"\r"}


class Sealing:
    """Compares the files in *directory* with its seal. Each step is a method that a mutant can override."""

    def __init__(self, directory: str, stream: str, limit: int) -> None:
        self.directory = os.path.realpath(directory)
        self.stream = stream
        self.limit = limit

    def problems(self) -> Iterator[tuple[int, int]]:
        """Yield line and offset of each finding, in order."""
        data = self.content()
        if data is None:
            yield 1, 0
            return
        seen: set[tuple[bytes, ...]] = set()
        offset = 0
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            if self.is_broken(line, seen):
                yield number, offset
            offset += len(line) + 1
        if self.is_cut_off(data):
            yield data.count(b"\n") + 1, offset
        if self.lacks_stream(seen):
            yield 1, 0

    def content(self) -> bytes | None:
        """Return the bytes of the seal; None if they cannot be read, or are more than a line may have."""
        path = os.path.join(self.directory, SEAL)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        return data if len(data) <= self.limit else None

    def is_broken(self, line: bytes, seen: set[tuple[bytes, ...]]) -> bool:
        """Return whether a line has a finding; *seen* has the paths of the lines before."""
        parsed = self.parsed(line)
        if parsed is None:
            return True
        digest, name = parsed
        parts = self.parts(name)
        if parts is None or self.leaves(parts) or self.is_repeated(parts, seen):
            return True
        seen.add(parts)
        return self.digest(parts) != digest

    def parsed(self, line: bytes) -> tuple[str, bytes] | None:
        """Return the digest and the name in a line; None if it is not one of the format."""
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        mark, digest, name = match.groups()
        if mark and not _ESCAPED.fullmatch(name):
            return None
        plain = re.sub(rb"\\.", lambda escape: _PLAIN[escape[0]], name) if mark else name
        return digest.decode(), plain

    def parts(self, name: bytes) -> tuple[bytes, ...] | None:
        """Return the parts of a path that count; None if it leaves the bundle."""
        parts = name.split(b"/")
        if name.startswith(b"/") or b".." in parts:
            return None
        return tuple(part for part in parts if part not in {b"", b"."})

    def leaves(self, parts: tuple[bytes, ...]) -> bool:
        """Return whether a path leads out of the bundle through a symbolic link."""
        path = os.path.realpath(os.path.join(os.fsencode(self.directory), *parts))
        return os.path.commonpath([path, os.fsencode(self.directory)]) != os.fsencode(self.directory)

    def is_repeated(self, parts: tuple[bytes, ...], seen: set[tuple[bytes, ...]]) -> bool:
        """Return whether an earlier line names the same path."""
        return parts in seen

    def digest(self, parts: tuple[bytes, ...]) -> str | None:
        """Return the digest of a file; None if it has none."""
        path = os.path.join(os.fsencode(self.directory), *parts)
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def is_cut_off(self, data: bytes) -> bool:
        """Return whether the last line of the seal has no LF."""
        return bool(data) and not data.endswith(b"\n")

    def lacks_stream(self, seen: set[tuple[bytes, ...]]) -> bool:
        """Return whether no line names the stream."""
        return (os.fsencode(self.stream),) not in seen
