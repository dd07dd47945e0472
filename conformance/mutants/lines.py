"""Mutants of bytes, lines and JSON: see spec/encoding.md."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.json_text import Problem, Scanner, Stopped, Value, value_problems
from conformance.oracle.lines import Line, Lines
from conformance.oracle.record_rules import RecordRules

if TYPE_CHECKING:
    from collections.abc import Iterator


class SplitsAtCarriageReturn(Oracle):
    """Ends a line at a carriage return too."""

    class lines_type(Lines):
        def cut(self, data: bytes) -> list[bytes]:
            return data.replace(b"\r", b"\n").split(b"\n")


class SplitsAtLineSeparator(Oracle):
    """Ends a line at U+2028 too, as the text functions of many languages do."""

    class lines_type(Lines):
        def cut(self, data: bytes) -> list[bytes]:
            return data.replace("\u2028".encode(), b" \n ").split(b"\n")


class StumblesOverBlankLines(Oracle):
    """Reports a blank line as unreadable."""

    class lines_type(Lines):
        def is_blank(self, data: bytes) -> bool:
            return False


class CommitsAnUnterminatedRecord(Oracle):
    """Accepts bytes after the last LF as a record if they parse."""

    def read(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer as if the LF had been written."""
        data = request.get("stream", b"")
        fragment = data[data.rfind(b"\n") + 1 :]
        if fragment and Lines().validate(1, 0, fragment).status == "readable":
            request = request | {"stream": data + b"\n"}
        return super().read(request)


class EndsKeysAtNul(Oracle):
    """Compares keys up to U+0000, as strings of C are compared."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            return _ended_at_nul(super().scan(text))


class TakesTrailingCommas(Oracle):
    """Accepts a comma before a closing bracket."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            return super().scan(text.replace(",}", "}").replace(",]", "]"))


class TakesControlCharacters(Oracle):
    """Accepts raw control characters in strings."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            return super().scan("".join(" " if c < " " and c not in "\t\r\n" else c for c in text))


class TakesTabs(Oracle):
    """Accepts raw tabs in strings, and no other control character."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            return super().scan(text.replace("\t", " "))


class TakesASecondValue(Oracle):
    """Accepts bytes after the first value on a line."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            scanner = Scanner(text)
            scanner._skip()
            return scanner._value(1)


class TakesNaN(Oracle):
    """Accepts NaN and Infinity, as the JSON library of Python does."""

    class lines_type(Lines):
        def problems(self, value: Value) -> Iterator[Problem]:
            return (problem for problem in super().problems(value) if problem.rule != "non-finite-number")


class TakesOverflow(Oracle):
    """Accepts numbers beyond binary64, but not the word Infinity."""

    class lines_type(Lines):
        def problems(self, value: Value) -> Iterator[Problem]:
            words = {node.start for node in _all(value) if node.type == "number" and not node.text[-1].isdigit()}
            for problem in super().problems(value):
                if problem.rule != "non-finite-number" or problem.start in words:
                    yield problem


class TakesLoneSurrogates(Oracle):
    """Accepts half a surrogate pair."""

    class lines_type(Lines):
        def problems(self, value: Value) -> Iterator[Problem]:
            return (problem for problem in super().problems(value) if problem.rule != "lone-surrogate")


class ReplacesInvalidUtf8(Oracle):
    """Puts a question mark in place of bytes that are not UTF-8."""

    class lines_type(Lines):
        def validate(self, number: int, offset: int, data: bytes) -> Line:
            try:
                data.decode()
            except UnicodeDecodeError:
                data = bytes(byte if byte < 0x80 else ord("?") for byte in data)
            return super().validate(number, offset, data)


class TakesEncodedSurrogates(Oracle):
    """Accepts the UTF-8 form of a surrogate."""

    class lines_type(Lines):
        def byte_problems(self, data: bytes, offset: int) -> Iterator[tuple[str, int]]:
            return super().byte_problems(_without_encoded_surrogates(data), offset)

        def validate(self, number: int, offset: int, data: bytes) -> Line:
            return super().validate(number, offset, _without_encoded_surrogates(data))


class WantsNoSpace(Oracle):
    """Accepts records only without space between tokens."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            value = super().scan(text)
            if ": " in text or ", " in text or text != text.strip():
                raise Stopped("invalid-json", 0)
            return value


