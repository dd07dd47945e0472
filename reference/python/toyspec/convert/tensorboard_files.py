"""The messages in TensorBoard event files: events, and the values of their summaries."""

from __future__ import annotations

import math
import re
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import msgspec

from toyspec.convert.protobuf import (
    FIXED32,
    MessageError,
    double,
    double_field,
    field,
    fields,
    float_field,
    integer_field,
    members,
    signed,
    text,
    varint,
    varint_at,
)
from toyspec.convert.run_items import Bins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


FILE_VERSION = "brain.Event:2"
START_OF_SESSION = 1
NOTE_TAG = "note"
"""The tag of a text that is a note."""
HPARAMS_START_TAG = "_hparams_/session_start_info"
HPARAMS_END_TAG = "_hparams_/session_end_info"

ValueKind = Literal["scalar", "text", "texts", "images", "audio", "histogram", "hparams", "ending", "other"]

_WALL, _STEP, _VERSION, _GRAPH, _SUMMARY, _LOG, _SESSION = 1, 2, 3, 4, 5, 6, 7
_OTHER_EVENTS = {_GRAPH: "graph", _LOG: "log message", 8: "run metadata", 9: "meta graph"}
_TAG, _SIMPLE, _IMAGE, _HISTOGRAM, _AUDIO, _TENSOR, _METADATA = 1, 2, 4, 5, 6, 8, 9
_OTHER_VALUES = {3: "old histogram", _IMAGE: "image", _HISTOGRAM: "histogram", _AUDIO: "audio"}
# The parts of the old message for a histogram that bins do not have.
_MOMENTS = "sum and sum of squares"
_SUCCESS, _FAILURE = 1, 2
_LARGEST_BITS = 1023

# Of each type of tensor: the field that lists its values, and how one is packed in the content.
_TENSOR_TYPES: dict[int, tuple[int, str]] = {
    1: (5, "<f"),
    2: (6, "<d"),
    3: (7, "<i"),
    4: (7, "<B"),
    5: (7, "<h"),
    6: (7, "<b"),
    9: (10, "<q"),
    10: (11, "<?"),
    17: (7, "<H"),
    19: (13, "<e"),
    22: (16, "<I"),
    23: (17, "<Q"),
}
_SIGNED = ("<i", "<h", "<b", "<q")
_HALF, _STRING = 19, 7


class Value(NamedTuple):
    """One value of a summary."""

    tag: str
    kind: ValueKind
    value: Any
    """A number, a text or texts, files, bins, hyperparameters by name, a reason; for other kinds what it is."""
    group: str = ""
    """The group of hyperparameters."""
    left_out: str = ""
    """Parts that are not in *value*."""
    is_utf8: bool = True
    """False where bytes of the tag or the text were replaced."""


class Event(NamedTuple):
    """One record of an event file."""

    wall: float
    """Seconds since the Unix epoch."""
    step: int
    version: str | None
    values: list[Value]
    session_starts: bool
    others: list[str]
    """What else is in it."""


def decode_event(data: bytes) -> Event:
    """Return the event in *data*; raise MessageError."""
    wall, step, version, values, starts = 0.0, 0, None, [], False
    others: list[str] = []
    for number, wire, value in fields(data):
        if number == _WALL and wire == 1:
            wall = double(value)
        elif number == _STEP and wire == 0:
            step = signed(value)
        elif number == _VERSION and wire == 2:
            version = text(value)
        elif number == _SUMMARY and wire == 2:
            values += [_value(item) for key, kind, item in fields(value) if key == 1 and kind == 2]
        elif number == _SESSION and wire == 2:
            starts = members(value).get(1) == START_OF_SESSION
            others += [] if starts else ["session log"]
        elif number in _OTHER_EVENTS:
            others.append(_OTHER_EVENTS[number])
    return Event(wall, step, version, values, starts, others)


