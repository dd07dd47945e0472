"""Cuts a stream into lines and classifies each: see spec/encoding.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from conformance.format_facts import MAX_LINE_BYTES
from conformance.oracle.json_text import Problem, Scanner, Stopped, Value, value_problems
from conformance.oracle.tables import RULE_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterator

LF = b"\n"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One committed line and its classification."""

    number: int
    """Counted from 1."""
    offset: int
    """Byte offset of its first byte, from 0."""
    data: bytes
    """Its bytes without the LF."""
    status: Literal["readable", "blank", "gap"]
    problems: tuple[tuple[str, int, str], ...] = ()
    """Rule, byte offset in the line, and pointer of each error of the bytes and JSON layers, in order."""
    value: Value | None = None
    text: str = ""

    @property
    def length(self) -> int:
        """Number of bytes, LF included."""
        return len(self.data) + 1

    @property
    def reason(self) -> str:
        """The rule that makes the line unreadable."""
        return next(rule for rule, _, _ in self.problems if rule != "duplicate-key")

    def byte(self, index: int) -> int:
        """Return the byte offset in the stream of the character *index* of the line."""
        return self.offset + _bytes_before(self.text, index)


class Lines:
    """Validates lines. Each step is a method that a mutant can override."""

    max_line_bytes = MAX_LINE_BYTES
    scanner = Scanner

    def split(self, data: bytes) -> tuple[list[Line], bytes]:
        """Return the committed lines of a stream, classified, and its fragment."""
        found = []
        offset = 0
        *committed, fragment = self.cut(data)
        for number, line in enumerate(committed, start=1):
            found.append(self.validate(number, offset, line))
            offset += len(line) + 1
        return found, fragment

    def cut(self, data: bytes) -> list[bytes]:
        """Return the lines of *data* without their LF, and last the bytes after the last LF."""
        return data.split(LF)

    def validate(self, number: int, offset: int, data: bytes) -> Line:  # noqa: PLR0911  (one for each step of line validation)
        """Return the classification of one line."""
        if len(data) > self.max_line_bytes:
            return self.gap(number, offset, data, "line-too-long")
        if self.is_blank(data):
            return Line(number, offset, data, "blank")
        for rule, start in self.byte_problems(data, offset):
            return self.gap(number, offset, data, rule, start)
        text = data.decode()
        try:
            value = self.scan(text)
        except Stopped as stopped:
            return self.gap(number, offset, data, stopped.problem.rule, _bytes_before(text, stopped.problem.start))
        if value.type != "object":
            return self.gap(number, offset, data, "not-an-object", _bytes_before(text, value.start))
        problems = sorted(self.problems(value), key=lambda problem: (problem.start, RULE_ORDER[problem.rule]))
        shown = tuple((problem.rule, _bytes_before(text, problem.start), problem.pointer) for problem in problems)
        if any(problem.rule != "duplicate-key" for problem in problems):
            return Line(number, offset, data, "gap", shown)
        return Line(number, offset, data, "readable", shown, value, text)

    def text(self, data: bytes) -> Line:
        """Return the classification of a text that is not a line of a stream."""
        return self.validate(1, 0, data)

    def is_blank(self, data: bytes) -> bool:
        """Return whether a line is blank."""
        return not data.strip(b" \t\r")

    def byte_problems(self, data: bytes, offset: int) -> Iterator[tuple[str, int]]:
        """Yield rule and place of each error in the bytes of a line, the root cause first."""
        if offset == 0 and data.startswith(_BOM):
            yield "byte-order-mark", 0
        if b"\0" in data:
            yield "nul-bytes", data.index(0)
        try:
            data.decode()
        except UnicodeDecodeError as error:
            yield "invalid-utf8", error.start

    def scan(self, text: str) -> Value:
        """Return the value of a line; raise Stopped."""
        return self.scanner(text).scan()

    def problems(self, value: Value) -> Iterator[Problem]:
        """Yield the errors of the values in a line."""
        return value_problems(value)

    def gap(self, number: int, offset: int, data: bytes, rule: str, start: int = 0) -> Line:
        """Return an unreadable line with one error."""
        return Line(number, offset, data, "gap", ((rule, start, ""),))


def is_manifest(lines: Lines, data: bytes | None) -> bool:
    """Return whether the file run.json with *data* is the manifest of a kaun/v1 run."""
    value = lines.text(data).value if data else None
    return value is not None and value.get("run_id") is not None and value.get("kind") is None


def _bytes_before(text: str, index: int) -> int:
    return len(text[:index].encode())
