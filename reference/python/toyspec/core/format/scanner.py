"""Scans one JSON text strictly, byte by byte from the left, without recursion.

The scanner reports findings and does not build values. It follows RFC 8259, except that ``NaN``, ``Infinity`` and
``-Infinity`` are numbers that it reports, and that half a surrogate pair is reported instead of refused.
Time and memory are linear in the length of the text; only the keys of open objects are kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toyspec.core.escaping import printable, shortened
from toyspec.core.findings import LineFinding
from toyspec.core.format.flattening import token_of
from toyspec.core.generated import messages, rules
from toyspec.core.generated.limits import MAX_DEPTH, MAX_FINDINGS_PER_RULE

if TYPE_CHECKING:
    from collections.abc import Callable

_SPACE = re.compile(rb"[ \t\r\n]*+")
_SPACES = frozenset(b" \t\r\n")
# Not a byte of any text, so that it marks the end in every comparison.
_END = b"\0"
_STRING_BODY = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
_STRING = re.compile(_STRING_BODY + b'"')
_STRING_START = re.compile(_STRING_BODY)
_NUMBER = re.compile(rb"-?+(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][+-]?+[0-9]++)?+")
# Items of an array that have no finding, with the commas after them: numbers that cannot overflow binary64.
_PLAIN_NUMBERS = re.compile(
    rb"(?:-?+(?:0|[1-9][0-9]{0,199}+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]{1,2}+)?+[ \t\r\n]*+,[ \t\r\n]*+)++"
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL
)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {
    ord("t"): b"true",
    ord("f"): b"false",
    ord("n"): b"null",
    ord("N"): b"NaN",
    ord("I"): b"Infinity",
    ord("-"): b"-Infinity",
}
_NOT_FINITE = frozenset(b"NI-")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_DIGITS = frozenset(b"0123456789")
# The largest binary64 has 309 digits: a shorter number without exponent cannot overflow.
_OVERFLOW_DIGITS = 309
# A line can repeat one long key in the pointers of all its findings; beyond this many characters they are only counted.
_POINTER_BUDGET = 1 << 20
_VALUE_RULES = (rules.NON_FINITE_NUMBER, rules.LONE_SURROGATE, rules.DUPLICATE_KEY)


class ScanStoppedError(Exception):
    """The text cannot be scanned further; ``finding`` says where and why."""

    def __init__(self, rule: str, offset: int, message: str) -> None:
        super().__init__(message)
        self.finding = LineFinding(rule, offset, "", message)


class _Container:
    """An object or array that is open: the key or index of its current member, and where it is."""

    __slots__ = ("empty", "index", "key", "keys", "pointer")

    def __init__(self, keys: set[bytes] | None, pointer: str | None) -> None:
        self.keys = keys
        self.key = ""
        self.index = -1
        self.empty = True
        self.pointer = pointer

    @property
    def token(self) -> str:
        return str(self.index) if self.keys is None else token_of(_HALF_PAIR.sub("\ufffd", self.key))


class Scanner:
    """One scan of one text. Call ``scan`` once, then read the attributes.

    *places*, when given, collects the byte offset of every value under its pointer, or only of those in
    *wanted*. A repeated key keeps the place of its last value.
    """

    def __init__(
        self, data: bytes, *, places: dict[str, int] | None = None, wanted: frozenset[str] | None = None
    ) -> None:
        self.findings: list[LineFinding] = []
        self.unlisted: dict[str, int] = {}
        self.start = 0
        """Byte offset of the value's first byte."""
        self._data = data
        self._bytes = data + _END
        self._stack: list[_Container] = []
        self._places = places
        self._wanted = wanted
        self._pointer_budget = _POINTER_BUDGET
        self._listed = dict.fromkeys(_VALUE_RULES, 0)

    def scan(self) -> None:
        """Scan the whole text; raise ScanStoppedError where it stops being JSON or is nested too deep."""
        position = self.start = self._skip(0)
        position = self._value(position)
        while self._stack:
            position = self._member(position)
        position = self._skip(position)
        if position != len(self._data):
            raise self._unexpected(position, messages.EXPECTED_END_OF_LINE)
        self.findings.sort(key=lambda finding: (finding.offset, rules.ORDER[finding.rule]))

    def _skip(self, position: int) -> int:
        if self._bytes[position] not in _SPACES:
            return position
        found = _SPACE.match(self._data, position)
        assert found is not None
        return found.end()

    def _member(self, position: int) -> int:
        container = self._stack[-1]
        position = self._skip(position)
        byte = self._bytes[position]
        if byte == (0x5D if container.keys is None else 0x7D):
            self._stack.pop()
            return position + 1
        if container.empty:
            container.empty = False
        elif byte == 0x2C:
            position = self._skip(position + 1)
        else:
            is_array = container.keys is None
            raise self._unexpected(
                position, messages.EXPECTED_MEMBER_OF_ARRAY if is_array else messages.EXPECTED_MEMBER_OF_OBJECT
            )
        if container.keys is None:
            if container.pointer is None and (plain := _PLAIN_NUMBERS.match(self._data, position)):
                container.index += plain[0].count(b",")
                position = plain.end()
            container.index += 1
            return self._value(position)
        return self._keyed_value(container, container.keys, position)

    def _keyed_value(self, container: _Container, keys: set[bytes], start: int) -> int:
        if self._bytes[start] != 0x22:
            raise self._unexpected(start, messages.EXPECTED_KEY)
        end = self._string_end(start)
        body = self._data[start + 1 : end - 1]
        container.key = key = _unescaped(body)
        name = key.encode("utf-8", "surrogatepass") if b"\\" in body else body
        position = self._skip(end)
        if self._bytes[position] != 0x3A:
            raise self._unexpected(position, messages.EXPECTED_COLON)
        position = self._skip(position + 1)
        self._note_surrogates(start, end)
        if name in keys:
            self._note(rules.DUPLICATE_KEY, position, lambda: messages.duplicate_key(key=shortened(key)))
        keys.add(name)
        return self._value(position)

    def _value(self, start: int) -> int:
        byte = self._bytes[start]
        pointer = None if self._places is None else self._place(start)
        if byte == 0x22:
            end = self._string_end(start)
            self._note_surrogates(start, end)
            return end
        if byte in (0x7B, 0x5B):
            if len(self._stack) == MAX_DEPTH:
                message = messages.nested_too_deep(limit=MAX_DEPTH)
                raise ScanStoppedError(rules.NESTED_TOO_DEEP, start, message)
            self._stack.append(_Container(set() if byte == 0x7B else None, pointer))
            return start + 1
        if byte in _DIGITS or (byte == 0x2D and self._bytes[start + 1] != 0x49):
            return self._number_end(start)
        if byte in _WORDS:
            return self._word_end(start, _WORDS[byte])
        raise self._unexpected(start, messages.EXPECTED_VALUE)

    def _word_end(self, start: int, word: bytes) -> int:
        if not self._data.startswith(word, start):
            place = start + next(i for i, byte in enumerate(word) if self._bytes[start + i] != byte)
            raise self._unexpected(place, messages.expected_word(word=word.decode()))
        if word[0] in _NOT_FINITE:
            self._note(rules.NON_FINITE_NUMBER, start, lambda: messages.non_finite_number(literal=word.decode()))
        return start + len(word)

    def _number_end(self, start: int) -> int:
        found = _NUMBER.match(self._data, start)
        if found is None:
            raise self._unexpected(start + 1, messages.EXPECTED_DIGIT)
        end = found.end()
        fraction, exponent = found.groups()
        after = self._bytes[end]
        if after == 0x2E and fraction is None and exponent is None:
            raise self._unexpected(end + 1, messages.EXPECTED_DIGIT)
        if after in (0x65, 0x45) and exponent is None:
            raise self._unexpected(end + (2 if self._bytes[end + 1] in (0x2B, 0x2D) else 1), messages.EXPECTED_DIGIT)
        if exponent is not None or end - start >= _OVERFLOW_DIGITS:
            text = found.group()
            if float(text) in (float("inf"), float("-inf")):
                too_large = messages.non_finite_number_too_large
                self._note(rules.NON_FINITE_NUMBER, start, lambda: too_large(literal=shortened(text[:200].decode())))
        return end

    def _string_end(self, start: int) -> int:
        found = _STRING.match(self._data, start)
        if found is not None:
            return found.end()
        begun = _STRING_START.match(self._data, start)
        assert begun is not None
        stop = begun.end()
        if self._bytes[stop] != 0x5C:
            raise self._unexpected(stop, messages.EXPECTED_END_OF_STRING)
        if self._bytes[stop + 1] != 0x75:
            raise self._unexpected(stop + 1, messages.EXPECTED_ESCAPE)
        stop += 2
        while self._bytes[stop] in _HEX:
            stop += 1
        raise self._unexpected(stop, messages.EXPECTED_HEX)

    def _note_surrogates(self, start: int, end: int) -> None:
        if _SURROGATE.search(self._data, start, end) is None:
            return
        for found in _ESCAPE.finditer(self._data[start:end].decode()):
            code = found.group(3)
            if code is not None and code[0] in "dD" and code[1] in "89abcdefABCDEF":
                message = messages.lone_surrogate(escape=found.group())
                self._note(rules.LONE_SURROGATE, start, message.__str__)
                return

    def _note(self, rule: str, offset: int, message: Callable[[], str]) -> None:
        if self._listed[rule] < MAX_FINDINGS_PER_RULE and (self._pointer_budget > 0 or not self._listed[rule]):
            pointer = "".join(f"/{container.token}" for container in self._stack)
            self._pointer_budget -= len(pointer)
            self._listed[rule] += 1
            self.findings.append(LineFinding(rule, offset, pointer, message()))
        else:
            self.unlisted[rule] = self.unlisted.get(rule, 0) + 1

    def _place(self, start: int) -> str | None:
        assert self._places is not None
        if not self._stack:
            pointer = ""
        elif self._stack[-1].pointer is None:
            return None
        else:
            pointer = f"{self._stack[-1].pointer}/{self._stack[-1].token}"
        if self._wanted is None or pointer in self._wanted:
            self._places[pointer] = start
            return pointer
        return None

    def _unexpected(self, position: int, expected: str) -> ScanStoppedError:
        position = min(position, len(self._data))
        if position == len(self._data):
            found = messages.FOUND_END_OF_LINE
        else:
            character = self._data[position : position + 4].decode("utf-8", "ignore")[:1]
            is_quote = character == '"'
            found = (
                messages.FOUND_DOUBLE_QUOTE if is_quote else messages.found_character(character=printable(character))
            )
        return ScanStoppedError(rules.INVALID_JSON, position, messages.invalid_json(expected=expected, found=found))


def _unescaped(body: bytes) -> str:
    text = body.decode()
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    high, low, code, short = escape.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    if code is not None:
        return chr(int(code, 16))
    return _SHORT_ESCAPES.get(short, short)
