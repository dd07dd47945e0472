"""Makes the tables of the C implementation, which stand inside its one source file."""

from __future__ import annotations

import json
import re
from typing import Any

from codegen import sources
from codegen.neutral import tables

_SOURCE = "reference/c/toyspec.c"
_PART = re.compile(r"(/\* generated:tables \*/\n).*?(/\* /generated \*/)", re.DOTALL)
_FORMS = {"integer": "INTEGER", "string": "STRING", "boolean": "BOOLEAN", "number": "NUMBER"}
_PATTERN = re.compile(r"\^\[\^(?P<set>.*)\]\{(?P<least>\d+),(?P<most>\d+)\}\(\?!\[\\s\\S\]\)")


def c_source() -> dict[str, str]:
    """Return the source file with its tables filled in, by its path."""
    text = (sources.ROOT / _SOURCE).read_text(encoding="utf-8")
    return {_SOURCE: _PART.sub(lambda match: f"{match[1]}{_Tables().text()}{match[2]}", text)}


class _Tables:
    """Collects static arrays, each before its users."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._names: dict[str, str] = {}

    def text(self) -> str:
        table = tables()
        self._lines.append("/* Made from schemas/ by `make generate`; do not edit up to the end mark. */")
        for profile, content in table["profiles"].items():
            self._profile(profile, content)
        names = [profile.replace("/", "_") for profile in table["profiles"]]
        self._lines.append(
            "static const struct profile profiles[] = {" + ", ".join(f"PROFILE_{name}" for name in names) + "};"
        )
        return "\n".join(self._lines) + "\n"

    def _profile(self, profile: str, content: dict[str, Any]) -> None:
        name = profile.replace("/", "_")
        kinds = []
        for kind, schema in content["kinds"].items():
            array = self._array(schema["fields"], f"{name}_{kind}")
            is_record = str(schema["is_record"]).lower()
            kinds.append(f'{{"{kind}", {is_record}, {array}, {len(schema["fields"])}}}')
        self._lines.append(f"static const struct kind kinds_{name}[] = {{\n    " + ",\n    ".join(kinds) + "};")
        tag, last = json.dumps(content["tag"] or ""), json.dumps(content.get("complete", {}).get("last", ""))
        value = f'{{"{profile}", {tag}, "{content["file"]}", {last}, kinds_{name}, {len(kinds)}}}'
        self._lines.append(f"#define PROFILE_{name} {value}")

    def _array(self, fields: list[dict[str, Any]], name: str) -> str:
        rows = [self._field(item, f"{name}_{item.get('name', 'inner')}") for item in fields]
        self._lines.append(f"static const struct field fields_{name}[] = {{\n    " + ",\n    ".join(rows) + "};")
        return f"fields_{name}"

    def _field(self, schema: dict[str, Any], name: str) -> str:
        parts = [f".name = {json.dumps(schema.get('name', ''))}", f".form = {self._form(schema)}"]
        if schema.get("required"):
            parts.append(".required = true")
        if schema.get("always_written"):
            parts.append(".always = true")
        if "null" in schema["types"]:
            parts.append(".nullable = true")
        if "fields" in schema:
            parts += [f".inner = {self._array(schema['fields'], name)}", f".count = {len(schema['fields'])}"]
        inner = schema.get("items") or schema.get("values")
        if inner:
            parts += [f".inner = {self._array([inner], name)}", ".count = 1"]
        return "{" + ", ".join(parts + self._constraints(schema)) + "}"

    def _form(self, schema: dict[str, Any]) -> str:
        name = next(item for item in schema["types"] if item != "null")
        if name == "number" and schema.get("width") == 32:
            return "BINARY32"
        if name == "object":
            return "OBJECT" if "fields" in schema else "OPEN_MAP" if schema["values"] is None else "MAP"
        return "ARRAY" if name == "array" else _FORMS[name]

    def _constraints(self, schema: dict[str, Any]) -> list[str]:
        parts = []
        if "width" not in schema and ("minimum" in schema or "maximum" in schema):
            low, high = schema.get("minimum", "-INFINITY"), schema.get("maximum", "INFINITY")
            parts.append(f".limited = true, .least = {low}, .greatest = {high}")
        if "minItems" in schema:
            parts.append(f".items = {schema['minItems']}")
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if values and all(isinstance(value, str) for value in values):
            parts.append(f".values = {self._values(values)}")
        if "pattern" in schema:
            parts.append(f".characters = {self._characters(schema['pattern'])}")
        if schema.get("format") == "date-time":
            parts.append(".date_time = true")
        return parts

    def _values(self, values: list[str]) -> str:
        key = json.dumps(values)
        if key not in self._names:
            self._names[key] = f"values_{len(self._names)}"
            listed = ", ".join(map(json.dumps, values))
            self._lines.append(f"static const char *const {self._names[key]}[] = {{{listed}, NULL}};")
        return self._names[key]

    def _characters(self, pattern: str) -> str:
        """Return the name of a table for a pattern that counts characters outside a set, the only form in use."""
        if pattern not in self._names:
            match = _PATTERN.fullmatch(pattern)
            if match is None:
                raise ValueError(f"no C form for the pattern {pattern!r}")
            self._names[pattern] = f"characters_{len(self._names)}"
            ranges = [f"{{{low}, {high}}}" for low, high in _ranges(match["set"])]
            listed = ", ".join([*ranges, "{1, 0}"])
            value = f"{{{match['least']}, {match['most']}, {{{listed}}}}}"
            self._lines.append(f"static const struct characters {self._names[pattern]} = {value};")
        return "&" + self._names[pattern]


def _ranges(text: str) -> list[tuple[int, int]]:
    characters = [item[1] if item[0] is None else item[0] for item in _items(text)]
    found, index = [], 0
    while index < len(characters):
        if index + 2 < len(characters) and characters[index + 1] == ord("-"):
            found.append((characters[index], characters[index + 2]))
            index += 3
        else:
            found.append((characters[index], characters[index]))
            index += 1
    return found


def _items(text: str) -> list[tuple[int | None, int]]:
    return [
        (int(match[1], 16) if match[1] else None, ord(match[0][0]))
        for match in re.finditer(r"\\u([0-9a-f]{4})|.", text)
    ]