def _value(data: bytes) -> Value:
    tag, tensor = b"", None
    found: tuple[ValueKind, Any] | None = None
    plugin, content, left_out = "", b"", ""
    for number, wire, value in fields(data):
        if number == _TAG and wire == 2:
            tag = value
        elif number == _SIMPLE and wire == FIXED32:
            found = ("scalar", struct.unpack("<f", value)[0])
        elif number == _TENSOR and wire == 2:
            tensor = value
        elif number == _METADATA and wire == 2:
            plugin, content = _plugin(value)
        elif number in _OTHER_VALUES:
            found = _shown(number, value) if wire == 2 else None
            found = found or ("other", _OTHER_VALUES[number])
            left_out = _MOMENTS if found[0] == "histogram" else ""
    name = text(tag)
    if plugin == "hparams":
        return _hparams(name, content)
    if tensor is not None:
        found = _shown_in_tensor(plugin, tensor) or _tensor(tensor)
    kind, value = found or ("other", "empty value")
    if kind == "text" and plugin not in ("text", ""):
        return Value(name, "other", f"{plugin} data")
    return Value(name, kind, value, left_out=left_out, is_utf8=_is_utf8(tag))


def _shown(number: int, data: bytes) -> tuple[ValueKind, Any] | None:
    """Return what the messages before tensors show; None if nothing can be made of it."""
    if number == _HISTOGRAM:
        bins = histogram_of(data)
        return None if bins is None else ("histogram", bins)
    if number not in (_IMAGE, _AUDIO):
        return None
    file = image_of(data) if number == _IMAGE else audio_of(data)
    return None if file is None else ("images" if number == _IMAGE else "audio", [file])


def _shown_in_tensor(plugin: str, tensor: bytes) -> tuple[ValueKind, Any] | None:
    kinds: dict[str, ValueKind] = {
        IMAGES: "images", AUDIO: "audio", HISTOGRAMS: "histogram", TEXT: "texts"
    }  # fmt: skip
    found = shown_in(plugin, tensor)
    return None if found is None else (kinds[plugin], found)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _plugin(metadata: bytes) -> tuple[str, bytes]:
    data = members(metadata).get(1)
    if not isinstance(data, bytes):
        return "", b""
    found = members(data)
    content = found.get(2)
    return text(found.get(1)), content if isinstance(content, bytes) else b""


def _tensor(data: bytes) -> tuple[ValueKind, Any]:
    """Return the one number or text in a tensor; for other tensors that it is one."""
    found: dict[int, list[tuple[int, Any]]] = {}
    for number, wire, value in fields(data):
        found.setdefault(number, []).append((wire, value))
    dtype = found[1][-1][1] if 1 in found else 0
    other: tuple[ValueKind, Any] = ("other", "tensor")
    if dtype == _STRING:
        texts = [value for wire, value in found.get(8, []) if wire == 2]
        return ("text", text(texts[0])) if len(texts) == 1 else other
    if dtype not in _TENSOR_TYPES or math.prod(_shape(data)) != 1:
        return other
    number, layout = _TENSOR_TYPES[dtype]
    if 4 in found and found[4][-1][0] == 2 and len(found[4][-1][1]) == struct.calcsize(layout):
        return "scalar", struct.unpack(layout, found[4][-1][1])[0]
    value = _first_number(found.get(number, []), layout)
    if value is None:
        return other
    return "scalar", struct.unpack("<e", struct.pack("<H", value))[0] if dtype == _HALF else value


def _first_number(listed: list[tuple[int, Any]], layout: str) -> Any:
    """Return the only number of a repeated field, packed or not; None if there is not exactly one."""
    if len(listed) != 1:
        return None
    wire, value = listed[0]
    if layout in ("<f", "<d"):
        return struct.unpack(layout, value)[0] if wire and len(value) == struct.calcsize(layout) else None
    if wire == 2:
        value, end = varint_at(value, 0)
        wire = 0 if end == len(listed[0][1]) else wire
    if wire != 0:
        return None
    return signed(value) if layout in _SIGNED else value


