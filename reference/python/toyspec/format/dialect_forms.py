"""Turns a line of another program's log into an object: JSON, CSV or text that matches a pattern.

A form has two functions. ``read`` is fast and returns None for everything that is not plainly a record; ``validate`` is
exact and says what such a line is. Neither raises for any bytes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from toyspec.format.dialect_mapping import not_finite
from toyspec.format.line_findings import LineFinding
from toyspec.format.line_validation import ValidatedLine, decode, validate
from toyspec.format.plain_tables import CellTables, JsonTables
from toyspec.generated import messages, rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.format.dialects import Dialect
    from toyspec.format.plain_tables import Found

_BOM = b"\xef\xbb\xbf"
_PAIR = re.compile(
    r"(?<![\w./()%@-])([A-Za-z_][\w./()%@-]*)\s?[=: ]\s?"
    r"([-+]?(?:\d+(?:[,_]\d{3})*(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+|nan\b|inf(?:inity)?\b))"
    # What cannot follow a number, where two writes were glued.
    r"((?:\.\d+|[-+]?(?:nan|inf)\b)*)",
    re.ASCII | re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
# An integer of more digits is beyond binary64.
_INTEGER = re.compile(r"[-+]?\d{1,309}", re.ASCII)
# A console line that is longer is output of another kind, such as a dump of settings.
_MOST_TEXT = 4096
_LONG_LINE = 1 << 20
_ABSENT = ("", "NA", "N/A", "None", "null")
_PASSED_OVER = ValidatedLine("blank", [], {}, False, None)


class RecordForm(Protocol):
    """How a line becomes a record."""

    def read(self, data: bytes, *, first: bool) -> dict[str, Any] | None:
        """Return the object of the line *data*, None if it needs ``validate``."""

    def validate(self, data: bytes, *, first: bool) -> ValidatedLine:
        """Return the result for a line that ``read`` did not take; ``first`` is for the first line of the stream."""

    def table(self, lines: Sequence[bytes], at: int) -> Found | None:
        """Return the columns of the lines from *at* on that ``read`` takes, and that are like the first of them.

        None if they are too few.
        """


def form_of(dialect: Dialect) -> RecordForm:
    """Return the form of *dialect*; one object serves one pass over one file."""
    if dialect.form.type == "csv":
        return CsvForm(dialect.form.delimiter)
    if dialect.form.type == "pattern":
        return PatternForm(dialect.form.patterns)
    return JsonForm(dialect.form.prefix.encode(), takes_bare="bare" in dialect.non_finite)


class JsonForm:
    """A JSON object, alone on its line or behind *prefix*; bare NaN and Infinity are taken if the dialect has them."""

    def __init__(self, prefix: bytes = b"", *, takes_bare: bool = False) -> None:
        self._prefix = prefix
        self._takes_bare = takes_bare
        self._tables = JsonTables()

    def read(self, data: bytes, *, first: bool) -> dict[str, Any] | None:  # noqa: ARG002 - forms have one signature
        """Return the object; None for other output, and for what is not plainly JSON."""
        if self._prefix:
            start = data.find(self._prefix)
            if start < 0:
                return None
            data = data[start + len(self._prefix) :]
        return decode(data) if data else None

    def validate(self, data: bytes, *, first: bool) -> ValidatedLine:
        """Return the result for the line; a line without the prefix is passed over like a blank one."""
        start = 0
        if self._prefix:
            found = data.find(self._prefix)
            if found < 0:
                return _PASSED_OVER
            start = found + len(self._prefix)
        verdict = validate(data[start:], first=first and not self._prefix)
        if verdict.status == "unreadable" and self._takes_bare:
            verdict = _with_bare_words(verdict, data[start:])
        verdict = _explained(verdict, data[start:])
        if start:
            moved = [
                LineFinding(each.rule, each.offset + start, each.pointer, each.message) for each in verdict.findings
            ]
            verdict = ValidatedLine(verdict.status, moved, verdict.unlisted, verdict.has_carriage_return, verdict.value)
        return verdict

    def table(self, lines: Sequence[bytes], at: int) -> Found | None:
        """Return the columns of the lines from *at* on that have the same members."""
        return None if self._prefix else self._tables.find(lines, at)


class CsvForm:
    """Rows of cells under the header in the first line. A header that comes again is passed over.

    A column whose name another has is named as pandas names it: ``loss``, then ``loss.1``.
    """

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self._has_tables = delimiter in {",", "\t"}
        self._tables = CellTables(delimiter)
        self._first: list[str] = []
        self.header: list[str] | None = None
        """Names of the columns, each different; None before the first line."""

    def read(self, data: bytes, *, first: bool) -> dict[str, Any] | None:
        """Return the cells by column; empty ones are left out. None for the header, and for what is not a row."""
        cells = self._cells(data.removeprefix(_BOM) if first else data)
        if cells is None or not cells:
            return None
        if self.header is None:
            self._first, self.header = cells, _different(cells)
            return None
        if len(cells) != len(self.header) or cells == self._first:
            return None
        return {name: _cell(cell) for name, cell in zip(self.header, cells, strict=True) if cell not in _ABSENT}

    def validate(self, data: bytes, *, first: bool) -> ValidatedLine:
        """Return why the line is not a row."""
        cells = self._cells(data.removeprefix(_BOM) if first else data)
        if cells is None:
            verdict = validate(data, first=first)
            bad = [finding for finding in verdict.findings if finding.rule != rules.INVALID_JSON]
            return _unreadable(bad or [LineFinding(rules.BAD_FORMAT, 0, "", "the line is not a row of cells")])
        if not cells or cells == self._first or self.header is None:
            return _PASSED_OVER
        plural = "s" if len(cells) != 1 else ""
        fact = f"the row has {len(cells)} cell{plural}, the header has {len(self.header)}"
        return _unreadable([LineFinding(rules.BAD_FORMAT, 0, "", fact)])

    def table(self, lines: Sequence[bytes], at: int) -> Found | None:
        """Return the columns of the lines from *at* on that have nothing but numbers, and the same blank cells."""
        if self.header is None or not self._has_tables:
            return None
        return self._tables.find(lines, at, self.header)

    def mixed_tables(self, lines: Sequence[bytes], at: int) -> list[tuple[list[int], Found]]:
        """Return the columns of the lines from *at* on of nothing but numbers, those with the same blanks together."""
        return self._tables.find_mixed(lines, at, self.header) if self.header and self._has_tables else []

    def _cells(self, data: bytes) -> list[str] | None:
        """Return the cells of a line; None if it is not text."""
        if 0 in data:
            return None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        text = text.rstrip("\r")
        if '"' not in text:
            return text.split(self._delimiter) if text else []
        # Imported here: cells with quotes are rare, and start-up time counts.
        import csv

        try:
            return next(csv.reader([text], delimiter=self._delimiter), [])
        except csv.Error:
            return None


class PatternForm:
    """Text that matches one of *patterns*; other lines are passed over."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]

    def read(self, data: bytes, *, first: bool) -> dict[str, Any] | None:  # noqa: ARG002 - forms have one signature
        """Return the named groups of the first pattern that matches; None if none does."""
        if len(data) > _MOST_TEXT:
            return None
        text = data.decode("utf-8", "replace").rstrip("\r")
        for pattern in self._patterns:
            match = pattern.search(text)
            if match:
                groups = {name: _cell(part) for name, part in match.groupdict().items() if part is not None}
                found = _with_pairs(groups, groups.pop("pairs", None))
                return _with_pairs(found, found.pop("eval_pairs", None), prefix="eval/")
        return None

    def validate(self, data: bytes, *, first: bool) -> ValidatedLine:  # noqa: ARG002 - forms have one signature
        """Return the result for other output: it is passed over."""
        return _PASSED_OVER

    def table(self, lines: Sequence[bytes], at: int) -> Found | None:  # noqa: ARG002 - forms have one signature
        """Return None: a line of text may be any output."""
        return None


