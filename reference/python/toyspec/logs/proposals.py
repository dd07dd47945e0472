"""Proposes how to read a log of an unknown form: the keys of a table or of JSON, or a pattern for console lines."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from toyspec.logs.dialects import dialect_of
from toyspec.logs.mapping import UNIX_SECONDS
from toyspec.logs.recognition import read_as, sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.logs.mapping import ReadAs

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|(?:nan|inf)(?!\s*[A-Za-z]))"
_FIGURE = re.compile(rf"(?<![\w.])({_NUMBER})(?![\w.]*[A-Za-z_]\w{{3}})", re.ASCII | re.IGNORECASE)
# What is easily read takes the place of a number in a proposal.
_GROUPS = {"step": r"\d+", "number": r"[-+.\w]+"}
_MOMENT = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?", re.ASCII)
_CLOCK = re.compile(r"(?<![\d:])\d{1,3}:\d\d:\d\d(?:\.\d+)?(?![\d:])", re.ASCII)
_PAIR = re.compile(rf"\s*[A-Za-z][^|:=]*[:=]\s*{_NUMBER}\s*", re.ASCII | re.IGNORECASE)
_SEPARATOR = "|"
_FEWEST_PAIRS = 2
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[ /.-][A-Za-z][A-Za-z0-9_]*)*", re.ASCII)
_STEP_WORD = re.compile(r"step|^it$|iter|epoch|episode|update|round|generation|batch|tick", re.IGNORECASE)
_TIME_WORD = re.compile(r"time|date|^ts$|^at$", re.IGNORECASE)
_BLANKS = re.compile(r"(?:\\?[ \t])+")
_ESCAPES = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]", re.ASCII)
_LABELLED = re.compile(rf"\W*[A-Za-z][\w /().%-]{{0,80}}?\s*[:=]\s{{0,8}}{_NUMBER}", re.ASCII | re.IGNORECASE)
_LABELLED_PAIRS = r"^\W*(?P<pairs>[A-Za-z][\w /().%-]{0,80}?\s*[:=]\s{0,8}[-+.\w].*)$"
_MOST_LINES = 20_000
_MOST_LETTERS = 2000
_FEWEST_NUMBERS = 2
_FEWEST_ROWS = 2
_MOST_PATTERNS = 8
_MOST_LABELS = 50
_UNNAMED_VALUE = re.compile(r"value_\d+")
_INDEX = "record"
_TABLES = (",", "\t", ";", " ")


def proposed(head: bytes, name: str, *, step: str | None = None) -> dict[str, Any] | None:
    """Return the members of a dialect for a log that begins with *head*, but its name; None where nothing repeats.

    *name* is the pattern of the names of its files. *step* is the key of the step, if the user named it.
    """
    # A terminal's colours are between the words, and no dialect sees them.
    plain = _ESCAPES.sub(b"", head)
    table = _of_keys(plain, step) or _of_lines(plain.decode("utf-8", "replace"), step)
    if table is None or len(as_read(table, head)[1]) < _FEWEST_ROWS:
        return None
    return {"files": [name], **table}


def as_read(table: dict[str, Any], head: bytes) -> tuple[ReadAs, list[dict[str, Any]]]:
    """Return how a dialect with the members *table* reads the file that begins with *head*, and its first records."""
    marks = {"any": table["step"]}
    usual = {"name": "proposed", "title": "proposed", "rank": "program", "recognize": marks, "form": {"type": "lines"}}
    dialect = dialect_of(usual | table)
    rows = sample(head, dialect)
    return read_as(dialect, rows), rows


def toml_of(name: str, table: dict[str, Any]) -> str:
    """Return the TOML table of a dialect *name* with the members *table*."""
    return "\n".join([f"[dialects.{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items()), ""])


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'" if "'" not in value and value.isprintable() else _basic(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return "[" + ", ".join(map(_toml, value)) + "]" if isinstance(value, list) else str(value)


def _basic(value: str) -> str:
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(letter: str) -> str:
    if letter == "\t":
        return "\\t"
    if letter in ('"', "\\"):
        return "\\" + letter
    # Other escapes of JSON are pairs of surrogates beyond 16 bits, which TOML refuses.
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def _of_keys(head: bytes, step: str | None) -> dict[str, Any] | None:
    """Return the dialect of JSON objects or of cells in *head*; None if it has neither."""
    shapes: list[tuple[dict[str, Any], str]] = []
    opening = head.lstrip()[:1]
    if opening == b"{":
        shapes += [({"type": "lines"}, "bare"), ({"type": "objects"}, "bare")]
    if opening == b"[":
        shapes.append(({"type": "document", "rows": ""}, "bare"))
    if opening not in (b"{", b"["):
        shapes += [({"type": "csv", "delimiter": delimiter}, "text") for delimiter in _TABLES]
    best: tuple[int, dict[str, Any]] | None = None
    for form, word in shapes:
        table: dict[str, Any] = {"form": form, "step": [step or "step"], "non_finite": sorted({word, "text"})}
        rows = as_read(table, head)[1]
        numbers = Counter(key for row in rows for key, value in row.items() if type(value) in (int, float))
        keys = [key for key, count in numbers.items() if 2 * count >= len(rows)]
        if len(rows) < _FEWEST_ROWS or len(keys) < _FEWEST_NUMBERS or (step is not None and step not in keys):
            continue
        chosen = step or _step_of(rows, keys)
        if chosen is None or (form["type"] == "csv" and not _is_table(head, rows)):
            continue
        found = table | {"recognize": {"keys": [chosen, *[key for key in keys if key != chosen][:2]]}, "step": [chosen]}
        time = next((key for key in keys if key != chosen and _TIME_WORD.search(key)), None)
        if time is not None:
            is_unix = all(row.get(time, 0) > UNIX_SECONDS[0] for row in rows)
            found["time"] = [{"key": time, "unit": "unix" if is_unix else "run-seconds"}]
        if best is None or len(rows) * len(keys) > best[0]:
            best = len(rows) * len(keys), found
    return None if best is None else best[1]


def _is_table(head: bytes, rows: Sequence[dict[str, Any]]) -> bool:
    """Return whether most lines of *head* are *rows* under a header of names."""
    lines = sum(bool(line.strip()) for line in head[: head.rfind(b"\n") + 1].split(b"\n")[: len(rows) * 2 + 2])
    names = {key for row in rows for key in row}
    return 2 * len(rows) >= lines - 1 and not any(map(_FIGURE.fullmatch, names))


def _step_of(rows: Sequence[dict[str, Any]], keys: Sequence[str]) -> str | None:
    """Return the key whose numbers are most like steps: by its name, else those that never decrease and change.

    None if no key has integers that are not dates.
    """

    def values_of(key: str) -> list[float]:
        return [row[key] for row in rows if type(row.get(key)) in (int, float)]

    def likeness(key: str) -> tuple[bool, bool]:
        values = values_of(key)
        return _STEP_WORD.search(key) is not None, values == sorted(values) and len(set(values)) > 1

    whole = [key for key in keys if all(value < UNIX_SECONDS[0] and value == int(value) for value in values_of(key))]
    return max(whole, key=likeness, default=None)


def _of_lines(text: str, step: str | None) -> dict[str, Any] | None:
    """Return the dialect of console lines: a pattern for the shape that most lines with numbers have."""
    shapes: dict[str, list[list[str]]] = {}
    examples: dict[str, str] = {}
    for whole in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        line = _CLOCK.sub("\1", _MOMENT.sub("\1", whole))
        figures = _FIGURE.findall(line)
        if len(line) <= _MOST_LETTERS and len(figures) >= _FEWEST_NUMBERS:
            shape = " ".join(_FIGURE.sub("\0", line).split())
            shapes.setdefault(shape, []).append(figures)
            examples.setdefault(shape, whole)
    usual = [shape for shape in shapes if len(shapes[shape]) >= _FEWEST_ROWS]
    if not usual:
        return None
    shape = max(usual, key=lambda each: (bool(_STEP_WORD.search(each)), len(shapes[each])))
    line, time = _without_time(examples[shape])
    names = _names_of(line)
    rows = [dict(zip(names, map(float, row), strict=False)) for row in shapes[shape]]
    chosen = step if step in names else _step_of(rows, names)
    if chosen is None and all(_UNNAMED_VALUE.fullmatch(name) for name in names):
        return None
    pattern, has_pairs = _pattern_of(line, names, chosen)
    form: dict[str, Any] = {"type": "pattern", "patterns": [_timed(pattern, time)]}
    recognized = re.sub(r"\(\?P<\w+>", "(?:", form["patterns"][0])
    if has_pairs:
        form["separator"] = _SEPARATOR
    if chosen is None:
        form["index"] = _INDEX
    elif len(names) <= _FEWEST_NUMBERS and _has_labels(text, examples[shape]):
        # The step is printed alone, before a line for each of its metrics.
        form |= {"patterns": [*form["patterns"], _LABELLED_PAIRS], "separator": _SEPARATOR, "carry": [chosen]}
    else:
        others = (_without_time(examples[each]) for each in usual if each != shape)
        alike = ((other, _names_of(other), unit) for other, unit in others if unit == time)
        more = (_timed(_pattern_of(other, found, chosen)[0], unit) for other, found, unit in alike if chosen in found)
        form["patterns"] += list(dict.fromkeys(more))[: _MOST_PATTERNS - 1]
    return {
        "form": form,
        "recognize": {"text": "(?m)" + recognized},
        "step": [chosen or _INDEX],
        **({} if time is None else {"time": [{"key": "time", "unit": time}]}),
        "non_finite": ["text"],
    }


def _timed(pattern: str, unit: str | None) -> str:
    """Return *pattern* with a group for the first time, and without one for those after it."""
    return pattern.replace("\1", ".{7,30}?" if unit is None else "(?P<time>.{7,30}?)").replace("\2", ".{7,30}?")


def _has_labels(text: str, example: str) -> bool:
    """Return whether most lines with numbers that follow the line *example* have one name and its number."""
    lines = text.partition(example)[2].split("\n", _MOST_LABELS)[:_MOST_LABELS]
    with_numbers = [line for line in lines if _FIGURE.search(line)]
    return 2 * sum(map(bool, map(_LABELLED.match, with_numbers))) > len(with_numbers)


def _without_time(line: str) -> tuple[str, str | None]:
    """Return *line* with a mark in place of its first time, and the unit of that; None without one.

    Other times have another mark.
    """
    for pattern, unit in ((_MOMENT, "date-time"), (_CLOCK, None)):
        if pattern.search(line):
            return _CLOCK.sub("\2", _MOMENT.sub("\2", pattern.sub("\1", line, count=1))), unit
    return line, None


def _names_of(line: str) -> list[str]:
    """Return the name of each number in *line*: the words before it."""
    names: list[str] = []
    before = 0
    for figure in _FIGURE.finditer(line):
        words = _WORDS.findall(line[before : figure.start()])
        name = re.sub(r"\W+", "_", words[-1].lower()) if words else f"value_{len(names)}"
        while name in names:
            name += "_"
        names.append(name)
        before = figure.end()
    return names


def _pattern_of(line: str, names: Sequence[str], step: str | None) -> tuple[str, bool]:
    """Return the regular expression of lines like *line*, with a group for each of *names*.

    Where most of the line is names and numbers between bars, these are the group ``pairs``, as the second value says.
    """
    parts: list[str] = []
    before = 0
    for name, figure in zip(names, _FIGURE.finditer(line), strict=True):
        rest = line[before:].split(_SEPARATOR)
        if name != step and step in names[: len(parts)] and sum(map(bool, map(_PAIR.fullmatch, rest))) >= _FEWEST_PAIRS:
            return "".join(parts) + r"(?P<pairs>.*)", True
        between = _BLANKS.sub(r"\\s*", re.escape(line[before : figure.start()]))
        parts.append(f"{between}(?P<{name}>{_GROUPS['step' if name == step else 'number']})")
        before = figure.end()
    return "".join(parts), False