def _hparams(tag: str, content: bytes) -> Value:
    found = members(content)
    if tag == HPARAMS_START_TAG and isinstance(found.get(3), bytes):
        info = members(found[3])
        config = dict(_hparam(entry) for number, wire, entry in fields(found[3]) if number == 1 and wire == 2)
        parts = {2: "model_uri", 3: "monitor_url", 5: "start_time_secs"}
        left_out = ", ".join(name for number, name in parts.items() if info.get(number))
        return Value(tag, "hparams", config, text(info.get(4)), left_out)
    if tag == HPARAMS_END_TAG and isinstance(found.get(4), bytes):
        status = members(found[4]).get(1, 0)
        reason = {_SUCCESS: "completed", _FAILURE: "errored"}.get(status)
        if reason:
            return Value(tag, "ending", reason)
    return Value(tag, "other", "hyperparameter data")


def _hparam(entry: bytes) -> tuple[str, Any]:
    found = members(entry)
    value: Any = None
    for number, wire, item in fields(found.get(2, b"")) if isinstance(found.get(2, b""), bytes) else ():
        if number == 2 and wire == 1:
            value = double(item)
        elif number == 3 and wire == 2:
            value = text(item)
        elif number == 4 and wire == 0:
            value = bool(item)
    return text(found.get(1)), value


def binary32(value: float) -> float:
    """Return the nearest number that an event can hold."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def hparam(value: Any) -> float | str | bool:
    """Return *value* as a hyperparameter: anything but a number, text or boolean as JSON text."""
    if isinstance(value, str | bool | float):
        return value
    if isinstance(value, int) and value.bit_length() <= _LARGEST_BITS and float(value) == value:
        return float(value)
    return msgspec.json.encode(value).decode()


def version_event(wall: float) -> bytes:
    """Return the event that every file begins with."""
    return double_field(_WALL, wall) + field(_VERSION, FILE_VERSION)


def scalar_event(wall: float, step: int, tag: str, value: float) -> bytes:
    """Return an event with one scalar, rounded to binary32."""
    item = field(_TAG, tag) + float_field(_SIMPLE, value)
    return _event(wall, step, field(_SUMMARY, field(1, item)))


def shown_event(wall: float, step: int, tag: str, value: bytes) -> bytes:
    """Return an event with the fields of one *value* of a plugin: see ``strings_value`` and ``histogram_value``."""
    return _event(wall, step, field(_SUMMARY, field(1, field(_TAG, tag) + value)))


def text_event(wall: float, step: int, tag: str, content: str) -> bytes:
    """Return an event with one text, as the text plugin shows it."""
    tensor = integer_field(1, _STRING) + field(2, b"") + field(8, content)
    metadata = field(1, field(1, "text"))
    item = field(_TAG, tag) + field(_TENSOR, tensor) + field(_METADATA, metadata)
    return _event(wall, step, field(_SUMMARY, field(1, item)))


def session_event(wall: float, step: int) -> bytes:
    """Return the event that drops what was logged from *step* on."""
    return _event(wall, step, field(_SESSION, integer_field(1, START_OF_SESSION)))


def hparams_event(wall: float, config: dict[str, float | str | bool], group: str) -> bytes:
    """Return the event with the hyperparameters of a run."""
    entries = b"".join(field(1, field(1, key) + field(2, _struct_value(value))) for key, value in config.items())
    info = entries + (field(4, group) if group else b"") + double_field(5, wall)
    return _event(wall, 0, field(_SUMMARY, field(1, _hparams_value(HPARAMS_START_TAG, field(3, info)))))


def ending_event(wall: float, *, is_success: bool) -> bytes:
    """Return the event with the end of a run that has hyperparameters."""
    status = integer_field(1, _SUCCESS if is_success else _FAILURE) + double_field(2, wall)
    return _event(wall, 0, field(_SUMMARY, field(1, _hparams_value(HPARAMS_END_TAG, field(4, status)))))


def _hparams_value(tag: str, content: bytes) -> bytes:
    # The null tensor that the plugin's own writer adds: readers of tensors skip a value that has none.
    null = integer_field(1, 1) + field(2, field(2, integer_field(1, 1))) + varint(5 << 3 | 2) + b"\x04\0\0\0\0"
    return field(_TAG, tag) + field(_TENSOR, null) + field(_METADATA, field(1, field(1, "hparams") + field(2, content)))


def _struct_value(value: float | str | bool) -> bytes:
    if isinstance(value, bool):
        return integer_field(4, value)
    if isinstance(value, str):
        return field(3, value)
    return double_field(2, value)


def _event(wall: float, step: int, rest: bytes) -> bytes:
    return double_field(_WALL, wall) + (integer_field(_STEP, step) if step else b"") + rest


IMAGES, AUDIO, HISTOGRAMS, TEXT = "images", "audio", "histograms", "text"
"""The names of the plugins."""

_FLOAT, _DOUBLE = 1, 2
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


_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


def crc32c_plainly(data: Iterable[int]) -> int:
    """Return the CRC-32C of *data*, computed in Python."""
    crc = _ALL_ONES
    table = _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ _ALL_ONES


try:
    from google_crc32c import value as _crc32c
except ImportError:
    _crc32c = crc32c_plainly


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of *data*."""
    return int(_crc32c(data))


