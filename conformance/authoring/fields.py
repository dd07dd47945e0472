"""Makes the cases about single fields from the schemas: values at and beyond every bound, and missing keys.

    python -m conformance.authoring.fields

The topics ``fields`` and ``required-keys`` of each profile are made here and nowhere else. A numeric field of
a kind gets one stream of accepted values and one of refused values, with one error on each line.
``run_start`` and ``run_end`` occur once in a stream, so their fields are families. Fields that are not numbers
share two streams for each kind.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from conformance.authoring.fill import filled_bytes, laid_out
from conformance.authoring.samples import Sample, accepted, is_numeric, refused, sample_of
from conformance.format_facts import SCHEMAS, WHOLE_FLOATS
from conformance.loading import CASES
from conformance.pipes import quietly
from conformance.revisions import FIRST_LISTED, as_numbers
from conformance.tagging import tag_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ONCE = frozenset({"run_start", "run_end"})
_LAST_TIME = "1.7976931348623157e308"
_TOPICS = ("fields", "required-keys")
_INFOS = frozenset({"not-readable-by-source", "integer-as-float"})
"""Rules that accept the value."""


@dataclass(frozen=True)
class Field:
    """A place in the records of one kind."""

    path: tuple[str, ...]
    """Keys from the record down; ``*`` stands for any key of a map, ``0`` for any item of an array."""
    schema: Mapping[str, Any]
    since: str | None = None
    """The revision that added it to its kind; None for what every revision of the kind has."""

    @property
    def name(self) -> str:
        """The path as a part of a case's name."""
        words = ["values" if part == "*" else "items" if part == "0" else part for part in self.path]
        return "-".join(words).replace("_", "-")

    @property
    def shown(self) -> str:
        """The path for people."""
        return ".".join(self.path)

    @property
    def pointer(self) -> str:
        """The place as a JSON Pointer; the member of a map is ``a``."""
        return "".join("/a" if part == "*" else f"/{part}" for part in self.path)


_LACKING = {"values-left-out": "left_out", "records-dropped": "dropped"}
"""Rules that report a note whose map has a count greater than 0."""


@dataclass(frozen=True)
class _Row:
    """One line of a case, and its one error."""

    record: str
    rule: str | None
    pointer: str


class Profile:
    """The schemas of one profile, as these cases need them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = name.replace("/", "-")
        with open(os.path.join(SCHEMAS, "bundled", f"{self.folder}.json"), encoding="utf-8") as file:
            bundle = json.load(file)
        self._definitions = bundle["$defs"]
        self.tag = bundle.get("discriminator", {}).get("propertyName")
        self.kinds = tuple(bundle.get("discriminator", {}).get("mapping", {"entry": None}))
        self.whole_floats = name in WHOLE_FLOATS

    def schema(self, kind: str) -> Mapping[str, Any]:
        """Return the schema of *kind*."""
        return self._resolved({"$ref": kind})

    def fields(self, kind: str) -> Iterator[Field]:
        """Yield every place in the records of *kind* but the tag, objects before what is in them."""
        for key, schema in self.schema(kind)["properties"].items():
            if key != self.tag:
                yield from self._below((key,), schema, None)

    def since(self, kind: str) -> str | None:
        """Return the revision that added *kind*; None where the list of cases did not yet name revisions."""
        return _listed_revision(self.schema(kind))

    def _below(self, path: tuple[str, ...], reference: Mapping[str, Any], since: str | None) -> Iterator[Field]:
        schema = self._resolved(reference)
        since = _listed_revision(reference) or since
        yield Field(path, schema, since)
        for key, inner in schema.get("properties", {}).items():
            yield from self._below((*path, key), inner, since)
        if isinstance(schema.get("additionalProperties"), dict):
            yield from self._below((*path, "*"), schema["additionalProperties"], since)
        if "items" in schema:
            yield from self._below((*path, "0"), schema["items"], since)

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        return schema

    def minimal(self, kind: str, position: int) -> dict[str, Any]:
        """Return what every writer writes in a record of *kind*, in schema order, for the line *position*."""
        schema = self.schema(kind)
        record = {}
        for key, inner in schema["properties"].items():
            if key in schema["required"] or key == "schema":
                record[key] = sample_of(key, self._resolved(inner), kind, position)
        return record

    def minimal_at(self, kind: str, path: tuple[str, ...]) -> dict[str, str]:
        """Return the least value of the object at *path*."""
        schema = self.at(kind, path)
        return {
            key: sample_of(key, self._resolved(schema["properties"][key]), kind, 0)
            for key in schema.get("required", ())
        }

    def at(self, kind: str, path: tuple[str, ...]) -> Mapping[str, Any]:
        """Return the schema at *path*."""
        return next(field.schema for field in self.fields(kind) if field.path == path)


def cases() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the folder below ``cases/`` and the files of every case that is made here."""
    for name in ("toy/v1", "metrics/v1", "kaun/v1"):
        profile = Profile(name)
        for kind in profile.kinds:
            if kind in _ONCE:
                yield from _families(profile, kind)
            else:
                yield from _streams(profile, kind)


