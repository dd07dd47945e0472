"""Proposes a dialect for a log that no dialect fits: by how its lines behave, as a person would describe them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from toyspec.core.format.lines import first_lines
from toyspec.core.format.numbers import number
from toyspec.logs.dialects import Dialect, DialectTimeKey, Form, Marks, dialect_named
from toyspec.logs.forms import MEASURED, STEP_WORD, shown_states
from toyspec.logs.recognition import sample

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_MOST_LINES = 5000
_MOST_CHARS = 500
_FEWEST = 2
_SURE_ROWS = 3
_TABLES = ("metrics-jsonl", "json-array", "csv", "tsv", "semicolon-csv", "blank-table")
_FIGURE = r"[-+]?(?:[\d,]*\.?\d+(?:[eE][-+]?\d+)?|nan|NaN|inf)"
_TIME = r"\d{4}[-/]\d\d[-/]\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
# Moments, durations, names with digits, and what remains: a number.
_TOKEN = re.compile(
    rf"(?P<time>{_TIME})|(?P<clock>\d+(?::\d\d)+(?:[.,]\d+)?|\d{{4}}-\d\d-\d\d)"
    r"|(?P<word>[A-Za-z_][\w./@-]*\d[\w./@-]*(?=\s*[:=]|[/@]))"
    # Not that of a file: model=0.5.ckpt.
    rf"|(?<![\w.])(?P<number>(?>{_FIGURE}))(?![\d.]*[A-Za-z_]\w*\d|\.\d|\.[A-Za-z])"
)
_WORDS = re.compile(r"[^\W\d_][\w./%@-]*(?:[ _-][^\W\d_][\w./%@-]*)*")
_ARROW = re.compile(r"([^\W\d_][\w ./-]*?)\s*(?:→|->|=>)(?=\s*[^\W\d_])")
_BOTH = re.compile(r"(\w+)/(\w+)( .*|)")
_MARKS = re.compile(r"[,;|()\[\]{}]|[.:]\s")
_STEP = re.compile(rf"(?i)(?:^|[^a-z])(?:{STEP_WORD}|tick|trials?|gen(?:eration)?|kimg|frames?|timesteps?)(?:[^a-z]|$)")
_RATE = re.compile(r"(?i)(?:^|[^a-z])lr|rate|decay|^wd$")
_NOT_METRICS = re.compile(r"(?i)^(?:eta|elapsed|secs?|seconds|mins?|minutes|hours?|of|total|max|out of|\w+\.py)$")
_NOT_STEPS = re.compile(r"(?i)/|%|time|elapsed|per\b|secs?\b|mem")
_PLAIN = re.compile(r"\W+")
_OWN_GROUPS = ("step", "time", "pairs", "json", "cells", "columns")


class NumberPlace(NamedTuple):
    """One place in the lines of a shape that has numbers."""

    name: str
    texts: list[str]

    @property
    def counts(self) -> bool:
        """True if the numbers may be steps: whole, from 0 on, never smaller than the one before, not all the same."""
        if not self.texts or not all(text.isdecimal() for text in self.texts):
            return False
        values = list(map(int, self.texts))
        return values[0] < values[-1] and all(late >= early for early, late in pairwise(values))

    @property
    def has_measure(self) -> bool:
        """True if the name has a word for results."""
        return MEASURED.search(re.sub(r"[_/@]", " ", self.name)) is not None

    @property
    def is_metric(self) -> bool:
        """True if the numbers may be a curve: a word for results and no counts, or a name and fractions that change."""
        if self.has_measure:
            return not self.counts and (self.is_real or len(set(self.texts)) > 1)
        changes = len(set(self.texts)) > 1 or _RATE.search(self.name) is not None
        return self.is_real and changes and bool(self.name) and not _NOT_METRICS.match(self.name)

    @property
    def is_real(self) -> bool:
        """True if a number has a fraction, or is not finite."""
        return any("." in text or "n" in text for text in self.texts)


class LineShape(NamedTuple):
    """Lines that differ in their numbers alone."""

    first: str
    lines: list[int]
    columns: list[NumberPlace]

    def step(self, wanted: str | None) -> int | None:
        """Return which column is the step: the *wanted* count, or the named one that changes most."""
        counts = [
            at for at, each in enumerate(self.columns)
            if each.counts and not each.has_measure and not _NOT_STEPS.search(each.name)
        ]  # fmt: skip
        if wanted is not None:
            return next((at for at in counts if self.columns[at].name.lower() == wanted.lower()), None)
        named = [at for at in counts if _STEP.search(self.columns[at].name)]
        return max(
            named or counts,
            key=lambda at: ("global" in self.columns[at].name.lower(), len(set(self.columns[at].texts))),
            default=None,
        )

    def is_sure(self, wanted: str | None) -> bool:
        """Return whether the step, if there is one, has a name of one and tells most lines apart."""
        at = self.step(wanted)
        if at is None or wanted is not None:
            return True
        step = self.columns[at]
        return _STEP.search(step.name) is not None and 2 * len(set(step.texts)) > len(step.texts)


class Proposal(NamedTuple):
    """A dialect for one log."""

    dialect: Dialect
    sure: bool
    """True if what names the step and the metrics is plain, so that it may be read at once."""
    left_out: tuple[str, ...]
    """Lines and numbers that are not read."""


def propose(head: bytes, name: str, *, step: str | None = None, drop: Collection[str] = ()) -> Proposal | None:
    """Return a dialect *name* for the file that begins with *head*; None where no value looks like a metric.

    *step* is the name of the step, where the user names it, and *drop* are names of what is not read.
    """
    return _of_table(head, name, step, drop) or _of_console(head, name, step, drop)


def shapes_in(head: bytes) -> list[LineShape]:
    """Return the shapes of the lines of *head* that have numbers, the most frequent first."""
    found: dict[str, LineShape] = {}
    for line in first_lines(head):
        text = next(shown_states(line.data or b""), "") if line.number <= _MOST_LINES else ""
        numbers = [match for match in _TOKEN.finditer(text[:_MOST_CHARS]) if match.lastgroup == "number"]
        if not numbers or len(text) > _MOST_CHARS:
            continue
        key = " ".join(_TOKEN.sub(lambda match: match["word"] or "#", text).split())
        shape = found.setdefault(key, LineShape(text, [], []))
        shape.columns.extend(NumberPlace(each, []) for each in _names(text, numbers) if not shape.lines)
        shape.lines.append(line.number)
        for column, match in zip(shape.columns, numbers, strict=False):
            column.texts.append(match[0])
    return sorted(map(_moved, found.values()), key=lambda each: -len(each.lines))


def _moved(shape: LineShape) -> LineShape:
    """Return *shape* with the name of a constant count at the fraction after it: ``[(0, '4.5')]``."""
    columns = shape.columns
    for at, (early, late) in enumerate(pairwise(list(columns))):
        is_fixed = len(set(early.texts)) == 1 and early.texts[0].isdecimal() and not late.name
        if is_fixed and len(set(late.texts)) > 1 and any("." in text for text in late.texts):
            columns[at : at + 2] = early._replace(name=""), late._replace(name=early.name)
    return shape


def _names(text: str, numbers: Sequence[re.Match[str]]) -> list[str]:
    """Return a name for each of *numbers* in *text*: the words before it, after a group such as ``Acc →``."""
    names: list[str] = []
    at, group = 0, ""
    for match in numbers:
        before = text[at : match.start()]
        if names and before.strip() == ",":
            # Of a list, all have its name.
            names.append(names[-1])
            at = match.end()
            continue
        if names and before == "/" and (both := _BOTH.fullmatch(names[-1])):
            # "mean/median reward 1.5/2.0"
            names[-1:] = [both[1] + both[3], both[2] + both[3]]
            at = match.end()
            continue
        arrow = _ARROW.search(before)
        group = arrow[1].strip() if arrow else group if "|" not in before else ""
        before = _MARKS.split((before[arrow.end() :] if arrow else before).rstrip(" :=([\t"))[-1]
        words = _WORDS.findall(before)
        after = re.match(r"\s?([A-Za-z]+)(?![\w/%])", text[match.end() :])
        name = "/".join(filter(None, [group, *words[-1:]])) or (after[1] if after else "")
        names.append(name + "%" * (text[match.end() :][:1] == "%"))
        at = match.end()
    return names


def _of_console(head: bytes, name: str, wanted: str | None, drop: Collection[str]) -> Proposal | None:
    shapes = [shape for shape in shapes_in(head) if len(shape.lines) >= _FEWEST]
    # A user who names the step knows that these are metrics.
    found = [
        shape for shape in shapes
        if any(each.is_metric and (each.has_measure or wanted is not None) for each in shape.columns)
    ]  # fmt: skip
    measured = [shape for shape in found if 10 * len(shape.lines) >= len(found[0].lines)]
    if not measured:
        return None
    with_header = _with_header(shapes, measured, wanted)
    if with_header is None:
        return None
    read, has_header = with_header
    made = [_pattern(shape, wanted, drop, _own_word(shape, read)) for shape in read]
    patterns = tuple(pattern for pattern, _ in made)
    others = [shape.first.strip() for shape in shapes if shape not in read and MEASURED.search(shape.first)]
    dialect = Dialect(
        name=name,
        title=name,
        rank="shape",
        form=Form(type="pattern", patterns=patterns, carry=("step",) if has_header else ()),
        recognize=Marks(text="(?m)" + re.sub(r"\(\?P<\w+>", "(?:", patterns[-1])),
        step=("step",),
        time=(DialectTimeKey(key="time", unit="date-time"),) if "(?P<time>" in "".join(patterns) else (),
        non_finite=("text",),
    )
    is_plain = all(shape.is_sure(wanted) for shape in read) and not others
    rows = sum(len(shape.lines) for shape in read[has_header:])
    left_out = dict.fromkeys([*(each for _, left in made for each in left), *others])
    return Proposal(dialect, is_plain and rows >= _SURE_ROWS, tuple(left_out))


def _with_header(
    shapes: Sequence[LineShape], measured: list[LineShape], wanted: str | None
) -> tuple[list[LineShape], bool] | None:
    """Return what is read of *shapes*, and whether its first is a header with the step of the others.

    *measured* have metrics. Where they have no step, a header does, and lines between two headers belong together.
    None where nothing has a step.
    """
    if any(shape.step(wanted) is not None for shape in measured):
        return measured, False
    first = measured[0]
    others = [shape for shape in shapes if shape not in measured]
    headers = [each for each in others if each.step(wanted) is not None and each.lines[0] < first.lines[0]]
    if not headers:
        return None
    header = min(headers, key=lambda each: (not each.is_sure(wanted), abs(len(each.lines) - len(first.lines))))
    more = [
        each for each in others
        if each.step(wanted) is None and 2 * len(each.lines) >= len(first.lines)
        and any(place.is_metric for place in each.columns)
    ]  # fmt: skip
    return [header, *measured, *more], True


def _own_word(shape: LineShape, shapes: Sequence[LineShape]) -> str:
    """Return the first word of *shape* that others of *shapes* with metrics of the same names lack; empty for none."""
    names = {each.name for each in shape.columns if each.is_metric}
    others = [other for other in shapes if other is not shape and any(each.name in names for each in other.columns)]
    words = re.findall(r"[^\W\d_]+", shape.first)
    return next((word for word in words if others and not any(word in other.first for other in others)), "")


def _pattern(shape: LineShape, wanted: str | None, drop: Collection[str], own_word: str) -> tuple[str, list[str]]:
    """Return the regular expression of *shape*, and the names of its numbers that it does not read."""
    names: dict[str, None] = {}
    left_out: list[str] = []
    made, at, columns, step = [], 0, iter(shape.columns), shape.step(wanted)
    for match in _TOKEN.finditer(shape.first):
        made.append(_literal(shape.first[at : match.start()]))
        at = match.end()
        if match.lastgroup == "word":
            made.append(re.escape(match[0]))
        elif match.lastgroup != "number":
            is_time = match.lastgroup == "time" and "time" not in names
            made.append(f"(?P<time>{_TIME})" if is_time else r"[\d:.,TZ+/_ -]+?")
            names |= {"time": None} if is_time else {}
        else:
            column = next(columns)
            if step is not None and column is shape.columns[step]:
                made.append(r"(?P<step>\d+)")
            elif column.is_metric and column.name not in drop:
                made.append(f"(?P<{_group('_'.join(filter(None, [own_word, column.name])), names)}>{_FIGURE})")
            else:
                made.append(_FIGURE)
                left_out += [column.name] if column.name and column.name not in drop else []
    return "^" + "".join([*made, _literal(shape.first[at:])]) + r"\s*$", left_out


def _literal(text: str) -> str:
    return "".join(r"\s*" if piece.isspace() else re.escape(piece) for piece in re.split(r"(\s+)", text))


def _group(name: str, taken: dict[str, None]) -> str:
    """Return *name* as that of a group which is none of *taken*, and take it."""
    plain = _PLAIN.sub("_", name).strip("_")
    plain = f"{plain}_" if plain in _OWN_GROUPS else plain
    found = plain
    while found in taken:
        found = f"{plain}_{len(taken)}"
    taken[found] = None
    return found


def _of_table(head: bytes, name: str, wanted: str | None, drop: Collection[str]) -> Proposal | None:
    """Return a dialect for a table or JSON records in *head*, whose step has a name that no dialect knows."""
    for known in map(dialect_named, _TABLES):
        rows = sample(head, known, most=_MOST_LINES)
        keys = dict.fromkeys(key for row in rows for key in row)
        columns = [
            NumberPlace(key, [str(row[key]) for row in rows if number(row.get(key)) is not None]) for key in keys
        ]
        full = [column for column in columns if 2 * len(column.texts) > len(rows)]
        counts = [each for each in full if each.counts and not each.has_measure and wanted in (None, each.name)]
        # An epoch is beside many steps.
        steps = [each.name for each in sorted(counts, key=lambda each: -len(set(each.texts)))]
        measured = [each.name for each in full if each.has_measure and each.is_metric]
        if len(rows) >= _SURE_ROWS and steps and measured:
            dialect = msgspec.structs.replace(
                known.with_values(exclude=(*known.values.exclude, *drop)),
                name=name, title=name, rank="shape", files=(), step=(steps[0],),
                recognize=Marks(keys=(steps[0], measured[0])),
            )  # fmt: skip
            return Proposal(dialect, len(steps) == 1, ())
    return None