def masked(crc: int) -> int:
    """Return *crc* as TensorBoard stores it."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES


HEADER_BYTES = 12
FOOTER_BYTES = 4
MAX_RECORD_BYTES = 1 << 26
"""A longer record is taken for damage: even an image is shorter."""

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_CHUNK_BYTES = 1 << 18
_FIRST_TRY = 16
_LONGEST_ROW = 256
# A length below 2**32 has four zeros behind its low half; in a long run of zeros only the last place can be one.
_POSSIBLE_HEADER = re.compile(rb"(?=\0{4}(?!\0{4}))")


class Damage(NamedTuple):
    """Bytes that are not a record."""

    offset: int
    length: int
    fact: str


class EventBlock(NamedTuple):
    """Consecutive bytes of a file that are whole records, not checked yet."""

    offset: int
    data: bytes
    starts: list[int]
    """Where each record starts in *data*."""

    def payloads(self) -> Iterator[tuple[int, bytes, bool]]:
        """Yield where each record starts in the file, its data, and whether these have their check sum."""
        for start, end in zip(self.starts, [*self.starts[1:], len(self.data)], strict=True):
            payload = self.data[start + HEADER_BYTES : end - FOOTER_BYTES]
            is_right = _CHECKSUM.pack(masked(crc32c(payload))) == self.data[end - FOOTER_BYTES : end]
            yield self.offset + start, payload, is_right

    def part(self, first: int, count: int = 1) -> EventBlock:
        """Return the block of *count* records, or as many as there are, from the index *first* on."""
        starts, ends = self.starts[first : first + count], [*self.starts[1:], len(self.data)]
        data = self.data[starts[0] : ends[first : first + count][-1]]
        return EventBlock(self.offset + starts[0], data, [start - starts[0] for start in starts])


def may_begin(head: bytes) -> bool:
    """Return whether *head*, the first bytes of a file, may be those of a record that is there or was cut off."""
    if len(head) < HEADER_BYTES:
        return True
    _, checksum = _HEADER.unpack_from(head)
    return bool(masked(crc32c(head[: HEADER_BYTES - 4])) == checksum)


def read_blocks(file: BinaryIO) -> Iterator[EventBlock | Damage]:
    """Yield the blocks of *file*; their headers are checked, their data is not. Memory does not grow with the file."""
    damage: Damage | None = None
    for part in _parts(file):
        if damage is None:
            damage = part if isinstance(part, Damage) else None
        elif isinstance(part, Damage):
            # What was skipped in one chunk goes on in the next.
            damage = Damage(damage.offset, damage.length + part.length, damage.fact)
            continue
        else:
            yield damage
            damage = None
        if isinstance(part, EventBlock):
            yield part
    if damage is not None:
        yield damage


def _parts(file: BinaryIO) -> Iterator[EventBlock | Damage]:
    buffer, offset, wanted = b"", 0, _CHUNK_BYTES
    while True:
        more = file.read(wanted)
        buffer += more
        starts, end = _walk(buffer)
        if starts:
            yield EventBlock(offset, buffer[:end], starts)
        buffer, offset = buffer[end:], offset + end
        if _header_is_damaged(buffer):
            skipped = _to_next_header(buffer)
            yield Damage(offset, skipped, "the length of a record is damaged")
            buffer, offset = buffer[skipped:], offset + skipped
            wanted = 0
            continue
        if not more and wanted:
            break
        wanted = max(_CHUNK_BYTES, _missing(buffer))
    if buffer:
        yield Damage(offset, len(buffer), "the last record is not complete")


def events_in(block: EventBlock) -> Iterator[Event | Damage]:
    """Yield the event of each record of *block*, and the records that have none."""
    for place, payload, is_right in block.payloads():
        fact = "the check sum is wrong"
        if is_right:
            try:
                yield decode_event(payload)
                continue
            except MessageError:
                fact = "it is not an event"
        yield Damage(place, len(payload), fact)


def record(data: bytes) -> bytes:
    """Return the record with *data*."""
    length = struct.pack("<Q", len(data))
    return b"".join([length, _CHECKSUM.pack(masked(crc32c(length))), data, _CHECKSUM.pack(masked(crc32c(data)))])


def _walk(buffer: bytes) -> tuple[list[int], int]:
    """Return where the records start that are whole in *buffer*, up to the first damaged length, and where they end."""
    starts: list[int] = []
    # Most headers occur many times, as their lengths do.
    sizes: dict[bytes, int] = {}
    size_of, add = sizes.get, starts.append
    at, last, next_try = 0, len(buffer) - HEADER_BYTES - FOOTER_BYTES, _FIRST_TRY
    while at <= last:
        header = buffer[at : at + HEADER_BYTES]
        size = size_of(header)
        if size is None:
            if not _is_header(header, 0):
                break
            size = sizes[header] = HEADER_BYTES + FOOTER_BYTES + int(_HEADER.unpack(header)[0])
        add(at)
        at += size
        if len(starts) >= next_try and at <= last:
            at = _add_repeats(buffer, starts, at)
            next_try = max(2 * next_try, len(starts) + _FIRST_TRY)
    if at > len(buffer):
        at = starts.pop()
    return starts, at


def _add_repeats(buffer: bytes, starts: list[int], at: int) -> int:
    """Add to *starts* the records from *at* on whose headers repeat those before, row by row; return where they end.

    A training loop writes the same tags at every step, so that most records are found here.
    """
    headers = [buffer[start : start + HEADER_BYTES] for start in starts[-2 * _LONGEST_ROW :]]
    periods = range(1, len(headers) // 2 + 1)
    period = next((each for each in periods if headers[-each:] == headers[-2 * each : -each]), None)
    if period is None:
        return at
    row = starts[-period:]
    size = at - row[0]
    count = (len(buffer) - at) // size
    for start, header in zip(row, headers[-period:], strict=True):
        first = start + size
        for part in range(HEADER_BYTES if count else 0):
            column = buffer[first + part : first + count * size : size]
            count = len(column) - len(column.lstrip(header[part : part + 1]))
    found = [0] * (count * period)
    for part, start in enumerate(row):
        found[part::period] = range(start + size, start + size + count * size, size)
    starts += found
    return at + count * size


def _is_header(buffer: bytes, at: int) -> bool:
    length, checksum = _HEADER.unpack_from(buffer, at)
    return int(length) <= MAX_RECORD_BYTES and masked(crc32c(buffer[at : at + 8])) == int(checksum)


def _header_is_damaged(buffer: bytes) -> bool:
    return len(buffer) >= HEADER_BYTES and not _is_header(buffer, 0)


def _to_next_header(buffer: bytes) -> int:
    """Return the number of bytes from the start of *buffer*, which is not a header, to what is or may be one."""
    for match in _POSSIBLE_HEADER.finditer(buffer, 5):
        at = match.start() - 4
        if at + HEADER_BYTES > len(buffer):
            return at
        if _is_header(buffer, at):
            return at
    # The start of a header may be at the end.
    return max(1, len(buffer) - HEADER_BYTES)


def _missing(buffer: bytes) -> int:
    """Return how many bytes the record at the start of *buffer* lacks; 0 where that is not known."""
    if len(buffer) < HEADER_BYTES:
        return 0
    return HEADER_BYTES + FOOTER_BYTES + int(_HEADER.unpack_from(buffer)[0]) - len(buffer)
