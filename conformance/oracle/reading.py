"""Reads a stream in a mode and accounts for every byte: see spec/reading.md and spec/model.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.format_facts import BINARY32_LIMIT, MAX_LISTED_GAPS
from conformance.oracle import tables
from conformance.oracle.json_text import Value, is_integer, whole
from conformance.tagging import TAGS, f32_text, float_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from conformance.oracle.lines import Line, Lines

_STEPPING = frozenset({"run_start", "run_resume", "run_config", "run_end"})


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, cut into classified lines."""

    data: bytes
    lines: list[Line]
    fragment: bytes
    profile: str | None
    unread: str | None
    """The profile of the same stream if none of its records is read."""


class Reading:
    """Reads streams. Each step is a method that a mutant can override."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def open(self, data: bytes, *, name: str | None, profile: str | None = None, manifest: bool = False) -> Stream:
        """Return the stream that *data* is; *manifest* is true if a kaun manifest is in its folder."""
        lines, fragment = self.lines.split(data)
        first = next((line.value for line in lines if line.status == "readable"), None)
        has_gap = any(line.status == "gap" for line in lines)
        unread = profile or self.detect_by_name(name, manifest=manifest, has_gap=has_gap)
        found = unread if first is None else profile or self.detect(first, manifest=manifest)
        return Stream(data, lines, fragment, found, unread)

    def detect(self, first: Value, *, manifest: bool) -> str | None:
        """Return the profile of a stream with *first* as its first record, None if it has none."""
        members = first.unique()
        kind, t, tag = (members.get(key) for key in ("kind", "t", "type"))
        if kind and kind.type == "string" and (kind.text == "run_start" or (t and t.type == "number")):
            return "toy/v1"
        if tag and tag.text == "scalar":
            return "kaun/v1"
        if {"step", "wall_time_ms"} <= members.keys():
            return "metrics/v1"
        return "kaun/v1" if manifest else None

    def detect_by_name(self, name: str | None, *, manifest: bool, has_gap: bool) -> str | None:
        """Return the profile of a stream of which no record is read, None if it has none."""
        bare = (name or "events.jsonl").removesuffix(".gz")
        if bare == "metrics.jsonl":
            return "metrics/v1"
        if manifest:
            return "kaun/v1"
        return None if has_gap and bare != "events.jsonl" else "toy/v1"

    def state(self, stream: Stream) -> str:
        """Return the state of a stream."""
        records = [line for line in stream.lines if line.status == "readable"]
        if any(line.status == "gap" for line in stream.lines):
            return "damaged"
        if stream.fragment or not records:
            return "torn"
        unfinished = stream.profile == "toy/v1" and self.kind(records[-1].value, stream.profile) != "run_end"
        return "torn" if unfinished else "complete"

    def kind(self, value: Value | None, profile: str | None) -> str | None:
        """Return the kind of a record, None if it has none."""
        assert value is not None
        if profile is None:
            return None
        key = tables.tag_key(profile)
        if key is None:
            return "entry"
        tag = value.get(key)
        return tag.text if tag is not None and tag.type == "string" else None

    def read(self, stream: Stream, mode: str | None, view: str | None = None) -> dict[str, Any]:
        """Return the answer of a reader; without *mode* that of mode tail, without *view* all records."""
        lines, rest = self.reached(stream, mode)
        gaps = [self.gap(line) for line in lines if line.status == "gap"]
        stopped = mode != "salvage" and bool(gaps)
        if rest:
            gaps.append({"offset": len(stream.data) - rest, "length": rest, "reason": "stopped"})
        records = [line for line in lines if line.status == "readable"]
        state = self.state(stream)
        fails = (stopped and mode != "prefix") or (mode == "strict" and state != "complete")
        given = self.latest(records, stream.profile) if view == "latest" else records
        answer = {
            "outcome": "fails" if fails else "read",
            "profile": self.profile(stream, records),
            "state": state,
            "records": [self.tagged_record(line.value, stream.profile) for line in given],
            "count": len(records),
            "committed": sum(line.length for line in lines if line.status != "gap"),
            "fragment": 0 if stopped else len(stream.fragment),
            "gap_bytes": sum(gap["length"] for gap in gaps),
            "gaps": gaps[:MAX_LISTED_GAPS],
        }
        if fails and stopped:
            line = lines[-1]
            answer["error"] = {"line": line.number, "offset": line.offset, "reason": line.reason}
        return answer

    def profile(self, stream: Stream, records: list[Line]) -> str | None:
        """Return the profile as far as a reading that gave *records* knows it."""
        return stream.profile if records else stream.unread

    def reached(self, stream: Stream, mode: str | None) -> tuple[list[Line], int]:
        """Return the lines that *mode* reaches, and the number of bytes after them."""
        if mode == "salvage":
            return stream.lines, 0
        for index, line in enumerate(stream.lines):
            if line.status == "gap":
                return stream.lines[: index + 1], len(stream.data) - line.offset - line.length
        return stream.lines, 0

    def gap(self, line: Line) -> dict[str, Any]:
        """Return an unreadable line as a gap."""
        return {"offset": line.offset, "length": line.length, "reason": line.reason}

    def latest(self, records: list[Line], profile: str | None) -> list[Line]:
        """Return the records of the latest attempt at each step."""
        kept: list[Line] = []
        limit: int | None = None
        phase = self.default_phase(records, profile)
        for line in reversed(records):
            kind = self.kind(line.value, profile)
            if limit is None or not self.is_superseded(line.value, kind, phase, limit):
                kept.append(line)
            from_step = _integer(line.value, "from_step") if kind == "run_resume" else None
            if from_step is not None and from_step >= 0:
                limit = from_step if limit is None else min(limit, from_step)
        return kept[::-1]

    def default_phase(self, records: Iterable[Line], profile: str | None) -> str:
        """Return the phase of records that name none."""
        for line in records:
            if self.kind(line.value, profile) == "run_start":
                return _phase(line.value) or "train"
        return "train"

    def is_superseded(self, value: Value | None, kind: str | None, phase: str, limit: int) -> bool:
        """Return whether a record is of a training step beyond *limit*."""
        step = _integer(value, "step")
        if kind in _STEPPING or kind not in tables.kinds("toy/v1") or step is None or step <= limit:
            return False
        own = _phase(value) or phase
        return own == "train" or (own == "eval" and kind != "step")

    def tagged_record(self, value: Value | None, profile: str | None) -> Any:
        """Return a record as a tagged value."""
        assert value is not None
        schema = tables.kinds(profile).get(self.kind(value, profile), {})
        return self.tagged(value, schema, profile)

    def tagged(self, value: Value, schema: Mapping[str, Any], profile: str | None) -> Any:
        """Return a value at a place of *schema* as a tagged value."""
        schema = tables.resolved(schema, profile)
        if value.type == "object":
            named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
            members = {key: self.tagged(item, named.get(key, others), profile) for key, item in value.unique().items()}
            return {"object": members} if len(members) == 1 and TAGS.issuperset(members) else members
        if value.type == "array":
            return [self.tagged(item, schema.get("items", {}), profile) for item in value.items]
        if value.type == "number":
            return self.tagged_number(self.digits(value.text, schema, profile), schema)
        return value.text if value.type == "string" else {"true": True, "false": False, "null": None}[value.type]

    def digits(self, literal: str, schema: Mapping[str, Any], profile: str | None) -> str:
        """Return the digits of a number if it is an integer and *schema* types one, else *literal*."""
        is_place = "integer" in schema.get("type", ()) and tables.takes_whole_floats(profile)
        number = whole(literal) if is_place else None
        return literal if number is None else str(number)

    def tagged_number(self, literal: str, schema: Mapping[str, Any]) -> dict[str, str]:
        """Return a number with the tag that its place, or else its text, decides."""
        if "number" not in schema.get("type", ()):
            return {"int": literal} if is_integer(literal) else {"float": float_text(float(literal))}
        number = self.number(literal)
        if schema.get("x-width") == 32 and abs(number) < BINARY32_LIMIT:
            return {"f32": f32_text(number)}
        return {"float": float_text(number)}

    def number(self, literal: str) -> float:
        """Return the value of a number at a place that the schema types."""
        return float(int(literal)) if is_integer(literal) else float(literal)


def _integer(value: Value | None, key: str) -> int | None:
    assert value is not None
    found = value.get(key)
    return whole(found.text) if found and found.type == "number" else None


def _phase(value: Value | None) -> str | None:
    assert value is not None
    phase = value.get("phase")
    return phase.text if phase and phase.text in {"train", "eval", "decode", "serve"} else None