class FirstKeyWins(Oracle):
    """Takes the first value of a repeated key."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            value = super().scan(text)
            for node in _all(value):
                kept: dict[str, Value] = {}
                for member in node.members:
                    member.value = kept.setdefault(member.key, member.value)
            return value

        def problems(self, value: Value) -> Iterator[Problem]:
            return (problem for problem in value_problems(value) if problem.rule != "duplicate-key")


class KeepsEscapedKeysApart(Oracle):
    """Treats a key with escapes as another key."""

    class lines_type(Lines):
        def problems(self, value: Value) -> Iterator[Problem]:
            return (problem for problem in super().problems(value) if problem.rule != "duplicate-key")


class TakesOneByteMore(Oracle):
    """Accepts a line of one byte more than the limit."""

    class lines_type(Lines):
        def validate(self, number: int, offset: int, data: bytes) -> Line:
            self.max_line_bytes += 1
            try:
                return super().validate(number, offset, data)
            finally:
                self.max_line_bytes -= 1


class KeepsToTheDefaultLimit(Oracle):
    """Takes the default limit if a higher one is given."""

    class lines_type(Lines):
        def validate(self, number: int, offset: int, data: bytes) -> Line:
            self.max_line_bytes = min(self.max_line_bytes, Lines.max_line_bytes)
            return super().validate(number, offset, data)


class RefusesALineAtTheLimit(Oracle):
    """Refuses a line of exactly the limit."""

    class lines_type(Lines):
        def validate(self, number: int, offset: int, data: bytes) -> Line:
            if len(data) == self.max_line_bytes:
                return self.gap(number, offset, data, "line-too-long")
            return super().validate(number, offset, data)


class _Deeper(Scanner):
    max_depth = 65


class _Shallower(Scanner):
    max_depth = 63


class TakesOneLevelMore(Oracle):
    """Accepts a record that is nested 65 deep."""

    class lines_type(Lines):
        scanner = _Deeper


class RefusesTheDeepestLevel(Oracle):
    """Refuses a record that is nested 64 deep."""

    class lines_type(Lines):
        scanner = _Shallower


class LooksAtUtf8First(Oracle):
    """Checks for invalid UTF-8 before NUL bytes."""

    class lines_type(Lines):
        def byte_problems(self, data: bytes, offset: int) -> Iterator[tuple[str, int]]:
            yield from sorted(super().byte_problems(data, offset), key=lambda problem: problem[0] != "invalid-utf8")


class TakesWholeNumbersForIntegers(Oracle):
    """Accepts 1.0 and 1e2 in an integer field of metrics/v1, as JSON Schema by itself does."""

    def __init__(self) -> None:
        super().__init__()
        self.checking_type = type("Checking", (self.checking_type,), {"record_rules": _WholeNumbers})


class _WholeNumbers(RecordRules):
    def is_type(self, value: Value, types: list[str]) -> bool:
        is_whole = value.type == "number" and float(value.text).is_integer()
        return (is_whole and "integer" in types) or super().is_type(value, types)


class GluesNumbersAtZero(Oracle):
    """Accepts numbers with leading zeros."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            try:
                return super().scan(text)
            except Stopped:
                return super().scan(text.replace(":0", ":"))


class CrashesOnDepth(Oracle):
    """Descends without a limit, and crashes on deep nesting."""

    class lines_type(Lines):
        def scan(self, text: str) -> Value:
            with contextlib.suppress(ValueError):
                json.loads(text)
            return super().scan(text)


def _without_encoded_surrogates(data: bytes) -> bytes:
    shown = bytearray(data)
    for index in range(len(data) - 2):
        if data[index] == 0xED and data[index + 1] >= 0xA0:
            shown[index : index + 3] = b"sur"
    return bytes(shown)


def _all(value: Value) -> Iterator[Value]:
    yield value
    for item in (*value.items, *(member.value for member in value.members)):
        yield from _all(item)


def _mutant(make: type[Oracle], proves: str, reason: str, role: str = "reader") -> Mutant:
    return Mutant(make=make, role=role, proves=proves, reason=reason)


def _ended_at_nul(value: Value) -> Value:
    for member in value.members:
        member.key = member.key.partition("\0")[0]
        _ended_at_nul(member.value)
    for item in value.items:
        _ended_at_nul(item)
    return value


ALL: tuple[Mutant, ...] = (
    _mutant(EndsKeysAtNul, "encoding/unique-keys", "finding.*duplicate-key|record"),
    _mutant(SplitsAtCarriageReturn, "encoding/split-at-line-feed", "outcome is fails|count is|records"),
    _mutant(SplitsAtLineSeparator, "encoding/split-at-line-feed", "outcome is fails|count is|records"),
    _mutant(StumblesOverBlankLines, "encoding/blank-lines", "outcome is fails|gap_bytes is"),
    _mutant(CommitsAnUnterminatedRecord, "encoding/commit-mark", "count is|fragment is 0"),
    _mutant(TakesTrailingCommas, "encoding/strict-json", "state is|count is"),
    _mutant(TakesControlCharacters, "encoding/strict-json", "state is|count is"),
    _mutant(TakesTabs, "encoding/strict-json", "state is|count is"),
    _mutant(TakesASecondValue, "encoding/strict-json", "state is|count is"),
    _mutant(GluesNumbersAtZero, "encoding/strict-json", "state is|count is"),
    _mutant(TakesNaN, "rules/non-finite-number", "not found: non-finite-number", "checker"),
    _mutant(TakesOverflow, "rules/non-finite-number", "not found: non-finite-number", "checker"),
    _mutant(TakesLoneSurrogates, "rules/lone-surrogate", "not found: lone-surrogate", "checker"),
    _mutant(ReplacesInvalidUtf8, "encoding/strict-utf-8", "state is|count is"),
    _mutant(TakesEncodedSurrogates, "encoding/strict-utf-8", "state is|count is"),
    _mutant(WantsNoSpace, "encoding/any-spelling", "state is damaged|outcome is fails"),
    _mutant(FirstKeyWins, "encoding/last-key-wins", r"record \d+, .* is .*, expected"),
    _mutant(KeepsEscapedKeysApart, "rules/duplicate-key", "not found: duplicate-key", "checker"),
    _mutant(TakesOneByteMore, "encoding/line-limit", "state is|count is"),
    _mutant(KeepsToTheDefaultLimit, "encoding/line-limit", "state is damaged|outcome is fails"),
    _mutant(RefusesALineAtTheLimit, "encoding/line-limit", "state is damaged|outcome is fails"),
    _mutant(TakesOneLevelMore, "encoding/depth-limit", "state is|count is"),
    _mutant(RefusesTheDeepestLevel, "encoding/depth-limit", "state is damaged|outcome is fails"),
    _mutant(LooksAtUtf8First, "encoding/vetting-order", "not found: nul-bytes", "checker"),
    _mutant(TakesWholeNumbersForIntegers, "encoding/integer-metrics", "not found: wrong-type", "checker"),
    _mutant(CrashesOnDepth, "rules/nested-too-deep", "RecursionError", "reader"),
)
