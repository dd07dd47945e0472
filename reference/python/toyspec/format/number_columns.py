"""The numbers of whole lines as columns, in plain Python: what ``columns`` of the compiled engine returns.

Lines of one shape, with the same keys and nothing but numbers, are decoded into a type that is made for the shape. It
refuses every other key and type, so what it decodes is proven to be a readable record. All other lines are left to the
caller.
"""

from __future__ import annotations

import re
from array import array
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec

from toyspec.format.decoding import typed_decoder
from toyspec.format.line_validation import decode, holds_long_number
from toyspec.format.record_mapping import MILLISECONDS
from toyspec.generated.fields import FIELDS
from toyspec.generated.limits import BINARY32_LIMIT
from toyspec.generated.records import RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.findings import Profile

Kind = Literal["step", "entry"]

_PLACES = ("t", "wall_time_ms", "step", "epoch", "layer", "head", "token_id")
_PHASES = frozenset(["train", "eval", "decode", "serve"])
_MOST_METRICS = 256
_Step = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Time = Annotated[float, msgspec.Meta(ge=0)]
_BINARY32 = msgspec.Meta(gt=-BINARY32_LIMIT, lt=BINARY32_LIMIT)
_NAN = float("nan")
# A type cannot have such keys.
_UNUSABLE = re.compile(r'[\\"\x00-\x1f]')


class Piece(TypedDict):
    """Whole lines: columns of them, or none where the caller reads them."""

    bytes: int
    lines: int
    """Number of lines; 0 where the caller reads them."""
    last: int
    """Offset of the last line in the piece."""
    kinds: list[tuple[str, int]]
    phase: str | None
    times: tuple[float, float] | None
    steps: tuple[int, int] | None
    columns: list[tuple[str, Any, Any]]
    """Name, steps and values of each metric; NaN stands for null."""
    rows: tuple[Any, Any, Any] | None
    """Step, time in seconds and epoch of each line; the epochs are None where no line has one."""
    places: list[tuple[Any, Any, Any]]
    """The same of each column, if each line has one of several; else they are those of the lines, and this is empty."""
    minimized: list[tuple[str, bool]]
    """Metrics of which a line says whether smaller values are better."""


class _Shape(NamedTuple):
    """The lines that one type decodes."""

    decode: Callable[[bytes], Any]
    kind: Kind
    phase: str | None
    metrics: tuple[tuple[str, Callable[[Any], float | None]], ...]
    step: Callable[[Any], int]
    time: Callable[[Any], float]
    epoch: Callable[[Any], float] | None


def columns(text: bytes, profile: Profile) -> list[Piece]:
    """Return what the whole lines *text* of a stream of *profile* hold, in order: pieces whose bytes add up to all."""
    lines = text.split(b"\n")
    lines.pop()
    pieces: list[Piece] = []
    if holds_long_number(lines):
        _leave(pieces, len(text))
        return pieces
    at = 0
    while at < len(lines):
        shape = _shape_of(lines[at], profile)
        found = [] if shape is None else _decoded(lines[at:], shape.decode)
        if shape is None or not found:
            _leave(pieces, len(lines[at]) + 1)
            at += 1
            continue
        pieces.append(_piece(shape, found, lines[at : at + len(found)]))
        at += len(found)
    return pieces


def _decoded(lines: list[bytes], decode_line: Callable[[bytes], Any]) -> list[Any]:
    """Return what *lines* decode into, up to the first that is refused."""
    found: list[Any] = []
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        found.extend(map(decode_line, lines))
    return found


def _leave(pieces: list[Piece], size: int) -> None:
    if pieces and not pieces[-1]["lines"]:
        pieces[-1]["bytes"] += size
        return
    pieces.append(
        Piece(
            bytes=size, lines=0, last=0, kinds=[], phase=None, times=None, steps=None, columns=[], rows=None, places=[],
            minimized=[],
        )
    )  # fmt: skip


