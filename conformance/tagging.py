"""Values as tagged JSON, which keeps numbers exact between languages.

``{"int": "1"}`` is an integer, ``{"float": "0.1"}`` a binary64 and ``{"f32": "0.1"}`` a binary32 number.
Strings, booleans, null, arrays and objects are written plainly. An object that would look like a tag
is wrapped: ``{"object": {"int": "1"}}``.

Which tag a number gets is decided by its place, then by its text: a place that the schema types as number
holds a float; elsewhere a number without fraction and exponent is an integer. A place that the schema types as
integer holds an integer whenever the value is one, except in profiles that refuse such a spelling.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from functools import cache
from typing import Any

from conformance.format_facts import BINARY32_LIMIT, SCHEMAS, TAG_KEYS, WHOLE_FLOATS

TAGS = frozenset({"int", "float", "f32", "object"})
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_SHOWN = 40


class TagError(ValueError):
    """A tagged value is not well formed; ``place`` is a JSON Pointer to it, ``problem`` says what is wrong."""

    def __init__(self, place: str, error: str) -> None:
        super().__init__(f"{place or 'the value'} {error}")
        self.place, self.problem = place, error


def tag_record(record: Mapping[str, Any], profile: str | None) -> dict[str, Any]:
    """Return *record*, as a JSON library reads it, as a tagged value of *profile*; None if it has no profile."""
    if profile is None:
        return _Tagging({}, takes_whole_floats=False).members(record, {})
    tagging = _Tagging(_definitions(profile), takes_whole_floats=profile in WHOLE_FLOATS)
    return tagging.members(record, _record_schema(record, profile))


def untag(tagged: Any, place: str = "") -> Any:
    """Return the value of *tagged*: int, float, str, bool, None, list or dict; raise TagError."""
    if isinstance(tagged, list):
        return [untag(item, f"{place}/{index}") for index, item in enumerate(tagged)]
    if isinstance(tagged, dict):
        if len(tagged) == 1 and TAGS.issuperset(tagged):
            ((tag, text),) = tagged.items()
            return _untag_one(tag, text, place)
        return {key: untag(value, f"{place}/{key}") for key, value in tagged.items()}
    if tagged is None or isinstance(tagged, (str, bool)):
        return tagged
    raise TagError(place, f"is the bare number {tagged}, expected a tag")


def float_text(number: float) -> str:
    """Return the canonical text of a finite binary64 *number*: the shortest digits that read back to it."""
    return _layout(repr(number))


def f32_text(number: float) -> str:
    """Return the canonical text of *number* rounded to binary32; raise OverflowError if that is infinite."""
    exact = to_f32(number)
    if exact == 0:
        return _layout(repr(exact))
    with localcontext(prec=200):  # a binary32 number has at most 112 decimal digits, so this rounds nothing
        # Both neighbours are tried: at a power of two the nearest decimal may read back to another number.
        for digits in range(1, 10):
            found = [text for text in _neighbours(Decimal(exact), digits) if _reads_as(text, exact)]
            if found:
                return _layout(min(found, key=lambda text: _distance(text, exact)))
    raise AssertionError(f"{number!r} cannot be written with nine digits")


def to_f32(number: float) -> float:
    """Return *number* rounded to the nearest binary32 number, ties to even; raise OverflowError."""
    rounded: float
    (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    return rounded


class _Tagging:
    """Tags values of one profile."""

    def __init__(self, definitions: Mapping[str, Any], *, takes_whole_floats: bool) -> None:
        self._definitions = definitions
        self._takes_whole_floats = takes_whole_floats

    def value(self, value: Any, schema: Mapping[str, Any]) -> Any:
        """Return *value* at a place of *schema* as a tagged value."""
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        if value is None or isinstance(value, (str, bool)):
            return value
        if isinstance(value, Mapping):
            return self.members(value, schema)
        if isinstance(value, (list, tuple)):
            return [self.value(item, schema.get("items", {})) for item in value]
        return self._number(value, schema)

    def members(self, value: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object at a place of *schema* as a tagged value."""
        named = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        members = {key: self.value(item, named.get(key, others)) for key, item in value.items()}
        return {"object": members} if len(members) == 1 and TAGS.issuperset(members) else members

    def _number(self, value: float, schema: Mapping[str, Any]) -> dict[str, str]:
        types = schema.get("type", ())
        names = {types} if isinstance(types, str) else set(types)
        if "number" in names:
            is_f32 = schema.get("x-width") == 32 and abs(value) < BINARY32_LIMIT
            return {"f32": f32_text(float(value))} if is_f32 else {"float": float_text(float(value))}
        is_whole = isinstance(value, float) and value.is_integer()
        if isinstance(value, int) or (is_whole and "integer" in names and self._takes_whole_floats):
            return {"int": str(int(value))}
        return {"float": float_text(value)}


def _untag_one(tag: str, text: Any, place: str) -> Any:
    if tag == "object":
        if not isinstance(text, dict):
            raise TagError(place, "has the tag object, expected an object in it")
        return {key: untag(value, f"{place}/{key}") for key, value in text.items()}
    form = _INT if tag == "int" else _FLOAT
    if not isinstance(text, str) or form.match(text) is None:
        raise TagError(place, f"has the tag {tag}, but {text!r} is not a number of that type")
    try:
        if tag == "int":
            return int(text)
        return to_f32(float(text)) if tag == "f32" else float(text)
    except (OverflowError, ValueError):  # beyond binary32, or with more digits than Python takes
        raise TagError(place, f"has the tag {tag}, but {text[:_SHOWN]} is out of its range") from None


def _record_schema(record: Mapping[str, Any], profile: str) -> Mapping[str, Any]:
    definitions = _definitions(profile)
    tag = TAG_KEYS[profile]
    if tag is None:
        return _as_schema(definitions["entry"])
    kind = record.get(tag)
    kinds = _bundle(profile)["discriminator"]["mapping"]
    return _as_schema(definitions[kind]) if isinstance(kind, str) and kind in kinds else {}


def _as_schema(value: Any) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = value
    return schema


def _definitions(profile: str) -> Mapping[str, Any]:
    return _as_schema(_bundle(profile)["$defs"])


@cache
def _bundle(profile: str) -> Mapping[str, Any]:
    with open(os.path.join(SCHEMAS, "bundled", f"{profile.replace('/', '-')}.json"), encoding="utf-8") as file:
        return _as_schema(json.load(file))


def _neighbours(exact: Decimal, digits: int) -> list[str]:
    """Return the decimals of *digits* digits just below and just above *exact*."""
    exponent = exact.adjusted() - digits + 1
    scaled = exact.scaleb(-exponent)
    return [f"{scaled.to_integral_value(rounding)}e{exponent}" for rounding in (ROUND_FLOOR, ROUND_CEILING)]


def _reads_as(text: str, number: float) -> bool:
    try:
        return to_f32(float(text)) == number
    except OverflowError:
        return False


def _distance(text: str, exact: float) -> tuple[Decimal, int]:
    """Return a sort key for decimals: by distance, an even last digit first."""
    return abs(Decimal(text) - Decimal(exact)), int(text.partition("e")[0][-1]) % 2


def _layout(text: str) -> str:
    """Return a decimal *text* in canonical layout."""
    sign = "-" if text.startswith("-") else ""
    _, digits_found, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits_found)).lstrip("0")
    digits = written.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    point = len(written) + exponent
    if not -5 < point <= 16:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    whole = digits[:point].ljust(point, "0")
    return f"{sign}{whole}.{digits[point:] or '0'}"