def has_repeated_key(data: bytes, value: dict[str, Any]) -> bool:
    """Return whether the JSON object *value* in *data* may have a key twice; False is certain."""
    return may_repeat_keys(data, _key_count(value))


def may_repeat_keys(data: bytes, count: int) -> bool:
    """Return whether one of the JSON objects in *data*, with *count* different keys, may have a key twice.

    False is certain: each key takes part in the count at least once.
    """
    return bool(_SPACED_COLON.search(data)) or data.count(b'":') != count


def repeated_members(data: bytes) -> list[tuple[str, Any]]:
    """Return key and value of each member of the JSON object *data*, and of those in it, that a later one replaces."""
    # Imported here: only repeated keys need it.
    import json

    found: list[tuple[str, Any]] = []

    def taken(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        last = {key: index for index, (key, _) in enumerate(pairs)}
        found.extend(pair for index, pair in enumerate(pairs) if last[pair[0]] != index)
        return dict(pairs)

    with suppress(ValueError, RecursionError):
        json.JSONDecoder(object_pairs_hook=taken).raw_decode(data.decode("utf-8", "replace"))
    return found


_SPACED_COLON = re.compile(rb'"[ \t\r]+:')


def _key_count(value: Any) -> int:
    count = 0
    pending = [value]
    while pending:
        each = pending.pop()
        if type(each) is dict:
            count += len(each)
            pending.extend(part for part in each.values() if type(part) in (dict, list))
        else:
            pending.extend(part for part in each if type(part) in (dict, list))
    return count


def _explained(verdict: ValidatedLine, data: bytes) -> ValidatedLine:
    """Return *verdict*, its message naming the second record of a line if there is one."""
    if verdict.status != "unreadable" or verdict.findings[0].rule != rules.INVALID_JSON:
        return verdict
    # The records of a log begin with the same key, or at least with a brace.
    start = data[: data.find(b":") + 1] or b"{"
    glue = max(data.rfind(start), data.find(b"}{") + 1)
    if glue <= 0 or len(data) > _LONG_LINE or decode(data[glue:]) is None:
        return verdict
    first = verdict.findings[0]
    fact = messages.invalid_json_second_record(at=glue)
    return _unreadable([LineFinding(first.rule, first.offset, first.pointer, fact)])


def _with_bare_words(verdict: ValidatedLine, data: bytes) -> ValidatedLine:
    """Return *verdict* as readable if bare words for numbers are all that is wrong with the line."""
    others = [finding for finding in verdict.findings if finding.rule != rules.NON_FINITE_NUMBER]
    unlisted = {rule: number for rule, number in verdict.unlisted.items() if rule != rules.NON_FINITE_NUMBER}
    if any(finding.rule != rules.DUPLICATE_KEY for finding in others) or set(unlisted) - {rules.DUPLICATE_KEY}:
        return ValidatedLine("unreadable", others, unlisted, False, None)
    # Imported here: only lines with bare words need it.
    import json

    try:
        value = json.loads(data)
    except ValueError:
        # An integer of thousands of digits, which is reported as a number that is not finite.
        return verdict
    if type(value) is not dict:
        return verdict
    return ValidatedLine("readable", others, unlisted, b"\r" in data, value)


def _cell(text: Any) -> Any:
    """Return the number in the text of a cell, or the text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    stripped = text.strip()
    return float(stripped) if _NUMBER.fullmatch(stripped) else text


def _with_pairs(groups: dict[str, Any], text: Any, *, prefix: str = "") -> dict[str, Any]:
    """Return *groups* and the numbers in *text* by *prefix* and the names before them, each under a name of its own."""
    pairs = _PAIR.findall(text) if isinstance(text, str) else []
    names = _different([*groups, *(prefix + name for name, _, _ in pairs)])[len(groups) :]
    return groups | {name: _figure(*pair[1:]) for name, pair in zip(names, pairs, strict=True)}


def _figure(figure: str, glued: str) -> Any:
    """Return the number in *figure*; the text of both if something follows that is not a part of one."""
    if glued:
        return figure + glued
    plain = figure.replace(",", "").replace("_", "")
    value = not_finite(plain)
    return _cell(plain) if value is None else value


def _different(names: Sequence[str]) -> list[str]:
    """Return *names*; one that occurred before has a number after it."""
    found: dict[str, None] = {}
    taken = set(names)
    for name in names:
        count = 0
        new = name
        while new in found or (count and new in taken):
            count += 1
            new = f"{name}.{count}"
        found[new] = None
    return list(found)


def _unreadable(findings: list[LineFinding]) -> ValidatedLine:
    return ValidatedLine("unreadable", findings, {}, False, None)
