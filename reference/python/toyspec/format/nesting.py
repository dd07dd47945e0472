"""Bounds the depth of a JSON text without parsing it: by its brackets outside strings."""

from __future__ import annotations

import re
from itertools import accumulate

from toyspec.generated.limits import MAX_DEPTH

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_WHOLE_STRINGS = re.compile(rb'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_PIECE_BYTES = 1 << 16
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def is_shallow(data: bytes) -> bool:
    """Return whether no bracket outside strings is nested beyond the limit, as far as *data* is JSON."""
    depth = start = 0
    # Removing strings takes many times the memory of the text.
    while start < len(data):
        whole = _WHOLE_STRINGS.match(data, start, start + _PIECE_BYTES)
        assert whole is not None
        if whole.end() == start:
            # A string that does not end in this piece, or not at all.
            start = _STRING.match(data, start).end()  # type: ignore[union-attr]
            continue
        steps = memoryview(_STRING.sub(b"", whole.group()).translate(_STEPS, _NOT_BRACKETS)).cast("b")
        depths = list(accumulate(steps, initial=depth))
        if max(depths) > MAX_DEPTH:
            return False
        depth, start = depths[-1], whole.end()
    return True
