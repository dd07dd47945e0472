"""Decompresses gzip data as it is read, in bounded memory."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from toyspec.core.generated import messages

if TYPE_CHECKING:
    from collections.abc import Callable

_GZIP_FORMAT = 31
_CHUNK_BYTES = 1 << 16


class GzipDataError(OSError):
    """Compressed data is cut off or damaged."""


class GzipData:
    """The decompressed bytes of gzip data, which may have several members."""

    def __init__(self, read: Callable[[int], bytes], head: bytes) -> None:
        """Read the data with *read*; *head* was read before and is its start."""
        self._read = read
        self._data = head
        self._member: zlib._Decompress | None = None
        self._may_hold_more = False
        self._given = 0

    def read(self, size: int) -> bytes:
        """Return at least one and at most *size* bytes, none at the end.

        Raises GzipDataError, and what reading raises.
        """
        while True:
            if not self._data and not self._may_hold_more:
                self._data = self._read(_CHUNK_BYTES)
                if not self._data:
                    self._demand_end()
                    return b""
            found = self._decompressed(size)
            if found:
                self._given += len(found)
                return found

    def _decompressed(self, size: int) -> bytes:
        if self._member is None:
            # Padding may follow a member.
            self._data = self._data.lstrip(b"\0")
            if not self._data:
                return b""
            self._member = zlib.decompressobj(_GZIP_FORMAT)
        member = self._member
        try:
            found = member.decompress(self._data, size)
        except zlib.error as error:
            reason = str(error).rpartition(": ")[2]
            raise GzipDataError(messages.gzip_damaged(size=self._given, reason=reason)) from None
        self._may_hold_more = len(found) == size and not member.eof
        self._data = member.unconsumed_tail
        if member.eof:
            self._data, self._member = member.unused_data, None
        return found

    def _demand_end(self) -> None:
        if self._member is not None:
            raise GzipDataError(messages.gzip_cut(size=self._given))
