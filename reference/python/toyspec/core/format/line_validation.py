"""Validates one line as bytes and as JSON, before its meaning is checked.

``validate`` is exact and returns every finding; ``decode`` only tells whether a line is readable, at the speed of C.
Both agree on every line. Neither raises or recurses, and both take linear time and memory on any input.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.core.findings import LineFinding
from toyspec.core.generated import messages, rules
from toyspec.core.generated.limits import MAX_DEPTH, MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toyspec.core.format.lines import Line


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


_BOM = b"\xef\xbb\xbf"
_JSON_SPACE = b" \t\r\n"
_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_NESTED = frozenset([dict, list])
# A line below this length cannot have an integer that overflows binary64.
_LONG_NUMBER = 300
_NUMBER_BYTES = bytes.maketrans(b"0123456789+-.eE", b"0" * 15)
_LONG_RUN = b"0" * _LONG_NUMBER
# Longer lines skip work that takes many times their memory, or reads them more than once.
_LONG_LINE_BYTES = 1 << 20
_RECORD_STARTS = (b'{"kind":', b'{"type":', b'{"step":')


class ValidatedLine(msgspec.Struct, frozen=True):
    """The result for one line."""

    status: Literal["readable", "unreadable", "blank"]
    """Readable: a JSON object without findings other than repeated keys."""
    findings: list[LineFinding]
    """In byte order; at most ``limits.MAX_FINDINGS_PER_RULE`` for each rule."""
    unlisted: dict[str, int]
    """Number of further findings for each rule that are counted, not listed."""
    has_carriage_return: bool
    """True when a readable or blank line has a raw CR."""
    value: dict[str, Any] | None
    """The object of a readable line, a repeated key with its last value; None for all others."""


def validate(data: bytes, *, first: bool) -> ValidatedLine:
    """Return the result for one line of any bytes, LF excluded.

    *first* means that the line is the first of the stream. A text with LF in it, such as a file that is one JSON
    object, is validated the same way: LF is white space.
    """
    if not data.strip(_JSON_SPACE):
        return ValidatedLine("blank", [], {}, b"\r" in data, None)
    finding = _bytes_finding(data, first=first)
    if finding is not None:
        return _unreadable(finding)
    # Imported here: its patterns take a third of the start-up time, and most streams do not need them.
    from toyspec.core.format.scanner import Scanner, ScanStoppedError

    scanner = Scanner(data)
    try:
        scanner.scan()
    except ScanStoppedError as stopped:
        return _unreadable(_explained(stopped.finding, data))
    if data[scanner.start] != ord("{"):
        return _unreadable(
            LineFinding(
                rules.NOT_AN_OBJECT, scanner.start, "", messages.not_an_object(found=_noun(data[scanner.start]))
            )
        )
    if any(finding.rule != rules.DUPLICATE_KEY for finding in scanner.findings):
        return ValidatedLine("unreadable", scanner.findings, scanner.unlisted, False, None)
    value = _value(data, has_repeated=bool(scanner.findings or scanner.unlisted))
    return ValidatedLine("readable", scanner.findings, scanner.unlisted, b"\r" in data, value)


def validate_line(line: Line, *, max_line_bytes: int = MAX_LINE_BYTES) -> ValidatedLine:
    """Return the result for *line*; if it is longer than *max_line_bytes*, its length is the only finding."""
    if line.data is None:
        message = messages.line_too_long(length=line.length, limit=max_line_bytes)
        return _unreadable(LineFinding(rules.LINE_TOO_LONG, 0, "", message))
    return validate(line.data, first=line.number == 1)


def decode(data: bytes) -> dict[str, Any] | None:
    """Return the object of a readable line, None for every other line, blank ones included."""
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH and not is_shallow(data):
        return None
    if len(data) >= _LONG_NUMBER and holds_long_number([data]):
        return validate(data, first=False).value
    try:
        value = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return value if type(value) is dict else None


def decode_plain(data: bytes) -> dict[str, Any] | None:
    """Return the object of a readable line that has nothing to report, at the speed of C; None for all other lines.

    None is returned for some lines that have nothing to report, too.
    """
    value = None if b"\r" in data else decode(data)
    if value is None:
        return None
    is_counted = not hides_keys(data) and data.count(b'":') == _count_keys(value)
    return value if is_counted or _ENCODER.encode(value) == data else None


def hides_keys(data: bytes) -> bool:
    """Return whether keys in *data* cannot be counted by their ``":``.

    Without a backslash every quote begins or ends a string; without white space after a quote each key gives one
    ``":``. A string that begins with a colon gives one too many.
    """
    return b"\\" in data or b'" ' in data or b'"\t' in data or b'"\r' in data


def _count_keys(value: Any) -> int:
    is_object = type(value) is dict
    inner = [each for each in (value.values() if is_object else value) if type(each) in _NESTED]
    return (len(value) if is_object else 0) + sum(map(_count_keys, inner))


def decode_lenient(data: bytes) -> dict[str, Any] | None:
    """Return the object in *data*, which may have bare words for numbers that are not finite; None without one."""
    import json

    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def holds_long_number(lines: Sequence[bytes]) -> bool:
    """Return whether a line may have a number that is long enough to overflow; a string of digits counts too."""
    if max(map(len, lines), default=0) < _LONG_NUMBER:
        return False
    return any(len(line) >= _LONG_NUMBER and _LONG_RUN in line.translate(_NUMBER_BYTES) for line in lines)


def spans(data: bytes, pointers: Collection[str] | None = None) -> dict[str, int]:
    """Return the byte offset of every value in a readable line, or of the values at *pointers*, by pointer.

    A pointer without a value is left out. Memory is linear in the number of values, or of *pointers*.
    """
    from toyspec.core.format.scanner import Scanner

    places: dict[str, int] = {}
    if pointers is None:
        Scanner(data, places=places).scan()
        return places
    Scanner(data, places=places, wanted=frozenset(_with_parents(pointers))).scan()
    return {pointer: places[pointer] for pointer in pointers if pointer in places}


def _bytes_finding(data: bytes, *, first: bool) -> LineFinding | None:
    if first and data.startswith(_BOM):
        return LineFinding(rules.BYTE_ORDER_MARK, 0, "", messages.BYTE_ORDER_MARK)
    nul = data.find(0)
    if nul >= 0:
        return LineFinding(rules.NUL_BYTES, nul, "", messages.nul_bytes(count=data.count(0), length=len(data)))
    try:
        data.decode()
    except UnicodeDecodeError as error:
        message = messages.invalid_utf8(byte=f"{data[error.start]:02x}", reason=error.reason)
        return LineFinding(rules.INVALID_UTF8, error.start, "", message)
    return None


def _unreadable(finding: LineFinding) -> ValidatedLine:
    return ValidatedLine("unreadable", [finding], {}, False, None)


def _noun(byte: int) -> str:
    if byte == ord("["):
        return "an array"
    if byte == ord('"'):
        return "a string"
    return {ord("t"): "true", ord("f"): "false", ord("n"): "null"}.get(byte, "a number")


def _explained(finding: LineFinding, data: bytes) -> LineFinding:
    """Return *finding*, its message reporting that a record begins inside another, if one does."""
    if finding.rule != rules.INVALID_JSON or len(data) > _LONG_LINE_BYTES:
        return finding
    for start in _RECORD_STARTS:
        glue = data.rfind(start)
        if glue > 0 and decode(data[glue:]) is not None:
            message = messages.invalid_json_second_record(at=finding.offset)
            return LineFinding(finding.rule, finding.offset, finding.pointer, message)
    return finding


def _value(data: bytes, *, has_repeated: bool) -> dict[str, Any]:
    """Return the object of a readable line, its keys in the order of the values that they have."""
    import json

    value: dict[str, Any]
    try:
        value = json.loads(data, object_pairs_hook=_last_of_each) if has_repeated else _DECODER.decode(data)
    except msgspec.ValidationError:
        # The decoder refuses a few finite numbers of thousands of digits, which the slow one reads.
        value = json.loads(data)
    return value


def _last_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        found.pop(key, None)
        found[key] = value
    return found


def _with_parents(pointers: Collection[str]) -> set[str]:
    found: set[str] = set()
    for pointer in pointers:
        end = len(pointer)
        while end >= 0 and pointer[:end] not in found:
            found.add(pointer[:end])
            end = pointer.rfind("/", 0, end) if end else -1
    return found
