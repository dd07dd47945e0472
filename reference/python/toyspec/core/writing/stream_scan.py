"""Reads a stream under the lock of the handle that will append to it, and refuses damaged and other files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toyspec.core.errors import StreamRefusedError
from toyspec.core.findings import Gap
from toyspec.core.format.known_formats import look_of
from toyspec.core.generated.looks import HEAD_BYTES
from toyspec.core.reading.log_detection import detect_profile_at
from toyspec.core.reading.records import Record, RecordFeed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from toyspec.core.findings import Profile
    from toyspec.core.writing.append_file import AppendFile

_BLOCK_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"


class StreamScan:
    """One pass over the records of *file*; after iterating, ``committed`` is the end of the committed lines.

    A stream of another profile than *profile* is refused; by default, a stream without a profile.
    """

    def __init__(self, file: AppendFile, *, profile: Profile | None = None) -> None:
        self._file = file
        self._wanted = profile
        self._feed = RecordFeed(detect=partial(detect_profile_at, file.path))

    def __iter__(self) -> Iterator[Record]:
        """Yield every record; raise StreamRefusedError at an unreadable line, and for a file of another format."""
        refuse_compressed(self._file)
        has_record = False
        while block := self._file.read(self._feed.size, _BLOCK_BYTES):
            for item in self._feed.feed(block):
                if isinstance(item, Gap):
                    self._refuse_gap(item, has_record=has_record)
                    continue
                if not has_record:
                    has_record = True
                    self._check_profile(item.value)
                yield item
        if not has_record and self._feed.profile is None:
            self._refuse_foreign(None)

    def read_all(self) -> int:
        """Read every record and return the byte offset after the last LF; raise as iterating does."""
        for _ in self:
            pass
        return self.committed

    @property
    def committed(self) -> int:
        """Byte offset after the last LF that was read."""
        return self._feed.committed

    def _refuse_gap(self, gap: Gap, *, has_record: bool) -> None:
        if not has_record and detect_profile_at(self._file.path, None, has_gap=True) is None:
            self._refuse_foreign(None)
        damage = f"line {gap.line} is damaged ({gap.reason}: {gap.message})"
        fact = f"{damage}; the file was not changed; `toyspec check` lists the damage"
        raise StreamRefusedError(self._file.path, "damaged", fact)

    def _check_profile(self, first: Mapping[str, Any]) -> None:
        found = self._feed.profile
        if found is None:
            self._refuse_foreign(first)
        if self._wanted not in {None, found}:
            fact = (
                f"it is a {found} log; {self._wanted} records cannot be appended to it; write them to another directory"
            )
            raise StreamRefusedError(self._file.path, "foreign", fact)

    def _refuse_foreign(self, first: Mapping[str, Any] | None) -> None:
        fact = self._fact_of_dialect()
        if fact is None:
            head = self._file.read(0, HEAD_BYTES)
            look = look_of(head, None if first is None else list(first), is_all=self._file.size <= HEAD_BYTES)
            fact = "; ".join(filter(None, [look.fact, "it was not changed", look.advice]))
        raise StreamRefusedError(self._file.path, "foreign", fact)

    def _fact_of_dialect(self) -> str | None:
        """Return what the log of another program is, and what reads it; None for all other files."""
        # Imported here: few files are refused.
        from toyspec.core.reading import log_detection

        head = self._file.read(0, log_detection.HEAD_BYTES)
        found = log_detection.DialectChoice().choose(head, path=self._file.path)
        if found is None:
            return None
        name = f"{found.use.name}: {found.title}"
        advice = "`toyspec check` lists what is wrong with it, and `toyspec import` makes a run of its readable lines"
        return f"the log of another program ({name}), which is only read; it was not changed; {advice}"


def refuse_compressed(file: AppendFile) -> None:
    """Raise StreamRefusedError if *file* is gzip data, which cannot be appended to."""
    if file.read(0, len(_GZIP)) == _GZIP:
        raise StreamRefusedError(file.path, "foreign", "gzip data cannot be appended to; unpack it first")
