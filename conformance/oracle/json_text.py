"""Scans one JSON text strictly and keeps where everything is: see spec/encoding.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from conformance.format_facts import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPACE = re.compile(r"[ \t\r\n]*+")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
_NUMBER_START = re.compile(r"-?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?+)?+(?:(?<=[0-9])[eE][+-]?+)?+")
_HEX = re.compile(r"[0-9a-fA-F]{0,4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {
    "t": ("true", "true"),
    "f": ("false", "false"),
    "n": ("null", "null"),
    "N": ("NaN", "number"),
    "I": ("Infinity", "number"),
}
_PAIRS = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALVES = re.compile("[\ud800-\udfff]")

Type = Literal["object", "array", "string", "number", "true", "false", "null"]


@dataclass(slots=True)
class Value:
    """One JSON value and its place."""

    type: Type
    start: int
    """Index of its first character in the text."""
    text: str = ""
    """The characters of a string, escapes resolved; the literal of a number."""
    items: list[Value] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)

    def get(self, key: str) -> Value | None:
        """Return the last value of *key* in this object, None if there is none."""
        return self.unique().get(key)

    def unique(self) -> dict[str, Value]:
        """Return the members of this object; of a repeated key, the last."""
        return {member.key: member.value for member in self.members}


@dataclass(slots=True)
class Member:
    """One member of an object."""

    key: str
    start: int
    """Index of the quote that opens the key."""
    value: Value


@dataclass(frozen=True, slots=True)
class Problem:
    """An error at a place of a text."""

    rule: str
    start: int
    """Index of the character where it is."""
    pointer: str = ""
    path: tuple[str, ...] = ()
    """Keys that lead to an unknown key, without the indexes of arrays."""


class Stopped(Exception):  # noqa: N818  (not a defect of a program: the text ends here)
    """The text is not JSON beyond a place, or nested too deep there."""

    def __init__(self, rule: str, start: int) -> None:
        self.problem = Problem(rule, start)


def token(key: str) -> str:
    """Return *key* as a part of a JSON Pointer; half a surrogate pair shows as U+FFFD."""
    return "/" + _HALVES.sub("\ufffd", key).replace("~", "~0").replace("/", "~1")


class Scanner:
    """Scans one text from left to right, once."""

    max_depth = MAX_DEPTH

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def scan(self) -> Value:
        """Return the value that the whole text is; raise Stopped if it is not one."""
        self._skip()
        value = self._value(1)
        self._skip()
        if self._at != len(self._text):
            raise self._stopped()
        return value

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _stopped(self) -> Stopped:
        return Stopped("invalid-json", self._at)

    def _value(self, depth: int) -> Value:
        start, first = self._at, self._next()
        if first in ("{", "["):
            if depth > self.max_depth:
                raise Stopped("nested-too-deep", start)
            return self._object(depth) if first == "{" else self._array(depth)
        if first == '"':
            return Value("string", start, self._string())
        if first in _WORDS:
            return self._word(start)
        if first == "-" and self._text.startswith("I", start + 1):
            self._at += 1
            return self._word(start)
        return self._number()

    def _object(self, depth: int) -> Value:
        value = Value("object", self._at)
        self._at += 1
        self._skip()
        if self._took("}"):
            return value
        while True:
            start = self._at
            if self._next() != '"':
                raise self._stopped()
            key = self._string()
            self._skip()
            self._demand(":")
            value.members.append(Member(key, start, self._value(depth + 1)))
            self._skip()
            if self._took("}"):
                return value
            self._demand(",")

    def _array(self, depth: int) -> Value:
        value = Value("array", self._at)
        self._at += 1
        self._skip()
        if self._took("]"):
            return value
        while True:
            value.items.append(self._value(depth + 1))
            self._skip()
            if self._took("]"):
                return value
            self._demand(",")

    def _took(self, character: str) -> bool:
        if self._next() != character:
            return False
        self._at += 1
        return True

    def _demand(self, character: str) -> None:
        if not self._took(character):
            raise self._stopped()
        self._skip()

    def _word(self, start: int) -> Value:
        word, kind = _WORDS[self._next()]
        for character in word:
            if not self._took(character):
                raise self._stopped()
        return Value(kind, start, word)  # type: ignore[arg-type]  # a value of _WORDS

    def _number(self) -> Value:
        found = _NUMBER.match(self._text, self._at)
        begun = _NUMBER_START.match(self._text, self._at)
        assert begun is not None
        if found is None or begun.end() > found.end():
            self._at = begun.end()
            raise self._stopped()
        start, self._at = self._at, found.end()
        return Value("number", start, found.group())

    def _string(self) -> str:
        self._at += 1
        parts = []
        while True:
            plain = _PLAIN.match(self._text, self._at)
            assert plain is not None
            parts.append(plain.group())
            self._at = plain.end()
            if self._took('"'):
                return _paired("".join(parts))
            if not self._took("\\"):
                raise self._stopped()
            parts.append(self._escape())

    def _escape(self) -> str:
        letter = self._next()
        if letter == "u":
            digits = _HEX.match(self._text, self._at + 1)
            assert digits is not None
            self._at = digits.end()
            if len(digits.group()) < 4:
                raise self._stopped()
            return chr(int(digits.group(), 16))
        if letter not in _ESCAPES:
            raise self._stopped()
        self._at += 1
        return _ESCAPES[letter]


def value_problems(value: Value, pointer: str = "") -> Iterator[Problem]:
    """Yield the errors of the values in *value*, which is JSON, in any order."""
    if _HALVES.search(value.text):
        yield Problem("lone-surrogate", value.start, pointer)
    elif value.type == "number" and not is_finite(value.text):
        yield Problem("non-finite-number", value.start, pointer)
    seen: set[str] = set()
    for member in value.members:
        place = pointer + token(member.key)
        if _HALVES.search(member.key):
            yield Problem("lone-surrogate", member.start, place)
        if member.key in seen:
            yield Problem("duplicate-key", member.value.start, place)
        seen.add(member.key)
        yield from value_problems(member.value, place)
    for index, item in enumerate(value.items):
        yield from value_problems(item, f"{pointer}/{index}")


def is_finite(literal: str) -> bool:
    """Return whether the binary64 value of a number is finite."""
    return literal[-1].isdigit() and abs(float(literal)) != float("inf")


def is_integer(literal: str) -> bool:
    """Return whether a number is written without fraction and exponent."""
    return literal.lstrip("-").isdigit()


def whole(literal: str) -> int | None:
    """Return the integer that a number is, None if it is not one; text other than digits is read as binary64."""
    if is_integer(literal):
        return int(literal)
    number = float(literal)
    return int(number) if number.is_integer() else None


def _paired(text: str) -> str:
    """Return *text* with surrogate pairs joined."""

    def joined(pair: re.Match[str]) -> str:
        found = pair.group()
        return chr(0x10000 + ((ord(found[0]) - 0xD800) << 10) + ord(found[1]) - 0xDC00)

    return _PAIRS.sub(joined, text)
