"""Makes the methods of a writer that write one event of toy/v1 each, from its schemas."""

from __future__ import annotations

import json
from typing import Any

from codegen import sources
from codegen.bundling import bundle
from codegen.tables import marked

# The package writes these by hand: they frame the run, number its steps, or copy a file.
_BY_HAND = frozenset(["run_start", "run_resume", "run_end", "step", "artifact"])
_BY_WRITER = frozenset(["kind", "t", "nonfinite", "left_out", "dropped"])
_BY_POSITION = frozenset(["config", "values", "name", "region", "param", "buckets", "prompt", "text", "verdict", "uri"])
_DEFAULTS = {("eval", "phase"): "eval", ("alert", "rule"): "program", ("alert", "level"): "warning"}
_TYPES = {"integer": "SupportsIndex", "number": "SupportsFloat", "string": "str", "boolean": "bool"}
_HEADER = """\
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any, Literal, SupportsFloat, SupportsIndex

from msgspec import Struct


class EventMethods(ABC):
    \"\"\"The events that need only their members; every call writes one record.\"\"\"

    @abstractmethod
    def _log(self, kind: str, **members: Any) -> None:
        \"\"\"Write an event.\"\"\"
"""


def event_methods_module() -> str:
    """Return the Python module."""
    schemas = bundle("toy/v1")["$defs"]
    methods = [_method(kind, schemas[kind]) for kind in sources.kinds("toy/v1") if kind not in _BY_HAND]
    return marked(
        "schemas/toy/v1/", "The methods of a writer that write one event each.", "\n".join([_HEADER, *methods])
    )


def _method(kind: str, schema: dict[str, Any]) -> str:
    properties = {name: value for name, value in schema["properties"].items() if name not in _BY_WRITER}
    required = [name for name in properties if name in schema["required"] and (kind, name) not in _DEFAULTS]
    first = [name for name in required if name in _BY_POSITION]
    optional = [name for name in properties if name not in required]
    named = [*(name for name in required if name not in first), *sorted(optional, key=lambda name: name == "phase")]
    parameters = ["self", *(_parameter(kind, name, properties[name], required) for name in first), "*"]
    parameters += [_parameter(kind, name, properties[name], required) for name in named]
    description = schema["description"]
    return (
        f"    def {kind}({', '.join(parameters)}) -> None:\n"
        f'        """Write an event of kind ``{kind}``: {description[0].lower()}{description[1:]}"""\n'
        f"        self._log({', '.join([json.dumps(kind), *(f'{name}={name}' for name in [*first, *named])])})\n"
    )


def _parameter(kind: str, name: str, schema: dict[str, Any], required: list[str]) -> str:
    annotation = _annotation(schema)
    if name in required:
        return f"{name}: {annotation}"
    if schema.get("type") == ["integer", "null"]:  # where null names a place
        return f"{name}: {annotation} | EllipsisType = ..."
    default = json.dumps(_DEFAULTS[kind, name]) if (kind, name) in _DEFAULTS else "None"
    return f"{name}: {annotation.removesuffix(' | None')} | None = {default}"


def _annotation(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return f"Literal[{', '.join(map(json.dumps, schema['enum']))}]"
    given = schema.get("type", "object")
    names = [given] if isinstance(given, str) else given
    found = [_named(name, schema) for name in names if name != "null"]
    return " | ".join([*found, "None"] if "null" in names else found)


def _named(name: str, schema: dict[str, Any]) -> str:
    if name == "array":
        return f"Sequence[{_annotation(schema['items'])}]"
    return _TYPES.get(name, "Mapping[str, Any] | Struct" if "$ref" in schema else "Mapping[str, Any]")
