"""Writes a tagged record in canonical form, to compare with the cases."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from conformance.tagging import TAGS, f32_text, float_text

_SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "schemas", "bundled")
_DEFAULTS: dict[str, dict[str, Any]] = {
    "metrics/v1": {"extra": {}},
}
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def line_of(record: Mapping[str, Any], profile: str) -> bytes:
    """Return the line of a tagged *record*, with its LF."""
    with open(os.path.join(_SCHEMAS, f"{profile.replace('/', '-')}.json"), encoding="utf-8") as file:
        definitions = json.load(file)["$defs"]
    tag = {"toy/v1": "kind", "kaun/v1": "type"}.get(profile)
    kind = record[tag] if tag else "entry"
    if kind not in definitions:
        return (_text(record, {"properties": {tag: {}}}, definitions) + "\n").encode()
    return (_text({**_DEFAULTS.get(profile, {}), **record}, definitions[kind], definitions) + "\n").encode()


def _text(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if isinstance(value, dict) and len(value) == 1 and TAGS.issuperset(value):
        ((name, inner),) = value.items()
        if name == "int":
            return str(inner)
        if name != "object":
            return float_text(float(inner)) if name == "float" else f32_text(float(inner))
        value = inner
    if isinstance(value, dict):
        named = schema.get("properties", {})
        keys = [key for key in named if key in value] + sorted(value.keys() - named.keys(), key=str.encode)
        others = schema.get("additionalProperties", {})
        return (
            "{"
            + ",".join(f"{_string(key)}:{_text(value[key], named.get(key, others), definitions)}" for key in keys)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(_text(item, schema.get("items", {}), definitions) for item in value) + "]"
    return _string(value) if isinstance(value, str) else {None: "null", True: "true", False: "false"}[value]


def _string(text: str) -> str:
    return '"' + "".join(_SHORT.get(c, f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'