def main() -> None:
    """Write all cases again."""
    for profile in ("toy-v1", "metrics-v1", "kaun-v1"):
        for topic in _TOPICS:
            shutil.rmtree(os.path.join(CASES, profile, topic), ignore_errors=True)
    for folder, files in cases():
        path = os.path.join(CASES, folder)
        os.makedirs(path)
        for name, data in files.items():
            with open(os.path.join(path, name), "wb") as file:
                file.write(data)


def _streams(profile: Profile, kind: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    numeric = [field for field in profile.fields(kind) if is_numeric(field.schema)]
    others = [field for field in profile.fields(kind) if not is_numeric(field.schema)]
    groups = [([field], field.name) for field in numeric]
    # Fields of a later revision are asked about apart, so that the cases of an earlier one keep their bytes.
    for revision in dict.fromkeys(field.since for field in others):
        name = "other-fields" + (f"-since-{revision.replace('.', '-')}" if revision else "")
        groups.append(([field for field in others if field.since == revision], name))
    for group, name in groups:
        what = f"`{group[0].shown}`" if group[0] in numeric else "each field that is not a number"
        for verdict, of_verdict in (("accepted", accepted), ("refused", refused)):
            samples = [
                (field, sample)
                for field in group
                for sample in of_verdict(field.schema, whole_floats=profile.whole_floats)
            ]
            if samples:
                title = f"{_dashed(kind)}-{name}-{verdict}"
                why = f"Values that the schema of {kind} {_verb(verdict)} for {what}, one on each line."
                yield _stream(profile, kind, f"fields/{title}", why, samples)
    yield _missing(profile, kind)


def _stream(
    profile: Profile, kind: str, title: str, why: str, samples: list[tuple[Field, Sample]]
) -> tuple[str, dict[str, bytes]]:
    rows = [
        _Row(_with(profile, kind, field, sample.text, profile.minimal(kind, position)), sample.rule, field.pointer)
        for position, (field, sample) in enumerate(samples, start=1)
    ]
    # It is reported once for a stream, at the first of its places.
    as_float = [index for index, row in enumerate(rows) if row.rule == "integer-as-float"]
    for index in as_float[1:]:
        rows[index] = replace(rows[index], rule=None)
    if profile.name != "toy/v1":
        # The first null of such a stream is reported at info level, and the samples end with null.
        null = next((index for index, (_, sample) in enumerate(samples) if sample == Sample("null", "null")), None)
        if null is not None:
            rows[null] = replace(rows[null], rule="not-readable-by-source")
    return _case(profile, title, why, rows, samples[0][0].since or profile.since(kind))


def _missing(profile: Profile, kind: str) -> tuple[str, dict[str, bytes]]:
    rows = []
    for position, key in enumerate((key for key in profile.schema(kind)["required"] if key != profile.tag), start=1):
        record = {name: text for name, text in profile.minimal(kind, position).items() if name != key}
        rows.append(_Row(_object(record), "missing-key", f"/{key}"))
    if profile.tag is None:
        # Without a tag, the keys of the first record decide the profile.
        rows.insert(0, _Row(_object(profile.minimal(kind, 0)), None, ""))
    why = f"A record of kind {kind} without one of its required keys, another one on each line."
    title = f"required-keys/{_dashed(kind)}-without-each-of-its-keys"
    return _case(profile, title, why, rows, profile.since(kind))


def _case(profile: Profile, title: str, why: str, rows: list[_Row], since: str | None) -> tuple[str, dict[str, bytes]]:
    """Return the folder and the files of a case: *rows* between the lines that make the stream complete."""
    before, after = _around(profile, title.rpartition("/")[2], rows)
    findings = [
        {"rule": rule, "line": line, "pointer": pointer}
        for line, row in enumerate(rows, start=len(before) + 1)
        for rule, pointer in _findings(row)
    ]
    data = "".join(f"{line}\n" for line in (*before, *(row.record for row in rows), *after)).encode()
    name = "metrics.jsonl" if profile.name == "metrics/v1" else "events.jsonl"
    text = laid_out(filled_bytes(data, _content(profile, why, findings, since)))
    return f"{profile.folder}/{title}", {name: data, "case.json": text.encode()}


def _findings(row: _Row) -> Iterator[tuple[str, str]]:
    """Yield the rule and the pointer of each finding of *row*: its own one, and what a valid note says is missing."""
    if row.rule is not None:
        yield row.rule, row.pointer
    if row.rule in {None, "integer-as-float"}:
        record = json.loads(row.record)
        for rule, key in _LACKING.items() if record.get("kind") == "note" else ():
            if any(count > 0 for count in (record.get(key) or {}).values()):
                yield rule, f"/{key}"


def _around(profile: Profile, run_id: str, rows: list[_Row]) -> tuple[list[str], list[str]]:
    """Return the lines before and after *rows*; every region is entered before it is left, and left at last."""
    # It is reported once for a stream, at the first of its places.
    as_float = [index for index, row in enumerate(rows) if row.rule == "integer-as-float"]
    for index in as_float[1:]:
        rows[index] = replace(rows[index], rule=None)
    if profile.name != "toy/v1":
        return [], []
    settings = '"config":{"subsample":1},"compare_to":"base"'
    before = [f'{{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"{run_id}",{settings}}}']
    after = [f'{{"kind":"run_end","t":{_LAST_TIME},"reason":"completed"}}']
    values = [json.loads(row.record) for row in rows if row.pointer != "/region" or row.rule is None]
    for name in reversed([json.dumps(value["region"]) for value in values if value["kind"].startswith("region_")]):
        if values[0]["kind"] == "region_exit":
            before.append(f'{{"kind":"region_enter","t":0.0,"region":{name}}}')
        else:
            after.insert(-1, f'{{"kind":"region_exit","t":{_LAST_TIME},"region":{name}}}')
    return before, after


def _families(profile: Profile, kind: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    for field in profile.fields(kind):
        if is_numeric(field.schema) and "0" not in field.path and "*" not in field.path:
            samples = [
                sample
                for of_verdict in (accepted, refused)
                for sample in of_verdict(field.schema, whole_floats=profile.whole_floats)
            ]
            variants = [_variant(sample, field, kind) for sample in samples]
            why = f"Values at and beyond the bounds of `{field.shown}` of {kind}."
            yield _family(profile, kind, f"fields/{_dashed(kind)}-{field.name}", why, (field, variants))
    required = [key for key in profile.schema(kind)["required"] if key != profile.tag]
    variants = [_missing_variant(profile, kind, key) for key in required]
    title = f"required-keys/{_dashed(kind)}-without-each-of-its-keys"
    yield _family(profile, kind, title, f"A {kind} without one of its required keys.", (None, variants))


def _family(
    profile: Profile, kind: str, title: str, why: str, what: tuple[Field | None, list[dict[str, Any]]]
) -> tuple[str, dict[str, bytes]]:
    field, variants = what
    run_id = title.rpartition("/")[2]
    records = {once: profile.minimal(once, 0) for once in ("run_start", "run_end")}
    records["run_start"]["run_id"] = json.dumps(run_id)
    lines = {once: _object(record) for once, record in records.items()}
    if field is not None:
        lines[kind] = _with(profile, kind, field, "7", records[kind])
    data = "".join(f"{line}\n" for line in lines.values()).encode()
    content = _content(profile, why, [], field.since if field else None)
    content |= {"family": "variants", "parameters": {"variants": variants}}
    return f"{profile.folder}/{title}", {
        "events.jsonl": data,
        "family.json": laid_out(filled_bytes(data, content)).encode(),
    }


def _variant(sample: Sample, field: Field, kind: str) -> dict[str, Any]:
    line = 1 if kind == "run_start" else 2
    key = json.dumps(field.path[-1])
    # Both records have the time; the text before it identifies the record.
    before = {"run_start": '"schema":"toy/v1",', "run_end": '"kind":"run_end",'}[kind] if field.path == ("t",) else ""
    value = _tagged(kind, field, sample.text)
    content: dict[str, Any] = {
        "name": sample.name,
        "edits": [{"find": f"{before}{key}:7", "put": f"{before}{key}:{sample.text}"}],
        "records": [{"record": line - 1, "pointer": field.pointer, "value": value}],
    }
    if sample.rule:
        content["findings"] = [{"rule": sample.rule, "line": line, "pointer": field.pointer}]
        content["proves"] = {"rejects": _proved(sample.rule)}
    return content


def _missing_variant(profile: Profile, kind: str, key: str) -> dict[str, Any]:
    line = 1 if kind == "run_start" else 2
    value = profile.minimal(kind, 0)[key]
    before = {"run_start": '"schema":"toy/v1"', "run_end": '"kind":"run_end"'}[kind] if key == "t" else ""
    find = f"{before},{json.dumps(key)}:" + ("" if key == "run_id" else value)
    if key == "run_id":
        find = f',"run_id":"{_dashed(kind)}-without-each-of-its-keys"'
    return {
        "name": key.replace("_", "-"),
        "edits": [{"find": find, "put": before}],
        "records": [{"record": line - 1, "pointer": f"/{key}"}],
        "findings": [{"rule": "missing-key", "line": line, "pointer": f"/{key}"}],
        "proves": {"rejects": _proved("missing-key")},
    }


def _content(profile: Profile, why: str, findings: list[dict[str, Any]], since: str | None) -> dict[str, Any]:
    rules = sorted({finding["rule"] for finding in findings})
    invalid = [rule for rule in rules if rule not in _INFOS]
    return {
        "why": why,
        **({"since": since} if since else {}),
        "profile": profile.name,
        "state": "complete",
        "records": [],
        "findings": findings,
        "proves": {
            "accepts": [] if invalid else ["rules/wrong-type", "rules/out-of-range", "writing/schema-valid"],
            "rejects": [requirement for rule in rules for requirement in _proved(rule)],
        },
    }


def _proved(rule: str) -> list[str]:
    also = {"wrong-type": ["checking/strict-types"]} | {info: [] for info in _INFOS}
    return [f"rules/{rule}", *also.get(rule, ["writing/schema-valid"])]


def _with(profile: Profile, kind: str, field: Field, text: str, minimal: Mapping[str, str]) -> str:
    """Return the text of the record *minimal* of *kind* with *text* at the place of *field*."""
    record = dict(minimal)
    inner = text
    for index in range(len(field.path) - 1, 0, -1):
        key, above = field.path[index], field.path[:index]
        if key == "0":
            inner = f"[{inner}{',1' * (profile.at(kind, above).get('minItems', 1) - 1)}]"
        elif key == "*":
            inner = f'{{"a":{inner}}}'
        else:
            inner = _object({**profile.minimal_at(kind, above), key: inner})
    key = field.path[0]
    if key in record:
        record[key] = inner
        return _object(record)
    order = list(profile.schema(kind)["properties"])
    return _object(dict(sorted({**record, key: inner}.items(), key=lambda member: order.index(member[0]))))


def _object(members: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}:{text}" for key, text in members.items()) + "}"


def _tagged(kind: str, field: Field, text: str) -> Any:
    """Return the tagged value of *text* at the place of *field*."""
    value = json.loads(text)
    for key in reversed(field.path):
        value = {key: value}
    tagged: Any = tag_record({"kind": kind, **value}, "toy/v1")
    for key in field.path:
        tagged = tagged[key]
    return tagged


def _listed_revision(schema: Mapping[str, Any]) -> str | None:
    """Return the revision that added *schema*, unless it is one from before cases named their revision."""
    revision = schema.get("x-since")
    return revision if isinstance(revision, str) and as_numbers(revision) > as_numbers(FIRST_LISTED) else None


def _dashed(kind: str) -> str:
    return kind.replace("_", "-")


def _verb(verdict: str) -> str:
    return "accepts" if verdict == "accepted" else "refuses"


if __name__ == "__main__":
    sys.exit(quietly(main))
