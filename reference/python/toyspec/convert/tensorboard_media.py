"""The values of TensorBoard's plugins for pictures, sounds and histograms: decoded, and written as they are today."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from toyspec.convert.protobuf import double, field, fields, integer_field, members, signed, text
from toyspec.convert.run_items import Bins

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGES, AUDIO, HISTOGRAMS, TEXT = "images", "audio", "histograms", "text"
"""The names of the plugins."""

_FLOAT, _DOUBLE, _STRING = 1, 2, 7
_PACKED = {_FLOAT: (5, "<f"), _DOUBLE: (6, "<d")}
_WAV = 11


class ShownFile(NamedTuple):
    """One picture or sound."""

    data: bytes
    caption: str = ""
    width: int | None = None
    height: int | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Width and height, as far as they are known."""
        return {name: size for name, size in (("width", self.width), ("height", self.height)) if size}


def image_of(data: bytes) -> ShownFile | None:
    """Return the picture of a summary of the first version."""
    found = members(data)
    content = found.get(4)
    sizes = [found[number] if isinstance(found.get(number), int) else None for number in (2, 1)]
    return ShownFile(content, "", *sizes) if isinstance(content, bytes) and content else None


def audio_of(data: bytes) -> ShownFile | None:
    """Return the sound of a summary of the first version."""
    content = members(data).get(4)
    return ShownFile(content) if isinstance(content, bytes) and content else None


def histogram_of(data: bytes) -> Bins | None:
    """Return the bins of a summary of the first version, whose outer ones end at the smallest and largest value."""
    found = members(data)
    limits, counts = (_doubles(data, number) for number in (6, 7))
    least, most = (double(found[number]) if isinstance(found.get(number), bytes) else 0.0 for number in (1, 2))
    if not limits or len(limits) != len(counts):
        return None
    # The bins below the smallest and above the largest value are empty, and may reach to infinity.
    first = next((at for at, limit in enumerate(limits) if limit > least), len(limits) - 1)
    last = next((at for at, limit in enumerate(limits) if limit >= most), len(limits) - 1)
    if first > last or any(counts[:first]) or any(counts[last + 1 :]):
        first, last = 0, len(limits) - 1
    edges = [min(least, limits[first]), *limits[first:last], max(most, limits[last - 1] if last > first else most)]
    return _checked(edges, counts[first : last + 1])


def _doubles(data: bytes, wanted: int) -> list[float]:
    found: list[float] = []
    for number, wire, value in fields(data):
        if number == wanted and wire == 1:
            found.append(double(value))
        elif number == wanted and wire == 2 and len(value) % 8 == 0:
            found += struct.unpack(f"<{len(value) // 8}d", value)
    return found


def shown_in(plugin: str, tensor: bytes) -> list[ShownFile] | Bins | list[str] | None:
    """Return what the *tensor* of a *plugin* shows: files, bins or texts; None for all else."""
    if plugin == HISTOGRAMS:
        return _bins_in(tensor)
    if plugin not in (IMAGES, AUDIO, TEXT):
        return None
    found = members(tensor)
    if found.get(1) != _STRING:
        return None
    parts = [value for number, wire, value in fields(tensor) if number == 8 and wire == 2]
    if plugin == TEXT:
        return [text(part) for part in parts] if len(parts) > 1 else None
    if plugin == IMAGES:
        sizes = [int(part) if part.isdigit() else None for part in parts[:2]]
        return [ShownFile(part, "", *sizes) for part in parts[2:]] or None
    return _sounds(parts, _shape(tensor))


def _sounds(parts: list[bytes], shape: list[int]) -> list[ShownFile] | None:
    if len(shape) == 2 and shape[1] == 2 and len(parts) % 2 == 0:
        return [ShownFile(sound, text(label)) for sound, label in zip(parts[::2], parts[1::2], strict=True)] or None
    return [ShownFile(sound) for sound in parts] or None


def _bins_in(tensor: bytes) -> Bins | None:
    found = members(tensor)
    shape, dtype = _shape(tensor), found.get(1)
    if len(shape) != 2 or shape[1] != 3 or dtype not in _PACKED:
        return None
    number, layout = _PACKED[dtype]
    packed = found.get(4, found.get(number))
    size = 3 * shape[0]
    if not isinstance(packed, bytes) or size <= 0 or len(packed) != size * struct.calcsize(layout):
        return None
    numbers = struct.unpack(f"<{size}{layout[1]}", packed)
    edges: list[float] = [numbers[0]]
    counts: list[float] = []
    for left, right, count in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        if left > edges[-1]:
            edges.append(left)
            counts.append(0.0)
        elif left < edges[-1]:
            return None
        edges.append(right)
        counts.append(count)
    return _checked(edges, counts)


def _checked(edges: list[float], counts: list[float]) -> Bins | None:
    is_finite = all(map(math.isfinite, (*edges, *counts)))
    is_rising = all(left <= right for left, right in pairwise(edges))
    return Bins(edges, counts) if is_finite and is_rising and min(counts) >= 0 else None


def _shape(tensor: bytes) -> list[int]:
    shape = members(tensor).get(2)
    found = fields(shape) if isinstance(shape, bytes) else ()
    return [signed(members(size).get(1, 0)) for number, wire, size in found if number == 2 and wire == 2]


def strings_value(plugin: str, parts: Sequence[bytes], shape: Sequence[int]) -> bytes:
    """Return the fields of a value whose tensor has *parts*."""
    tensor = integer_field(1, _STRING) + _shaped(shape) + b"".join(field(8, part) for part in parts)
    return field(8, tensor) + field(9, field(1, field(1, plugin) + field(2, _CONTENTS.get(plugin, b""))))


def histogram_value(edges: Sequence[float], counts: Sequence[float]) -> bytes:
    """Return the fields of a value with a histogram."""
    bins = zip(edges[:-1], edges[1:], counts, strict=True)
    rows = [number for each in bins for number in each]
    tensor = integer_field(1, _DOUBLE) + _shaped([len(counts), 3]) + field(4, struct.pack(f"<{len(rows)}d", *rows))
    return field(8, tensor) + field(9, field(1, field(1, HISTOGRAMS)))


# A reader refuses a sound that does not say its encoding.
_CONTENTS = {AUDIO: integer_field(2, _WAV)}


def _shaped(shape: Sequence[int]) -> bytes:
    return field(2, b"".join(field(2, integer_field(1, size)) for size in shape))
