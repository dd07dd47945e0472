"""Describes a file without a profile by its first bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.core.errors import UnknownFormatError
from toyspec.core.format.known_formats import look_of
from toyspec.core.format.line_validation import decode
from toyspec.core.format.profiles import detect_profile
from toyspec.core.generated.looks import HEAD_BYTES
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import open_source
from toyspec.core.reading.stream_names import STREAM_NAMES

if TYPE_CHECKING:
    from toyspec.core.format.known_formats import Look

_BOM = b"\xef\xbb\xbf"


def unknown_format(path: str) -> UnknownFormatError:
    """Return the exception for the file at *path*, which has no profile; raise StreamError if it is gone."""
    look = look_at(path)
    parts = (look.fact, look.advice, "`toyspec doctor` says whether toyspec can import it")
    return UnknownFormatError(path, "; ".join(part for part in parts if part))


def look_at(path: str) -> Look:
    """Return what the file at *path*, which has no profile, looks like; raise StreamError if it is gone."""
    source = open_source(path)
    try:
        head = b""
        while len(head) < HEAD_BYTES and (chunk := source.read(HEAD_BYTES + 1 - len(head))):
            head += chunk
    finally:
        source.close()
    with read(path, mode="salvage", dialect=None) as reading:
        first = next(reading, None)
    return look_of(head, None if first is None else list(first.value), is_all=len(head) <= HEAD_BYTES)


def is_other_document(path: str, data: bytes) -> bool:
    """Return whether *data*, the bytes of the file *path*, are text without an LF that is not a part of a record.

    It is one object that follows no profile, or text that does not begin as one. Half a record is not an object, and a
    whole one of toyspec names its profile.
    """
    if b"\n" in data or b"\0" in data:
        return False
    start = data.removeprefix(_BOM).lstrip()[:1]
    if start not in (b"", b"{") and os.path.basename(path) not in STREAM_NAMES:
        return True
    if not path.endswith(".json"):
        return False
    value = decode(data)
    return value is not None and detect_profile(value) is None
