"""DVCLive's files: tables of metrics, parameters and the latest values."""

from __future__ import annotations

import os
import re
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.databases import Points
from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest
from toyspec.convert.reports import DAMAGED, REPEATED
from toyspec.convert.sources import drop_files, files_at, files_below, head_of, name_below, needed, number_in
from toyspec.core.files import open_file
from toyspec.core.format.flattening import flattened
from toyspec.logs.mapping import not_finite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake
    from toyspec.convert.reports import Ledger


_PLOTS = "plots"
TABLES = os.path.join(_PLOTS, "metrics")
LATEST = "metrics.json"
PARAMS = "params.yaml"
_LONGEST = 1 << 24
_LIMIT = 1 << 63


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run in the directory *path*, and in each such directory below."""
    for directory, _ in files_below(path, lambda name: name == LATEST) if os.path.isdir(path) else ():
        if os.path.isdir(os.path.join(directory, TABLES)):
            tables = list(files_at(os.path.join(directory, TABLES), lambda name: name.endswith(".tsv")))
            others = [os.path.join(directory, name) for name in (LATEST, PARAMS)]
            files = tables + [file for file in others if os.path.isfile(file)]
            name, parts = name_below(path, directory), (*files, os.path.join(directory, _PLOTS))
            yield ForeignRun.of(name, directory, files, partial(_records, directory, tables, name), parts=parts)


def _records(directory: str, tables: list[str], name: str, intake: Intake) -> Iterator[bytes]:
    ledger = intake.ledger
    with Points() as points:
        for table in tables:
            metric = os.path.relpath(table, os.path.join(directory, TABLES)).replace(os.sep, "/")[: -len(".tsv")]
            points.add(_points(table, metric, ledger))
            ledger.advance(os.path.getsize(table))
        # One value without a time must not take the times of all others.
        first = earliest(points.walls())
        yield from intake.begin(first, name=name, config=_config(os.path.join(directory, PARAMS), ledger))
        if first is None:
            ledger.note("the source has no times, so t is 0 in every record")
        yield from points.lines(intake)
        yield from _latest(os.path.join(directory, LATEST), points.metrics(), intake)
    drop_files(directory, os.path.join(directory, _PLOTS), ledger, but=os.path.join(directory, TABLES))


def _points(path: str, metric: str, ledger: Ledger) -> Iterator[tuple[float | None, int, None, str, float]]:
    with open_file(path) as file:
        header = file.readline(_LONGEST).decode("utf-8", "backslashreplace").rstrip("\r\n").split("\t")
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), 2):
            row = line.decode("utf-8", "backslashreplace").rstrip("\r\n").split("\t")
            cells = dict(zip(header, row, strict=False)) if len(row) == len(header) else {}
            try:
                step, value = int(cells["step"]), number_in(cells[header[-1]])
                stamp = int(cells["timestamp"]) / 1000 if cells.get("timestamp") else None
                is_whole = line.endswith(b"\n") and -_LIMIT <= step < _LIMIT
            except (KeyError, ValueError, OverflowError):
                is_whole = False
            if is_whole:
                yield stamp, step, None, metric, value
            else:
                ledger.lose(DAMAGED, f"{metric}, line {number}", line)


def _config(path: str, ledger: Ledger) -> dict[str, Any]:
    try:
        return parsed(head_of(path, _LONGEST).decode("utf-8", "backslashreplace")) if os.path.isfile(path) else {}
    except ValueError as error:
        ledger.lose(DAMAGED, PARAMS, str(error))
        return {}


def _latest(path: str, known: set[str], intake: Intake) -> Iterator[bytes]:
    """Yield the values of metrics.json that have no table."""
    try:
        document = msgspec.json.decode(head_of(path, _LONGEST))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # How deep is too deep, and how it is worded, depends on the version of Python.
        fact = "nested too deep" if isinstance(error, RecursionError) else str(error)
        intake.ledger.lose(DAMAGED, LATEST, fact)
        return
    hidden: list[tuple[str, Any]] = []
    members = flattened(document, hidden=hidden) if isinstance(document, dict) else {}
    for name, value in hidden:
        intake.ledger.lose(REPEATED, f"{LATEST}: {name}", value, name=name)
    values = {name: value for name, value in members.items() if name not in known and name != "step"}
    spelt = {name: not_finite(value) for name, value in values.items() if isinstance(value, str)}
    values |= {name: value for name, value in spelt.items() if value is not None}
    yield from intake.values(None, None, values, LATEST)


# PyYAML reads YAML 1.1, so its rules for what a plain scalar is are replaced.
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
}


def parsed(text: str) -> dict[str, Any]:
    """Return the settings in *text*, which is YAML 1.2, in which 1e-5 is a number; keys become texts.

    Raises ImportError without PyYAML, and ValueError for what is not a map in YAML. Aliases are refused: a few lines of
    them can name a billion values.
    """
    yaml = needed("yaml", "dvclive", "reading params.yaml")
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        documents = [_value_of(next(events), events) for event in events if isinstance(event, yaml.DocumentStartEvent)]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        fact = getattr(error, "problem", None) or "not YAML"
        raise ValueError(f"line {mark.line + 1}: {fact}" if mark is not None else fact) from None
    except RecursionError:
        raise ValueError("maps or lists are nested too deep") from None
    if not documents or documents == [None]:
        return {}
    if len(documents) > 1 or not isinstance(documents[0], dict):
        raise ValueError("not a map")
    return documents[0]


def _value_of(event: Any, events: Iterator[Any]) -> Any:
    """Return the value that begins with *event* of YAML, and ends in *events*; raise ValueError."""
    fact, name = None, type(event).__name__
    if name == "AliasEvent":
        fact = "an alias, which is not read"
    elif event.tag not in (None, "!"):
        fact = f"a value with the tag {event.tag}"
    if fact is not None:
        raise ValueError(f"line {event.start_mark.line + 1}: {fact}")
    if name == "ScalarEvent":
        return _plain(event.value) if event.implicit[0] else event.value
    if name == "SequenceStartEvent":
        return [_value_of(each, events) for each in takewhile(_is_inner, events)]
    # Keys are as they are written: 1, 1.0 and true would be one key.
    made: dict[str, Any] = {}
    for key in takewhile(_is_inner, events):
        if type(key).__name__ != "ScalarEvent" or key.value in made:
            fact = "a key that comes twice" if type(key).__name__ == "ScalarEvent" else "a key that is not a text"
            raise ValueError(f"line {key.start_mark.line + 1}: {fact}")
        made[key.value] = _value_of(next(events), events)
    return made


def _is_inner(event: Any) -> bool:
    return type(event).__name__ not in ("SequenceEndEvent", "MappingEndEvent")


def _plain(text: str) -> Any:
    """Return the value of a scalar without quotes."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return _WORDS.get(text, text)
