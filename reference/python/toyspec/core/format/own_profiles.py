"""Profiles of users: a directory with a JSON Schema for each kind of record, and ``stream.json``.

Loading a profile enters it into the tables of this process under its own name, beside those of toyspec: from then on
the reader, the follower and the checker take that name. See docs/how-to/make-your-own-profile.md.
"""

from __future__ import annotations

import os
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.errors import ProfileError
from toyspec.core.files import open_file, read_resource
from toyspec.core.format.record_mapping import KindMapping, RecordMapping, StepKey, TimeKey, enter_mapping
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.rules import INTEGER_AS_FLOAT, ORDER, PROFILES
from toyspec.core.generated.streams import STREAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema = dict[str, Any]

STREAM_FILE = "stream.json"
_OURS = tuple(STREAMS)
_SHARED = "urn:toyspec:shared:v1"
_WITHOUT = ("$schema", "$id", "$defs", "$ref")
_UNTAGGED = "entry"
_MAX_DEPTH = 64
_NUMERIC = ("number", "integer")
# The types of a field that a rule of this type compares.
_COMPARED = {
    "monotone": ("number", "integer"),
    "sequence-per-phase": ("integer",),
    "same-as-last": ("number", "integer"),
    "nested": ("string",),
}


class OwnProfile(msgspec.Struct, frozen=True):
    """A profile of the user."""

    name: str
    """Its name, for example ``evals/v1``."""
    directory: str
    tag: str | None
    """The key that names the kind of a record; None if all records are of one kind."""
    kinds: dict[str, Schema]
    """The schema of each kind, without references."""
    file: str
    """Name of the stream's file in a bundle."""

    def fits(self, first: Mapping[str, Any]) -> bool:
        """Return whether a stream may be of this profile by its first record."""
        kind = first.get(self.tag) if self.tag is not None else _UNTAGGED
        schema = self.kinds.get(kind) if isinstance(kind, str) else None
        return schema is not None and first.keys() >= set(schema.get("required", ()))


_LOADED: dict[str, OwnProfile] = {}


def loaded(name: str) -> OwnProfile | None:
    """Return the profile of the user *name*; None if none of that name was loaded."""
    return _LOADED.get(name)


@cache
def load_profile(directory: str) -> OwnProfile:
    """Return the profile in *directory*, and enter it into the tables; raise ProfileError if it is wrong."""
    path = os.path.join(directory, STREAM_FILE)
    if not os.path.exists(path):
        raise ProfileError(
            directory, f"not a profile: it has no {STREAM_FILE}; name a profile, or a directory that has one"
        )
    stream = _document(path)
    _check_stream(path, stream)
    documents = {
        name.removesuffix(".json"): _document(os.path.join(directory, name))
        for name in sorted(os.listdir(directory))
        if name.endswith(".json") and name != STREAM_FILE
    }
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    shared = msgspec.json.decode(read_resource("schemas", "shared", "v1", "definitions.json"))
    addresses = {**{str(each.get("$id", name)): each for name, each in documents.items()}, _SHARED: shared}
    registry = Registry().with_resources((at, DRAFT202012.create_resource(each)) for at, each in addresses.items())
    kinds: dict[str, Schema] = {}
    for name, document in documents.items():
        place = os.path.join(directory, f"{name}.json")
        if "properties" in document:
            kinds[name] = _resolved(document, registry.resolver(str(document.get("$id", name))), place)
            _check_kind(place, name, kinds[name], stream["tag"])
    if not kinds:
        raise ProfileError(directory, "no kind: a schema with properties is needed beside stream.json")
    if stream["tag"] is None and list(kinds) != [_UNTAGGED]:
        raise ProfileError(directory, f"without a tag the only kind is {_UNTAGGED}.json, found {', '.join(kinds)}")
    for rule in stream["rules"]:
        _check_rule(path, rule, kinds)
    profile = OwnProfile(stream["profile"], directory, stream["tag"], kinds, stream["file"])
    _enter(profile, stream, _mapping(path, stream, kinds))
    return profile


