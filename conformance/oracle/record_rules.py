"""Validates one record by its schema: see spec/checking.md."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

from conformance.oracle import tables
from conformance.oracle.json_text import Problem, Value, is_integer, token, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SAFE = 2**53 - 1
_DATE_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))(?![\s\S])"
)
_PRIORITY = ("wrong-type", "unsupported-schema", "unexpected-value", "bad-format", "out-of-range")
# The placeholder for a value in an open map, of any depth.
_OPEN: dict[str, Any] = {"type": ["integer", "object", "array"]}
_NAMES = {"true": "boolean", "false": "boolean"}


class RecordRules:
    """Validates records of one profile. Each step is a method that a mutant can override."""

    def __init__(self, profile: str) -> None:
        self.profile = profile

    def problems(self, kind: str, value: Value) -> list[Problem]:
        """Return the errors of a record of *kind*, unknown keys included, in order."""
        schema = tables.definitions(self.profile)[kind]
        found = list(self.problems_in(value, schema, ""))
        found.extend(self.unknown_keys(value, schema, ""))
        found.extend(self.unsafe_integers(value, schema, "", {problem.pointer for problem in found}))
        found.extend(self.integers_as_floats(value, schema, ""))
        return sorted(found, key=lambda problem: (problem.start, tables.RULE_ORDER[problem.rule]))

    def problems_in(self, value: Value, schema: Mapping[str, Any], pointer: str) -> Iterator[Problem]:
        """Yield the errors of *value* and of the values in it, at most one for each place."""
        schema = tables.resolved(schema, self.profile)
        found = list(self.own_problems(value, schema))
        if found:
            yield Problem(min(found, key=_PRIORITY.index), value.start, pointer)
            if "wrong-type" in found:
                return
        for key in schema.get("required", []):
            if value.get(key) is None:
                yield Problem("missing-key", value.start, pointer + token(key))
        named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for key, item in value.unique().items():
            yield from self.problems_in(item, named.get(key, others), pointer + token(key))
        for index, item in enumerate(value.items):
            yield from self.problems_in(item, schema.get("items", {}), f"{pointer}/{index}")

    def own_problems(self, value: Value, schema: Mapping[str, Any]) -> Iterator[str]:
        """Yield the rules that *value* itself breaks."""
        types = schema.get("type")
        if types is not None and not self.is_type(value, [types] if isinstance(types, str) else types):
            yield "wrong-type"
        if "const" in schema and not _equals(value, schema["const"]):
            yield "unsupported-schema"  # every other constant is a tag, by which the schema was found
        if "enum" in schema and not any(_equals(value, choice) for choice in schema["enum"]):
            yield "unexpected-value"
        if value.type == "string":
            yield from self.string_problems(value.text, schema)
        if value.type == "number":
            yield from self.number_problems(value.text, schema)
        count = len(value.items)
        if value.type == "array" and not schema.get("minItems", count) <= count <= schema.get("maxItems", count):
            yield "out-of-range"

    def is_type(self, value: Value, types: list[str]) -> bool:
        """Return whether *value* is of one of *types*."""
        if value.type == "number":
            return "number" in types or ("integer" in types and self.is_integer(value.text))
        return _NAMES.get(value.type, value.type) in types

    def is_integer(self, literal: str) -> bool:
        """Return whether a number is an integer in this profile."""
        return is_integer(literal) or (tables.takes_whole_floats(self.profile) and whole(literal) is not None)

    def string_problems(self, text: str, schema: Mapping[str, Any]) -> Iterator[str]:
        """Yield the rules that a string breaks."""
        if "pattern" in schema and re.search(schema["pattern"], text) is None:
            yield "bad-format"
        if schema.get("format") == "date-time" and not self.is_date_time(text):
            yield "bad-format"

    def number_problems(self, literal: str, schema: Mapping[str, Any]) -> Iterator[str]:
        """Yield the rules that a number breaks."""
        number = float(literal)
        if (
            number < schema.get("minimum", number)
            or number > schema.get("maximum", number)
            or ("exclusiveMinimum" in schema and number <= schema["exclusiveMinimum"])
            or ("exclusiveMaximum" in schema and number >= schema["exclusiveMaximum"])
        ):
            yield "out-of-range"

    def is_date_time(self, text: str) -> bool:
        """Return whether *text* is a date and time that exist, with a zone."""
        found = _DATE_TIME.match(text)
        if found is None:
            return False
        year, month, day, hour, minute, second = map(int, found.groups()[:6])
        hours, minutes = int(found[8] or 0), int(found[9] or 0)
        if not _is_date(year, month, day) or hour > 23 or minute > 59 or second > 60:
            return False
        if hours > 23 or minutes > 59:
            return False
        zone = hours * 60 + minutes
        utc = hour * 60 + minute + (zone if found[7] == "-" else -zone)
        return second < 60 or utc % 1440 == 1439

    def unknown_keys(
        self, value: Value, schema: Mapping[str, Any], pointer: str, path: tuple[str, ...] = ()
    ) -> Iterator[Problem]:
        """Yield the keys that the schema does not name, if it names any."""
        schema = tables.resolved(schema, self.profile)
        for index, item in enumerate(value.items):
            yield from self.unknown_keys(item, schema.get("items", {}), f"{pointer}/{index}", path)
        if "properties" not in schema:
            return
        for key, item in value.unique().items():
            inner, names = pointer + token(key), (*path, key)
            if key in schema["properties"]:
                yield from self.unknown_keys(item, schema["properties"][key], inner, names)
            else:
                yield Problem("unknown-key", item.start, inner, names)

    def unsafe_integers(
        self, value: Value, schema: Mapping[str, Any], pointer: str, invalid: set[str]
    ) -> Iterator[Problem]:
        """Yield the integers that must be exact and that binary64 cannot represent."""
        schema = tables.resolved(schema, self.profile)
        types = schema.get("type", [])
        if value.type == "number" and "integer" in types and self.is_unsafe(value.text) and pointer not in invalid:
            yield Problem("unsafe-integer", value.start, pointer)
        if "object" in types:
            named, others = schema.get("properties"), schema.get("additionalProperties") or {}
            typed = others.get("type") if isinstance(others, dict) else None
            for key, item in value.unique().items():
                if (
                    named is None
                    and typed is not None
                    and not self.is_type(item, [typed] if isinstance(typed, str) else typed)
                ):
                    continue  # what is inside a value of the wrong type is not looked at
                inner = _OPEN if named is None else named.get(key, {})
                yield from self.unsafe_integers(item, inner, pointer + token(key), invalid)
        if "array" in types:
            for index, item in enumerate(value.items):
                yield from self.unsafe_integers(item, schema.get("items", _OPEN), f"{pointer}/{index}", invalid)

    def integers_as_floats(self, value: Value, schema: Mapping[str, Any], pointer: str) -> Iterator[Problem]:
        """Yield the integers in integer fields that are written with a fraction or an exponent."""
        schema = tables.resolved(schema, self.profile)
        types = schema.get("type", [])
        if value.type == "number" and "integer" in types and not is_integer(value.text) and self.is_integer(value.text):
            yield Problem("integer-as-float", value.start, pointer)
        named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        for key, item in value.unique().items():
            yield from self.integers_as_floats(item, named.get(key, others), pointer + token(key))
        for index, item in enumerate(value.items):
            yield from self.integers_as_floats(item, schema.get("items", {}), f"{pointer}/{index}")

    def is_unsafe(self, literal: str) -> bool:
        """Return whether a number is an integer that binary64 may not represent."""
        return is_integer(literal) and abs(int(literal)) > _SAFE


def _equals(value: Value, expected: Any) -> bool:
    if isinstance(expected, str):
        return value.text == expected
    return value.type == "number" and whole(value.text) == expected


def _is_date(year: int, month: int, day: int) -> bool:
    # The calendar repeats every 400 years; the library's begins with year 1.
    try:
        date(year % 400 + 400, month, day)
    except ValueError:
        return False
    return True
