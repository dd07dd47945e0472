"""Turns the lines that a program prints into a run: JSON objects, known console formats, or a pattern of the user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from toyspec.core.format.flattening import flattened
from toyspec.core.format.lines import LineSplitter
from toyspec.logs.dialects import Dialect, dialect_named, dialects
from toyspec.logs.forms import JsonForm, PatternForm, form_of
from toyspec.logs.mapping import Mapping, Neutral
from toyspec.logs.recognition import read_as

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.integrations.training_run import TrainingRun
    from toyspec.logs.forms import RecordForm

_JSON: Final = "metrics-jsonl"
_PATTERN: Final = "pattern"
_MOST_LINE_BYTES: Final = 1 << 20
"""A longer line is output of another kind; it is passed on, and not read."""


class Capture:
    """Writes what *run* gets from the lines of a program.

    Without *pattern* or *dialect*, a line counts that is a JSON object with a step and a number, or that the console
    dialects know. All other lines are left alone.
    """

    def __init__(self, run: TrainingRun, *, pattern: str | None = None, dialect: str | None = None) -> None:
        """Raise ValueError for a pattern that is not a regular expression with names, or an unknown dialect."""
        self._run = run
        self._splitter = LineSplitter(max_line_bytes=_MOST_LINE_BYTES)
        self._readers = [_Reader(each) for each in _chosen(pattern, dialect)]
        self.records = 0
        """Number of lines that were written into the run."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes that the program printed."""
        for line in self._splitter.feed(data):
            if line.data:
                self._read(line.data)

    def finish(self) -> None:
        """Take a last line that has no line feed."""
        self.feed(b"\n")

    def _read(self, data: bytes) -> None:
        for at, reader in enumerate(self._readers):
            found = reader.read(data)
            if found is not None and found.values:
                self._run.log(
                    found.values, step=_whole(found.step), epoch=None if found.epoch is None else float(found.epoch)
                )
                self.records += 1
                # Most programs print one kind of line: the next one is tried as this first.
                self._readers.insert(0, self._readers.pop(at))
                return


class _Reader:
    """Reads the lines of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._form: RecordForm = form_of(dialect)
        self._mapping: Mapping | None = None

    def read(self, data: bytes) -> Neutral | None:
        """Return what the line says; None for a line of another form, or without a step."""
        value = self._form.read(data, first=False)
        if value is None and isinstance(self._form, JsonForm) and data.lstrip().startswith(b"{"):
            value = self._form.validate(data, first=False).value
        if value is None:
            return None
        if self._mapping is None:
            chosen = read_as(self._dialect, [dict(flattened(value))])
            if chosen.step is None and not isinstance(self._form, PatternForm):
                return None
            self._mapping = Mapping(chosen)
        return self._mapping.neutral(value)


def _chosen(pattern: str | None, dialect: str | None) -> Sequence[Dialect]:
    if pattern is not None:
        return [_dialect_of_pattern(pattern)]
    if dialect is not None:
        return [dialect_named(dialect)]
    return list(_console_dialects())


def _console_dialects() -> Iterator[Dialect]:
    yield dialect_named(_JSON)
    for each in dialects():
        if each.form.type == _PATTERN:
            yield each


def _dialect_of_pattern(pattern: str) -> Dialect:
    import msgspec

    try:
        names = re.compile(pattern).groupindex
    except re.error as error:
        raise ValueError(f"the pattern is not a regular expression: {error}") from None
    if not names:
        raise ValueError("the pattern names no part; write each number as a named group: '(?P<loss>\\S+)'")
    document = {
        "name": "own-pattern",
        "title": "lines that match a pattern",
        "rank": "shape",
        "form": {"type": _PATTERN, "patterns": [pattern]},
        "recognize": {},
        "step": ["step"],
        "epoch": ["epoch"],
        "non_finite": ["text"],
    }
    return msgspec.convert(document, Dialect)


def _whole(step: float | None) -> int | None:
    return int(step) if step is not None and step == int(step) and step >= 0 else None
