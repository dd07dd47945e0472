"""Reads the ends of a stream in a place beyond the file system: two requests and 128 KiB at most."""

from __future__ import annotations

from toyspec.places.opening import place_of
from toyspec.reading.stream_files import GZIP_MAGIC
from toyspec.runs.ends import Ends

HEAD_BYTES = 1 << 16
"""Number of bytes of the first request; the whole of a small stream."""

TAIL_BYTES = 1 << 16
"""Number of bytes of the second request, the last of the stream."""


def remote_ends(address: str) -> tuple[Ends, int] | None:
    """Return the ends of the stream at *address* and its size; None if they do not tell, as of gzip data.

    None also if it cannot be read: reading all of it then says why.
    """
    try:
        place = place_of(address)
        head, entry = place.read_range(address, 0, HEAD_BYTES, None)
        if head.startswith(GZIP_MAGIC):
            return None
        ends = Ends(address, head)
        if entry.size <= len(head):
            return ends, entry.size
        size = min(TAIL_BYTES, entry.size - len(head))
        tail = place.read_range(address, entry.size - size, size, entry.identity).data
        if len(head) + size == entry.size:
            return Ends(address, head + tail), entry.size
    except OSError:
        return None
    # The end begins in a line; without a record in it, only the whole stream tells.
    return None if not ends.head or ends.take_tail(tail) == "nothing" else (ends, entry.size)
