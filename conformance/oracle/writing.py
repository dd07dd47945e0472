"""Writes records in canonical form, and refuses invalid ones: see spec/encoding.md and spec/writing.md."""

from __future__ import annotations

import contextlib
import json
import math
import time
from typing import TYPE_CHECKING, Any

from conformance.oracle import tables
from conformance.oracle.lines import Lines
from conformance.oracle.reading import Reading
from conformance.oracle.record_rules import RecordRules
from conformance.oracle.stream_rules import RULES_OF, Seen
from conformance.tagging import TAGS, f32_text, float_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x20)} | str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)
"""What a string has in place of each character, by its code point."""


class RefusedError(Exception):
    """A record may not be written; the message says why."""


class Writing:
    """Writes one stream. Each step is a method that a mutant can override."""

    def __init__(self, profile: str, *, is_canonical: bool = False) -> None:
        self.profile = profile
        self.is_canonical = is_canonical
        """True for a canonical writer, which turns records into bytes and owns no stream."""
        self.rules = RULES_OF[profile]()
        self.is_keeping = False
        """True while records of an earlier writer are taken in, which are there even if they are wrong."""
        self.last_t: Any = None
        self.start: float | None = None
        """What the monotonic clock shows when t is 0; None if the times are given."""

    def stream(self, records: Iterable[Any]) -> bytes:
        """Return the stream of tagged *records*; raise RefusedError."""
        return b"".join(self.record(record) for record in records)

    def open(self) -> None:
        """Start the clock that gives the time to records without one: it goes on from the last t in the stream."""
        self.start = time.monotonic() - (0.0 if self.last_t is None else number_of(self.last_t))

    def record(self, record: Mapping[str, Any]) -> bytes:
        """Return the line of one tagged record; raise RefusedError."""
        members = dict(unwrapped(record))
        if self.profile == "toy/v1" and not self.is_canonical:
            if self.start is not None and "t" not in members:
                members["t"] = {"float": repr(time.monotonic() - self.start)}
            members = self.forward_in_time(members)
        members = self.with_always_written(members)
        line = self.encoded(members)
        self.validate(line)
        return line + b"\n"

    def keep(self, record: Mapping[str, Any]) -> None:
        """Take in a record of an earlier writer, which does not stop the run even if it is invalid."""
        members = dict(unwrapped(record))
        if self.profile == "toy/v1":
            members = self.forward_in_time(members)
        self.is_keeping = True
        with contextlib.suppress(RefusedError):
            self.validate(self.encoded(members))
        self.is_keeping = False

    def with_always_written(self, members: dict[str, Any]) -> dict[str, Any]:
        """Return the members of a record with those that are always written."""
        if self.profile == "metrics/v1":
            return {"extra": {}, **members}
        if self.profile == "kaun/v1" and not self.is_canonical and members.get("type") == "scalar":
            return {"wall_time": {"float": repr(time.time())}, **members}
        return members

    def encoded(self, members: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record without its LF; raise RefusedError."""
        text = self.object(members, self.schema(members))
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise RefusedError("half a surrogate pair has no UTF-8 form") from None

    def schema(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema of a record; for an unknown kind, one that names only the tag."""
        key = tables.tag_key(self.profile)
        kinds = tables.kinds(self.profile)
        kind = "entry" if key is None else members.get(key)
        return kinds[kind] if isinstance(kind, str) and kind in kinds else {"properties": {key: {}}}

    def forward_in_time(self, members: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a known kind with the last t again if the clock went back."""
        if is_number(members.get("t")) and self.counts_time(members):
            if self.last_t is not None and number_of(members["t"]) < number_of(self.last_t):
                members["t"] = self.last_t
            self.last_t = members["t"]
        return members

    def counts_time(self, members: Mapping[str, Any]) -> bool:
        """Return whether the t of a record takes part: the kind is known."""
        kind = members.get("kind")
        return isinstance(kind, str) and kind in tables.kinds(self.profile)

    def validate(self, line: bytes) -> None:
        """Raise RefusedError if a line is not allowed at this position."""
        validated = Lines().text(line)
        if validated.value is None:
            raise RefusedError(validated.reason)
        kind = Reading(Lines()).kind(validated.value, self.profile)
        if kind is None:
            raise RefusedError("no kind")
        known = kind in tables.kinds(self.profile)
        invalid = set()
        for problem in RecordRules(self.profile).problems(kind, validated.value) if known else ():
            if problem.rule == "integer-as-float" or tables.severity(problem.rule, self.profile) == "error":
                if not self.is_keeping:
                    raise RefusedError(f"{problem.rule} at {problem.pointer}")
                invalid.add(problem.pointer.partition("/")[2].partition("/")[0])
        if self.is_canonical:
            return
        for rule, _ in list(self.rules.record(Seen(kind, known, validated.value, frozenset(invalid)))):
            if tables.severity(rule, "toy/v1") == "error":
                raise RefusedError(rule)

    def object(self, members: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
        """Return an object: keys in the order of the schema, then all others sorted by their bytes."""
        named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        keys = [key for key in named if key in members]
        keys += sorted(key for key in members if key not in named)  # code points sort as their UTF-8 bytes do
        inside = (f"{self.string(key)}:{self.value(members[key], named.get(key, others))}" for key in keys)
        return f"{{{','.join(inside)}}}"

    def value(self, value: Any, schema: Mapping[str, Any]) -> str:
        """Return one tagged value at a place of *schema*."""
        schema = tables.resolved(schema, self.profile)
        if isinstance(value, dict):
            if is_number(value):
                return self.number(value, schema)
            return self.object(unwrapped(value), schema)
        if isinstance(value, list):
            return f"[{','.join(self.value(item, schema.get('items', {})) for item in value)}]"
        return self.string(value) if isinstance(value, str) else json.dumps(value)

    def string(self, text: str) -> str:
        """Return a string, with only the escapes that JSON requires."""
        return f'"{text.translate(_ESCAPES)}"'

    def number(self, tagged: Mapping[str, str], schema: Mapping[str, Any]) -> str:
        """Return a number in the form that its place requires, ``null`` if it is not finite."""
        types = schema.get("type", [])
        number = number_of(tagged)
        if isinstance(number, float) and not math.isfinite(number):
            return self.not_finite()
        if "number" not in types:
            return str(number) if isinstance(number, int) else self.binary64(number)
        if schema.get("x-width") == 32:
            try:
                return self.binary32(float(number))
            except OverflowError:
                return self.not_finite()
        return self.binary64(float(number))

    def not_finite(self) -> str:
        """Return the text for a number that is not finite."""
        return "null"

    def binary64(self, number: float) -> str:
        """Return a finite binary64 number."""
        return float_text(number)

    def binary32(self, number: float) -> str:
        """Return a number of a binary32 field; raise OverflowError if it is not finite."""
        return f32_text(number)


def is_number(value: Any) -> bool:
    """Return whether a tagged value is a number."""
    return isinstance(value, dict) and len(value) == 1 and "object" not in value and TAGS.issuperset(value)


def unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the members of a tagged object."""
    return value["object"] if len(value) == 1 and "object" in value else value


def number_of(tagged: Mapping[str, str]) -> float:
    """Return the value of a tagged number, which may be nan or infinite."""
    ((tag, text),) = tagged.items()
    if tag == "int":
        return int(text)
    return float(text)
