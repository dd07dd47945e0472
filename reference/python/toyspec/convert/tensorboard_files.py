"""The messages in TensorBoard event files: events, and the values of their summaries."""

from __future__ import annotations

import math
import re
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import msgspec

from toyspec.convert.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Message,
    MessageError,
    double_field,
    field,
    float_field,
    integer_field,
    text,
    varint,
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

ValueKind = Literal["scalar", "text", "texts", "histogram", "hparams", "ending", "other"]

_WALL, _STEP, _VERSION, _GRAPH, _SUMMARY, _LOG, _SESSION = 1, 2, 3, 4, 5, 6, 7
_OTHER_EVENTS = {_GRAPH: "graph", _LOG: "log message", 8: "run metadata", 9: "meta graph"}
_TAG, _SIMPLE, _IMAGE, _HISTOGRAM, _AUDIO, _TENSOR, _METADATA = 1, 2, 4, 5, 6, 8, 9
_OTHER_VALUES = {3: "old histogram", _IMAGE: "image", _HISTOGRAM: "histogram", _AUDIO: "audio"}
# The parts of the old message for a histogram that bins do not have.
_MOMENTS = "sum and sum of squares"
_SUCCESS, _FAILURE = 1, 2
_LARGEST_BITS = 1023
_STRING = 7


class Value(NamedTuple):
    """One value of a summary."""

    tag: str
    kind: ValueKind
    value: Any
    """A number, a text or texts, bins, hyperparameters by name, a reason; for other kinds what it is."""
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
    values: list[Value]
    session_starts: bool
    others: list[str]
    """What else is in it."""


def decode_event(data: bytes) -> Event:
    """Return the event in *data*; raise MessageError."""
    found = Message(data)
    values = [_value(Message(item)) for summary in found.parts(_SUMMARY) for item in Message(summary).parts(1)]
    sessions = [Message(session).integer(1) == START_OF_SESSION for session in found.parts(_SESSION)]
    others = [name for number, name in _OTHER_EVENTS.items() for _ in found.parts(number)]
    others += ["session log" for starts in sessions if not starts]
    return Event(found.double(_WALL), found.integer(_STEP), values, any(sessions), others)


def _value(found: Message) -> Value:
    plugin, tag = Message(Message(found.data(_METADATA)).data(1)), found.data(_TAG)
    name, left_out = text(tag), ""
    if plugin.text(1) == "hparams":
        return _hparams(name, Message(plugin.data(2)))
    if found.parts(_TENSOR):
        kind, value = _in_tensor(plugin.text(1), Message(found.data(_TENSOR)))
    elif (_SIMPLE, FIXED32) in found:
        kind, value = "scalar", struct.unpack("<f", found[_SIMPLE, FIXED32][-1])[0]
    else:
        kind, value = _before_tensors(found)
        left_out = _MOMENTS if kind == "histogram" else ""
    texts = Message(found.data(_TENSOR)).parts(8) if kind in ("text", "texts") else []
    is_utf8 = kind == "other" or all(text(each).encode() == each for each in (tag, *texts))
    return Value(name, kind, value, left_out=left_out, is_utf8=is_utf8)


def _before_tensors(found: Message) -> tuple[ValueKind, Any]:
    bins = _old_bins(Message(found.data(_HISTOGRAM)))
    if bins is not None:
        return "histogram", bins
    numbers = {number for number, _ in found}
    return "other", next((name for number, name in _OTHER_VALUES.items() if number in numbers), "empty value")


def _in_tensor(plugin: str, tensor: Message) -> tuple[ValueKind, Any]:
    """Return what the *tensor* of a *plugin* shows, else its one number or text; of another one that it is one."""
    parts = tensor.parts(8) if tensor.integer(1) == _STRING else []
    if plugin == HISTOGRAMS and (bins := _bins_in(tensor)) is not None:
        return "histogram", bins
    if plugin == TEXT and len(parts) > 1:
        return "texts", [text(part) for part in parts]
    if len(parts) == 1:
        return ("text", text(parts[0])) if plugin in (TEXT, "") else ("other", f"{plugin} data")
    number = _number_in(tensor)
    return ("other", "tensor") if number is None else ("scalar", number)


def _number_in(tensor: Message) -> float | None:
    """Return the one number in a tensor of binary32 or binary64; None if there is not exactly one."""
    dtype = tensor.integer(1)
    if dtype not in _PACKED or math.prod(_shape(tensor)) != 1:
        return None
    number, layout = _PACKED[dtype]
    listed = [value for key, values in tensor.items() if key[0] == number for value in values]
    packed = next((each for each in (*tensor.parts(4)[-1:], *listed[:1]) if each), b"")
    is_one = isinstance(packed, bytes) and len(packed) == struct.calcsize(layout) and len(listed) < 2
    return float(struct.unpack(layout, packed)[0]) if is_one else None