def _piece(shape: _Shape, found: list[Any], lines: list[bytes]) -> Piece:
    size = sum(map(len, lines)) + len(lines)
    steps = array("q", map(shape.step, found))
    times = array("d", map(shape.time, found))
    if shape.kind == "entry":
        times = array("d", [time / MILLISECONDS for time in times])
    return Piece(
        bytes=size,
        lines=len(found),
        last=size - len(lines[-1]) - 1,
        kinds=[(shape.kind, len(found))],
        phase=shape.phase,
        times=(times[0], times[-1]),
        steps=(steps[0], steps[-1]),
        columns=[(name, steps, _values(list(map(value, found)))) for name, value in shape.metrics],
        rows=(steps, times, None if shape.epoch is None else array("d", map(shape.epoch, found))),
        places=[],
        minimized=[],
    )


def _values(values: list[Any]) -> array[float]:
    return array("d", values if None not in values else [_NAN if value is None else value for value in values])


def _shape_of(line: bytes, profile: Profile) -> _Shape | None:
    """Return the shape of a record that is nothing but numbers; None for another record or line."""
    value = decode(line)
    if value is None:
        return None
    extra = value.get("extra", {})
    if not isinstance(extra, dict) or len(value) + len(extra) > _MOST_METRICS:
        return None
    phase = value.get("phase")
    if not isinstance(phase, str | None) or _UNUSABLE.search("".join((*value, *extra))):
        return None
    if profile == "toy/v1" and value.get("kind") == "step" and (phase is None or phase in _PHASES):
        return None if phase is None and "phase" in value else _shape("step", tuple(value), tuple(extra), phase)
    if profile == "metrics/v1" and FIELDS["metrics/v1"]["entry"].keys() >= value.keys():
        return _shape("entry", tuple(value), tuple(extra), None)
    return None


@lru_cache(maxsize=256)
def _shape(kind: Kind, keys: tuple[str, ...], extra: tuple[str, ...], phase: str | None) -> _Shape | None:
    """Return the type of records with these *keys*, those of ``extra`` included; None if one name has two values."""
    time = "t" if kind == "step" else "wall_time_ms"
    if not {time, "step"} <= set(keys) or set(keys) & set(extra):
        return None
    numbers = [key for key in keys if key not in (*_PLACES, "kind", "phase", "extra")]
    fields: list[Any] = [("step", _Step, _renamed("step")), ("time", _Time, _renamed(time))]
    fields += [(f"m{index}", _number_type(kind, key), _renamed(key)) for index, key in enumerate(numbers)]
    fields += [(f"p{key}", float, _renamed(key)) for key in keys if key in _PLACES and key not in ("step", time)]
    if "phase" in keys:
        fields.append(("phase", Literal[phase]))
    if "extra" in keys:
        inner = [(f"e{index}", float | None, _renamed(key)) for index, key in enumerate(extra)]
        fields.append(("extra", msgspec.defstruct("Extra", inner, forbid_unknown_fields=True, gc=False)))
    tag: dict[str, Any] = {"tag_field": "kind", "tag": "step"} if kind == "step" else {}
    record = msgspec.defstruct("Numbers", fields, forbid_unknown_fields=True, kw_only=True, gc=False, **tag)
    found = [(name, attrgetter(f"extra.e{index}")) for index, name in enumerate(extra)]
    found += [(name, attrgetter(f"m{index}")) for index, name in enumerate(numbers)]
    epoch = attrgetter("pepoch") if "epoch" in keys else None
    decoder = typed_decoder(record).decode
    return _Shape(decoder, kind, phase, tuple(found), attrgetter("step"), attrgetter("time"), epoch)


def _number_type(kind: Kind, key: str) -> Any:
    """Return the type of a metric: with another value of this one, the record may not count."""
    is_limited = kind == "entry" and key == RECORDS["metrics/v1"]["others"]["valid"]
    return Annotated[float, _BINARY32] | None if is_limited else float | None


def _renamed(key: str) -> Any:
    return msgspec.field(name=key)
