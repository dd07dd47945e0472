"""Values at and beyond the bounds of a schema, as texts."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from conformance.tagging import float_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SAFE = 2**53 - 1
_LARGEST = 1.7976931348623157e308
_SMALLEST = 5e-324
_DATE_TIME = '"2026-05-31T09:30:00Z"'


@dataclass(frozen=True)
class Sample:
    """One value of a field."""

    name: str
    """What is special about it, as part of the name of a case."""
    text: str
    """The text of the value."""
    rule: str | None = None
    """The rule that it breaks, None for a value that is accepted."""


_WHOLE_FLOATS = (
    Sample("whole-number-with-fraction", "43.0", "integer-as-float"),
    Sample("whole-number-with-exponent", "44e0", "integer-as-float"),
)


def is_numeric(schema: Mapping[str, Any]) -> bool:
    """Return whether *schema* admits numbers."""
    return not _types(schema).isdisjoint({"number", "integer"})


def accepted(schema: Mapping[str, Any], *, whole_floats: bool) -> list[Sample]:
    """Return values that *schema* accepts, numbers in rising order and null last; *whole_floats* are integers too."""
    if "integer" in _types(schema):
        found = [_integer(name, value) for name, value in _integers(schema)]
        if whole_floats:
            # Between 42 and the largest value, so that they rise too.
            found[-1:-1] = list(_WHOLE_FLOATS)
    elif "number" in _types(schema):
        found = sorted(_numbers(schema), key=lambda sample: float(sample.text))
    else:
        found = list(_others(schema))
    return [*found, Sample("null", "null")] if "null" in _types(schema) and is_numeric(schema) else found


def refused(schema: Mapping[str, Any], *, whole_floats: bool) -> list[Sample]:
    """Return values that *schema* refuses, each for one reason."""
    found = [*_beyond(schema), *_of_other_types(schema)]
    if "integer" in _types(schema) and not whole_floats:
        found += [replace(sample, name=f"refused-{sample.name}", rule="wrong-type") for sample in _WHOLE_FLOATS]
    if "null" not in _types(schema):
        found.append(Sample("refused-null", "null", "wrong-type"))
    return found


def sample_of(key: str, schema: Mapping[str, Any], kind: str, position: int) -> str:
    """Return the text of a plain value of a required *key*, so that lines at rising positions are in order."""
    special = {
        ("t", kind): "0.0",
        ("t", "run_end"): "1.7976931348623157e308",
        ("step", "step"): str(position),
        ("step", "entry"): str(position),
    }
    if (key, kind) in special:
        return special[key, kind]
    if "const" in schema or "enum" in schema:
        return json.dumps(schema["const"] if "const" in schema else schema["enum"][0])
    plain = {"object": "{}", "array": "[]", "boolean": "true", "integer": "1", "number": "1.0", "string": '"a"'}
    return next(text for name, text in plain.items() if name in _types(schema))


def _integers(schema: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    low = schema.get("minimum")
    if low is None:
        yield "smallest-safe", -_SAFE
        yield "minus-one", -1
    yield from ((name, value) for name, value in (("zero", 0), ("one", 1), ("forty-two", 42)) if value >= (low or 0))
    if "maximum" in schema:
        yield "at-the-maximum", schema["maximum"]
    else:
        yield "largest-safe", _SAFE


def _numbers(schema: Mapping[str, Any]) -> Iterator[Sample]:
    low, high = _bounds(schema)
    named = [
        ("zero", 0.0),
        ("smallest-above-zero", _SMALLEST),
        ("fraction", 0.5),
        ("tenth", 0.1),
        ("minus-one-and-a-half", -1.5),
        ("at-the-lower-bound", low),
        ("at-the-upper-bound", high),
    ]
    seen = set()
    for name, value in named:
        if low <= value <= high and value not in seen:
            seen.add(value)
            yield Sample(name, float_text(value))
    yield Sample("whole-number", "1")


def _beyond(schema: Mapping[str, Any]) -> Iterator[Sample]:
    types = _types(schema)
    if "integer" in types:
        if "minimum" in schema:
            yield Sample("refused-below-the-minimum", str(schema["minimum"] - 1), "out-of-range")
        if "maximum" in schema:
            yield Sample("refused-above-the-maximum", str(schema["maximum"] + 1), "out-of-range")
        yield Sample("refused-fraction", "0.5", "wrong-type")
    elif "number" in types:
        low, high = _bounds(schema)
        if low > -_LARGEST:
            yield Sample("refused-below-the-bound", float_text(math.nextafter(low, -math.inf)), "out-of-range")
        if high < _LARGEST:
            yield Sample("refused-above-the-bound", float_text(math.nextafter(high, math.inf)), "out-of-range")


def _of_other_types(schema: Mapping[str, Any]) -> Iterator[Sample]:
    types = _types(schema)
    others = {
        "boolean": ("true", "true"),
        "string": ("string", '"1"'),
        "number": ("number", "1"),
        "array": ("array", "[1]"),
        "object": ("object", '{"a":1}'),
    }
    for other, (name, text) in others.items():
        if other not in types and not (other == "number" and "integer" in types):
            yield Sample(f"refused-{name}", text, "wrong-type")


def _others(schema: Mapping[str, Any]) -> Iterator[Sample]:
    types = _types(schema)
    if "enum" in schema:
        yield from (Sample(f"word-{word}", json.dumps(word)) for word in schema["enum"])
    elif schema.get("format") == "date-time":
        yield Sample("date-time", _DATE_TIME)
    elif "pattern" in schema:
        yield Sample("run-id", '"base"')
    elif "string" in types:
        yield Sample("text", '"a"')
        yield Sample("empty-text", '""')
    elif "boolean" in types:
        yield Sample("true", "true")
        yield Sample("false", "false")
    elif "array" in types and "minItems" not in schema:
        yield Sample("empty-array", "[]")
    elif "object" in types and not schema.get("required"):
        yield Sample("empty-object", "{}")


def _bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    """Return the smallest and the largest number that *schema* accepts."""
    low, high = schema.get("minimum", -_LARGEST), schema.get("maximum", _LARGEST)
    if "exclusiveMinimum" in schema:
        low = math.nextafter(schema["exclusiveMinimum"], math.inf)
    if "exclusiveMaximum" in schema:
        high = math.nextafter(schema["exclusiveMaximum"], -math.inf)
    return float(low), float(high)


def _integer(name: str, value: int) -> Sample:
    return Sample(name, str(value))


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    types = schema.get("type", ())
    return frozenset([types] if isinstance(types, str) else types)
