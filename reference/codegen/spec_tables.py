"""Fills the generated parts of specification pages: field tables and rule facts."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from codegen import sources
from codegen.bundling import bundle
from codegen.site.statements import statements

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS = re.compile(r"(<!-- generated:fields -->\n).*?(<!-- /generated -->)", re.DOTALL)
_STATEMENTS = re.compile(r"(<!-- generated:statements -->\n).*?(<!-- /generated -->)", re.DOTALL)
_RULE = re.compile(r"(<!-- generated:rule -->\n).*?(<!-- /generated -->)", re.DOTALL)

Schema = dict[str, Any]


def spec_pages() -> dict[str, str]:
    """Return every specification page with a generated part, by path from the root, as it must be."""
    pages: dict[str, str] = {}
    for profile in sources.PROFILES:
        document = bundle(profile)
        for kind in sources.kinds(profile):
            table = _field_table(kind, document)
            _fill(pages, f"spec/{profile}/{kind}.md", _FIELDS, table)
    for rule in sources.rules():
        _fill(pages, f"spec/rules/{rule['id']}.md", _RULE, _rule_facts(rule))
    _fill(pages, "spec/minimal.md", _STATEMENTS, _minimal())
    return pages


def _minimal() -> str:
    """Return the statements that every emitter needs, each with a link to its place."""
    found = [statement for statement in statements() if statement.entry.get("level") == "minimal"]
    return "".join(f"- {each.text} [{each.id}]({each.page}#{each.anchor})\n" for each in found)


def _fill(pages: dict[str, str], path: str, part: re.Pattern[str], content: str) -> None:
    file = sources.ROOT / path
    if file.exists():
        text = file.read_text(encoding="utf-8")
        pages[path] = part.sub(lambda match: f"{match[1]}\n{content}\n{match[2]}", text)


def _field_table(kind: str, document: Schema) -> str:
    blocks = [_table(document["$defs"][kind], document)]
    for name in _objects(document["$defs"][kind]):
        blocks += [f"`{name}` is an object:\n", _table(document["$defs"][name], document)]
    return "\n".join(blocks)


def _objects(schema: Schema) -> list[str]:
    values = (value.get("items", value) for value in schema["properties"].values())
    return [value["$ref"].rpartition("/")[2] for value in values if "$ref" in value]


def _table(schema: Schema, document: Schema) -> str:
    rows = ["| key | type | required | meaning |", "|---|---|---|---|"]
    required = schema.get("required", [])
    for key, value in schema["properties"].items():
        since = f" Since revision {value['x-since']}." if "x-since" in value else ""
        need = "yes" if key in required else ""
        description = described(value, document) + since
        rows.append(f"| `{key}` | {_shown_type(value, document)} | {need} | {description} |")
    return "\n".join(rows) + "\n"


def _shown_type(schema: Schema, document: Schema) -> str:
    if "$ref" in schema:
        return "object"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    shown = [_named(name, schema, document) for name in names]
    return " or ".join(shown) + _range(schema)


def _named(name: str, schema: Schema, document: Schema) -> str:
    if name == "array":
        return f"array of ({_shown_type(schema['items'], document)})"
    if name == "object":
        values = schema.get("additionalProperties")
        return "object, open" if values is None else f"object of ({_shown_type(values, document)})"
    if name == "number" and schema.get("x-width"):
        return "number (binary32)"
    return name


def _range(schema: Schema) -> str:
    if "x-width" in schema:
        return ""
    if schema.get("format"):
        return f", {schema['format']}"
    if "minItems" in schema:
        return f", {schema['minItems']} items"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    return f", ≥ {low}" if low is not None else ""


def severity_text(rule: Mapping[str, Any]) -> str:
    """Return the severity of *rule*, in each profile and at the end of a stream if that differs."""
    severity = rule["severity"]
    if isinstance(severity, dict):
        shown = ", ".join(f"{value} in {profile}" for profile, value in severity.items())
    else:
        shown = str(severity)
    return f"{shown}; {rule['severity_at_end']} at the end of the stream" if "severity_at_end" in rule else shown


def profiles_text(rule: Mapping[str, Any]) -> str:
    """Return which streams *rule* is about."""
    return ", ".join(rule["profiles"]) or "streams without a profile"


def help_text(rule: Mapping[str, Any]) -> str:
    """Return what to do about a finding of *rule*, in each profile where that differs."""
    texts = rule["help"]
    if isinstance(texts, str):
        return texts
    profiles: dict[str, list[str]] = {}
    for profile, text in texts.items():
        profiles.setdefault(text, []).append(profile)
    return "; ".join(f"in {', '.join(names)}: {text}" for text, names in profiles.items())


def described(schema: Schema, document: Schema) -> str:
    """Return the description of *schema*, or else that of the definition in *document* that it refers to."""
    resolved = document["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return str(schema.get("description") or resolved.get("description", ""))


def sentence(fact: str) -> str:
    """Return *fact* as a sentence; where it begins with the name of a key, that keeps its spelling."""
    word, _, rest = fact.partition(" ")
    if word.rpartition(".")[2] in _keys():
        return f"`{word}` {rest}."
    return f"{fact[0].upper()}{fact[1:]}."


@cache
def _keys() -> frozenset[str]:
    return frozenset(
        key
        for profile in sources.PROFILES
        for schema in sources.kinds(profile).values()
        for key in schema["properties"]
    )


def _rule_facts(rule: Mapping[str, Any]) -> str:
    rows = [
        "| layer | severity | profiles |",
        "|---|---|---|",
        f"| {rule['layer']} | {severity_text(rule)} | {profiles_text(rule)} |",
    ]
    return f"{sentence(rule['summary'])}\n\n" + "\n".join(rows) + "\n"
