"""Recognizes the dialect of a file by its first bytes, and chooses the keys of its step and time."""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from toyspec.format.dialect_forms import CsvForm, JsonForm, form_of
from toyspec.format.dialect_mapping import ReadAs, not_finite, time_of
from toyspec.format.document_rows import DocumentCutter
from toyspec.format.flattening import flattened
from toyspec.format.json_numbers import number
from toyspec.format.lines import first_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toyspec.format.dialects import Dialect, TimeKey

_RANKS = ("program", "shape", "guess")
_SAMPLE = 50
# A longer first line may have NUL bytes after these.
_FIRST_LINE_BYTES = 256


def has_text(head: bytes, dialect: Dialect) -> bool:
    """Return whether *head* has the text by which *dialect* is known; True if it is known by its keys."""
    text = dialect.recognize.text
    return not text or _pattern(text).search(head) is not None


def recognize(head: bytes, dialects: Sequence[Dialect], *, name: str = "", step: str | None = None) -> ReadAs | None:
    """Return how to read the file that begins with *head*; None if it is of none of *dialects*.

    *name* is the file's name, which decides between dialects of one rank. *step* is the key of the step if the user
    named it.
    """
    # A power loss leaves NUL bytes in a log, but its first line was on the disk long before.
    if not head.strip() or b"\0" in head[:_FIRST_LINE_BYTES].partition(b"\n")[0]:
        return None
    samples: dict[Any, list[dict[str, Any]]] = {}
    for dialect in sorted(dialects, key=lambda each: (_RANKS.index(each.rank), not _is_named(each, name))):
        if not has_text(head, dialect):
            continue
        kind = dialect.form, dialect.non_finite
        if kind not in samples:
            samples[kind] = _sample(head, dialect)
        rows = samples[kind]
        if _fits(dialect, rows, step):
            return read_as(dialect, rows, step=step)
    return None


def read_as(
    dialect: Dialect, rows: Sequence[dict[str, Any]], *, step: str | None = None, named: bool = False
) -> ReadAs:
    """Return how to read a file of *dialect* whose first records are *rows*, flattened.

    *step* is the key of the step if the user named it. *named* means that the user named the dialect.
    """
    chosen = step or _first(dialect.step, rows) or (dialect.step[0] if dialect.rank == "program" else None)
    times = [key for key in dialect.time if any(_is_time(row, key) for row in rows)]
    epoch = next((key for key in dialect.epoch if key != chosen and any(key in row for row in rows)), None)
    phase = next((key for key in dialect.phase if any(isinstance(row.get(key), str) for row in rows)), None)
    return ReadAs(
        dialect=dialect,
        step=chosen,
        time=times[0] if times else None,
        epoch=epoch,
        phase=phase,
        is_named=named or step is not None,
    )


def sample(head: bytes, dialect: Dialect) -> list[dict[str, Any]]:
    """Return the first records in *head* as *dialect* reads them, flattened."""
    return _sample(head, dialect)


def file_fits(name: str, patterns: Iterable[str]) -> bool:
    """Return whether the file name *name* is one of *patterns*."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _sample(head: bytes, dialect: Dialect) -> list[dict[str, Any]]:
    is_document = dialect.form.type == "document"
    form = form_of(dialect)
    is_json = isinstance(form, JsonForm)
    rows: list[dict[str, Any]] = []
    for line in DocumentCutter(dialect.form.rows).feed(head) if is_document else first_lines(head):
        # To find out what is wrong with a line takes long, and most lines of other files hold no object.
        if line.data is None or (is_json and b"{" not in line.data):
            continue
        is_first = line.number == 1
        value = form.read(line.data, first=is_first)
        if value is None:
            value = form.validate(line.data, first=is_first).value
        if value is not None:
            rows.append(dict(flattened(value)))
            if len(rows) == _SAMPLE:
                break
    if isinstance(form, CsvForm) and not rows and form.header is not None:
        # A header alone: its names say what the file will be.
        rows.append(dict.fromkeys(form.header, 0))
    return rows


def _fits(dialect: Dialect, rows: Sequence[dict[str, Any]], step: str | None) -> bool:
    marks = dialect.recognize
    # The text may be in lines without metrics, which some programs print first.
    if dialect.form.type == "pattern" and dialect.rank == "program" and marks.text:
        return True
    if not any(_has_marks(dialect, row) for row in rows) or any(key in row for row in rows for key in marks.absent):
        return False
    if dialect.form.type == "pattern":
        return bool(rows)
    key = step or _first(dialect.step, rows)
    if dialect.rank == "program":
        return bool(marks.text or marks.keys or marks.any)
    if key is None:
        return False
    stepped = [row for row in rows if number(row.get(key)) is not None]
    measured = any(_has_metric(row, key) for row in stepped)
    return measured and 2 * len(stepped) >= len(rows)


def _has_marks(dialect: Dialect, row: dict[str, Any]) -> bool:
    marks = dialect.recognize
    return (
        all(key in row for key in marks.keys)
        and (not marks.any or any(key in row for key in marks.any))
        and all(row.get(key) == value for key, value in marks.equals.items())
    )


def _has_metric(row: dict[str, Any], step: str) -> bool:
    return any(
        number(value) is not None or (isinstance(value, str) and not_finite(value) is not None)
        for key, value in row.items()
        if key != step
    )


def _first(keys: Iterable[str], rows: Sequence[dict[str, Any]]) -> str | None:
    return next((key for key in keys if any(number(row.get(key)) is not None for row in rows)), None)


def _is_time(row: dict[str, Any], key: TimeKey) -> bool:
    return key.key in row and time_of(row[key.key], key.unit) is not None


def _is_named(dialect: Dialect, name: str) -> bool:
    return bool(name) and file_fits(name, dialect.files)


@cache
def _pattern(text: str) -> re.Pattern[bytes]:
    # Bytes, since a head may end within a character; patterns are ASCII, or name bytes by escapes.
    return re.compile(text.encode("latin-1", "replace") if text.isascii() else text.encode())