def _hparams(tag: str, found: Message) -> Value:
    if tag == HPARAMS_START_TAG and found.parts(3):
        info = Message(found.data(3))
        config = {entry.text(1): _hparam(Message(entry.data(2))) for entry in map(Message, info.parts(1))}
        parts = {(2, BYTES): "model_uri", (3, BYTES): "monitor_url", (5, FIXED64): "start_time_secs"}
        left_out = ", ".join(name for key, name in parts.items() if any(info.get(key, ())))
        return Value(tag, "hparams", config, info.text(4), left_out)
    reasons = {_SUCCESS: "completed", _FAILURE: "errored"}
    if tag == HPARAMS_END_TAG and (reason := reasons.get(Message(found.data(4)).integer(1))):
        return Value(tag, "ending", reason)
    return Value(tag, "other", "hyperparameter data")


def _hparam(value: Message) -> Any:
    if (2, FIXED64) in value:
        return value.double(2)
    if (3, BYTES) in value:
        return value.text(3)
    return bool(value.integer(4)) if (4, VARINT) in value else None


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
    """Return an event with the fields of one *value* of a plugin, such as those of ``histogram_value``."""
    return _event(wall, step, field(_SUMMARY, field(1, field(_TAG, tag) + value)))


def text_event(wall: float, step: int, tag: str, content: str) -> bytes:
    """Return an event with one text, as the text plugin shows it."""
    tensor = integer_field(1, _STRING) + field(2, b"") + field(8, content)
    return shown_event(wall, step, tag, field(8, tensor) + field(9, field(1, field(1, TEXT))))


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


HISTOGRAMS, TEXT = "histograms", "text"
"""The names of the plugins."""

_FLOAT, _DOUBLE = 1, 2
_PACKED = {_FLOAT: (5, "<f"), _DOUBLE: (6, "<d")}


def _old_bins(found: Message) -> Bins | None:
    """Return the bins of a summary of the first version, whose outer ones end at the smallest and largest value."""
    limits, counts = (_doubles(found, number) for number in (6, 7))
    least, most = found.double(1), found.double(2)
    if not limits or len(limits) != len(counts):
        return None
    # The bins below the smallest and above the largest value are empty, and may reach to infinity.
    first = next((at for at, limit in enumerate(limits) if limit > least), len(limits) - 1)
    last = next((at for at, limit in enumerate(limits) if limit >= most), len(limits) - 1)
    if first > last or any(counts[:first]) or any(counts[last + 1 :]):
        first, last = 0, len(limits) - 1
    edges = [min(least, limits[first]), *limits[first:last], max(most, limits[last - 1] if last > first else most)]
    return _checked(edges, counts[first : last + 1])


def _doubles(found: Message, number: int) -> list[float]:
    packed = b"".join([*found.get((number, FIXED64), ()), *found.parts(number)])
    return list(struct.unpack(f"<{len(packed) // 8}d", packed)) if len(packed) % 8 == 0 else []


def _bins_in(tensor: Message) -> Bins | None:
    shape, dtype = _shape(tensor), tensor.integer(1)
    if len(shape) != 2 or shape[1] != 3 or dtype not in _PACKED:
        return None
    number, layout = _PACKED[dtype]
    packed = tensor.data(4) or tensor.data(number)
    size = 3 * shape[0]
    if size <= 0 or len(packed) != size * struct.calcsize(layout):
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


def _shape(tensor: Message) -> list[int]:
    return [Message(size).integer(1) for size in Message(tensor.data(2)).parts(2)]


def histogram_value(edges: Sequence[float], counts: Sequence[float]) -> bytes:
    """Return the fields of a value with a histogram."""
    bins = zip(edges[:-1], edges[1:], counts, strict=True)
    rows = [number for each in bins for number in each]
    shape = field(2, integer_field(1, len(counts))) + field(2, integer_field(1, 3))
    tensor = integer_field(1, _DOUBLE) + field(2, shape) + field(4, struct.pack(f"<{len(rows)}d", *rows))
    return field(8, tensor) + field(9, field(1, field(1, HISTOGRAMS)))


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
        if len(buffer) >= HEADER_BYTES and not _is_header(buffer, 0):
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
    for start, end in zip(block.starts, [*block.starts[1:], len(block.data)], strict=True):
        payload = block.data[start + HEADER_BYTES : end - FOOTER_BYTES]
        fact = "the check sum is wrong"
        if _CHECKSUM.pack(masked(crc32c(payload))) == block.data[end - FOOTER_BYTES : end]:
            try:
                yield decode_event(payload)
                continue
            except MessageError:
                fact = "it is not an event"
        yield Damage(block.offset + start, len(payload), fact)


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
    at, last = 0, len(buffer) - HEADER_BYTES - FOOTER_BYTES
    while at <= last:
        header = buffer[at : at + HEADER_BYTES]
        size = size_of(header)
        if size is None:
            if not _is_header(header, 0):
                break
            size = sizes[header] = HEADER_BYTES + FOOTER_BYTES + int(_HEADER.unpack(header)[0])
        add(at)
        at += size
    if at > len(buffer):
        at = starts.pop()
    return starts, at


def _is_header(buffer: bytes, at: int) -> bool:
    length, checksum = _HEADER.unpack_from(buffer, at)
    return int(length) <= MAX_RECORD_BYTES and masked(crc32c(buffer[at : at + 8])) == int(checksum)


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
