"""The messages in TensorBoard event files: events, and the values of their summaries."""

from __future__ import annotations

import math
import struct
from typing import Any, Literal, NamedTuple

import msgspec

from toyspec.convert import tensorboard_media as media
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
        bins = media.histogram_of(data)
        return None if bins is None else ("histogram", bins)
    if number not in (_IMAGE, _AUDIO):
        return None
    file = media.image_of(data) if number == _IMAGE else media.audio_of(data)
    return None if file is None else ("images" if number == _IMAGE else "audio", [file])


def _shown_in_tensor(plugin: str, tensor: bytes) -> tuple[ValueKind, Any] | None:
    kinds: dict[str, ValueKind] = {
        media.IMAGES: "images", media.AUDIO: "audio", media.HISTOGRAMS: "histogram", media.TEXT: "texts"
    }  # fmt: skip
    found = media.shown_in(plugin, tensor)
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
    if dtype not in _TENSOR_TYPES or _size(found.get(2, [])) != 1:
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


def _size(shapes: list[tuple[int, Any]]) -> int:
    """Return the number of elements of a tensor."""
    size = 1
    for wire, shape in shapes:
        for number, kind, dimension in fields(shape) if wire == 2 else ():
            if number == 2 and kind == 2:
                size *= signed(members(dimension).get(1, 0))
    return size


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
    """Return an event with the fields of one *value* of a plugin: see ``tensorboard_media``."""
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


__all__ = [
    "Event",
    "MessageError",
    "Value",
    "binary32",
    "decode_event",
    "ending_event",
    "hparam",
    "hparams_event",
    "scalar_event",
    "session_event",
    "text_event",
    "version_event",
]