def _document(path: str) -> Schema:
    try:
        with open_file(path) as file:
            document = msgspec.json.decode(file.read())
    except OSError as error:
        raise ProfileError(path, error.strerror or str(error)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProfileError(path, f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ProfileError(path, "the document must be an object")
    return document


def _check_stream(path: str, stream: Schema) -> None:
    from jsonschema import Draft202012Validator

    meta = msgspec.json.decode(read_resource("schemas", "meta", STREAM_FILE))
    error = next(iter(Draft202012Validator(meta).iter_errors(stream)), None)
    if error is not None:
        raise ProfileError(path, f"/{'/'.join(map(str, error.absolute_path))}: {error.message}")
    if stream["profile"] in _OURS:
        raise ProfileError(path, f"profile is {stream['profile']!r}; write a name of your own and a version: evals/v1")
    for rule in stream["rules"]:
        if rule["rule"] not in ORDER:
            raise ProfileError(path, f"unknown rule {rule['rule']!r}; `toyspec explain` lists all rules")


def _check_rule(path: str, rule: Schema, kinds: dict[str, Schema]) -> None:
    """Raise ProfileError for a rule about a kind that is not there, or that compares what has no order."""
    for key in ("kind", "enter", "exit", "closed_by"):
        if key in rule and rule[key] not in kinds:
            raise ProfileError(path, f"{rule['rule']}: there is no kind {rule[key]!r}")
    allowed = _COMPARED.get(rule["type"])
    if allowed is None:
        return
    for kind, schema in kinds.items():
        declared = schema["properties"].get(rule["field"])
        if declared is not None and rule.get("kind", kind) == kind and declared.get("type") not in allowed:
            wanted = " or ".join(allowed)
            raise ProfileError(path, f"{rule['rule']}: {rule['field']!r} of {kind!r} must have the type {wanted}")


def _mapping(path: str, stream: Schema, kinds: dict[str, Schema]) -> RecordMapping:
    """Return where the records have what the records of any log have, as ``view`` says."""
    view, tag, types = stream.get("view", {}), stream["tag"], [field_types(schema) for schema in kinds.values()]
    for key in ("step", "time"):
        if key in view and not any(view[key] in each for each in types):
            raise ProfileError(path, f"view: no kind has the {key} {view[key]!r}")
    step = view.get("step") or _usual("step", types, ("integer",))
    time = view.get("time") or _usual("t", types, _NUMERIC)
    kind_of = partial(KindMapping, values="tree", names="shared")
    start = next((rule["kind"] for rule in stream["rules"] if rule["type"] == "first"), None)
    last = stream.get("complete", {}).get("last")
    roles: dict[Any, Any] = {start: kind_of(role="start"), last: kind_of(role="end")}
    numbers = [key for each in types for key, kind in each.items() if kind in _NUMERIC]
    return RecordMapping(
        step=None if step is None else StepKey(step, "any"),
        time=None if time is None else TimeKey(time, "seconds"),
        epoch=None,
        phase=None,
        places=frozenset({step, time, tag} - {None}),
        kinds={kind: role for kind, role in roles.items() if kind is not None},
        others=kind_of(),
        tag=tag,
        goals=view.get("goals", {}),
        shared=frozenset(key for key in numbers if numbers.count(key) > 1),
    )


def _usual(key: str, types: list[dict[str, Any]], wanted: tuple[str, ...]) -> str | None:
    """Return *key* if it has one of the types *wanted* wherever it is declared; else it is one value of many."""
    declared = [each[key] for each in types if key in each]
    return key if declared and all(kind in wanted for kind in declared) else None


def _check_kind(path: str, name: str, schema: Schema, tag: str | None) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ProfileError(path, f"not a JSON Schema: {error.message}") from None
    for key, each in schema["properties"].items():
        if not isinstance(each, dict):
            raise ProfileError(path, f"the property {key!r} must be an object")
    if tag is not None and schema["properties"].get(tag, {}).get("const") != name:
        raise ProfileError(path, f"the property {tag!r} must be the const {name!r}, the name of the file")


def _resolved(node: Any, resolver: Any, path: str, depth: int = 0) -> Any:
    """Return *node* with the target of each reference, which *resolver* finds, in its place."""
    from referencing.exceptions import Unresolvable

    if depth > _MAX_DEPTH:
        raise ProfileError(path, "nested too deep, or a reference that leads back to itself")
    if isinstance(node, list):
        return [_resolved(item, resolver, path, depth + 1) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _resolved(value, resolver, path, depth + 1) for key, value in node.items() if key not in _WITHOUT}
    if "$ref" not in node:
        return made
    try:
        found = resolver.lookup(str(node["$ref"]))
        target = dict(found.contents)
    except (Unresolvable, TypeError, ValueError):
        raise ProfileError(path, f"nothing is at the reference {node['$ref']!r}") from None
    return _resolved(target, found.resolver, path, depth + 1) | made


def _enter(profile: OwnProfile, stream: Schema, mapping: RecordMapping) -> None:
    name = profile.name
    known = _LOADED.get(name)
    if known is not None and known.directory != profile.directory:
        raise ProfileError(profile.directory, f"{name} was loaded from {known.directory} before")
    _LOADED[name] = profile
    STREAMS[name] = {key: value for key, value in stream.items() if key != "$schema"}
    FIELDS[name] = {kind: field_types(schema) for kind, schema in profile.kinds.items()}
    if name not in PROFILES[INTEGER_AS_FLOAT]:
        PROFILES[INTEGER_AS_FLOAT].append(name)
    enter_mapping(name, mapping)


def field_types(schema: Schema) -> dict[str, Any]:
    """Return the type of each property, in the form of the table of fields."""
    return {key: _field_type(value) for key, value in schema["properties"].items()}


def _field_type(schema: Schema) -> Any:
    declared = schema.get("type", "object")
    names = declared if isinstance(declared, list) else [declared]
    name = next((item for item in names if item != "null"), "object")
    if name == "array":
        return ("array", _field_type(schema.get("items", {})))
    if name != "object":
        return str(name)
    if "properties" in schema:
        return ("object", field_types(schema))
    values = schema.get("additionalProperties")
    return ("map", _field_type(values)) if isinstance(values, dict) else "open"
