"""Follows a file while it grows: see spec/following.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO

from conformance.oracle.lines import is_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.oracle.lines import Line
    from conformance.oracle.reading import Reading

Item = dict[str, Any]


class Following:
    """Follows one path. Each step is a method that a mutant can override."""

    def __init__(self, path: str, reading: Reading) -> None:
        self.path = path
        self.reading = reading
        self.file: BinaryIO | None = None
        self.start_over()

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()

    def start_over(self) -> None:
        """Forget everything that was read."""
        self.seen = b""
        self.lines = 0
        self.profile: str | None = None
        self.is_detected = False

    def look(self) -> list[Item]:
        """Return all that is new."""
        return list(self.items())

    def items(self) -> Iterator[Item]:
        """Yield all that is new; read to its end what the path named before."""
        if self.file is None:
            if not self.open():
                return
            yield from self.grown()
            return
        changed = self.changed()
        if changed is None:
            yield from self.grown()
            return
        if changed in {"rotated", "gone"}:
            yield from self.grown()
        yield {"event": changed}
        self.file.close()
        self.file = None
        self.start_over()
        if self.open():
            yield from self.grown()

    def open(self) -> bool:
        """Open what the path names; return whether it names anything."""
        try:
            self.file = open(self.path, "rb")  # noqa: SIM115  (stays open between polls)
        except FileNotFoundError:
            return False
        return True

    def changed(self) -> str | None:
        """Return the event since the last poll, None if the file can only have grown."""
        assert self.file is not None
        own = os.fstat(self.file.fileno())
        try:
            named = os.stat(self.path)
        except FileNotFoundError:
            return "gone"
        if (named.st_dev, named.st_ino) != (own.st_dev, own.st_ino):
            return "rotated" if own.st_nlink else "replaced"
        if own.st_size < len(self.seen):
            return "truncated"
        self.file.seek(0)
        return None if self.file.read(len(self.seen)) == self.seen else "replaced"

    def grown(self) -> Iterator[Item]:
        """Yield what the lines give that were committed since the last poll."""
        assert self.file is not None
        self.file.seek(len(self.seen))
        committed = self.committed(self.seen + self.file.read())
        lines, _ = self.reading.lines.split(committed)
        first = next((line.value for line in lines if line.status == "readable"), None)
        if first is not None and not self.is_detected:
            self.profile = self.reading.detect(first, manifest=self.manifest())
            self.is_detected = True
        for line in lines[self.lines :]:
            yield from self.line(line)
        self.seen, self.lines = committed, len(lines)

    def manifest(self) -> bool:
        """Return whether the manifest of a kaun/v1 run is beside the file."""
        try:
            with open(os.path.join(os.path.dirname(self.path), "run.json"), "rb") as file:
                return is_manifest(self.reading.lines, file.read())
        except OSError:
            return False

    def committed(self, data: bytes) -> bytes:
        """Return the part of *data* that is ended by LF."""
        return data[: data.rfind(b"\n") + 1]

    def line(self, line: Line) -> Iterator[Item]:
        """Yield what one line gives."""
        if line.status == "gap":
            yield {"gap": self.reading.gap(line)}
        elif line.value is not None:
            yield {"record": self.reading.tagged_record(line.value, self.profile)}
            if self.profile == "toy/v1" and self.reading.kind(line.value, self.profile) == "run_end":
                yield {"event": "ended"}
