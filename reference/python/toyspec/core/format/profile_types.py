"""The types of a profile for other languages, and its page, from its schemas."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.format.own_profiles import OwnProfile, Schema

_PYTHON = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_TYPESCRIPT = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def python_types(profile: OwnProfile) -> str:
    """Return a Python module with a msgspec Struct for each kind, and the union of them as ``Record``."""
    parts = [_PYTHON_HEAD.format(name=profile.name)]
    names = []
    for kind, schema in profile.kinds.items():
        names.append(class_name(kind))
        parts.append("\n\n".join([*_structs(class_name(kind), schema, profile.tag, kind)]))
    return "\n\n\n".join(parts) + f"\n\n\nRecord = {' | '.join(names)}\n"


_PYTHON_HEAD = '''"""Types of {name}; made by `toyspec schema types`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field'''


def _structs(name: str, schema: Schema, tag: str | None, kind: str | None) -> Iterator[str]:
    """Yield the class of an object after those of the objects in it."""
    lines = [f"class {name}(Struct, kw_only=True{_tagging(tag, kind)}):"]
    lines += [f"    {_quoted(schema['description'])}", ""] if schema.get("description") else []
    required = schema.get("required", ())
    fields = [(key, each) for key, each in schema["properties"].items() if key != tag or kind is None]
    for key, each in fields:
        inner = name + class_name(key)
        if each.get("type") == "object" and "properties" in each:
            yield from _structs(inner, each, None, None)
        lines += _field(key, _python(each, inner), is_required=key in required)
        lines += [f"    {_quoted(each['description'])}"] if each.get("description") else []
    yield "\n".join(lines if fields else [*lines, "    pass"])


def _tagging(tag: str | None, kind: str | None) -> str:
    return "" if tag is None or kind is None else f", tag_field={tag!r}, tag={kind!r}"


def _field(key: str, declared: str, *, is_required: bool) -> list[str]:
    name = key if key.isidentifier() and not keyword.iskeyword(key) else re.sub(r"\W|^(?=\d)", "_", key) + "_"
    renamed = f"name={key!r}" if name != key else ""
    if is_required:
        return [f"    {name}: {declared}" + (f" = field({renamed})" if renamed else "")]
    value = f"field({renamed}, default=UNSET)" if renamed else "UNSET"
    return [f"    {name}: {declared} | UnsetType = {value}"]


def _python(schema: Schema, inner: str) -> str:
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return f"Literal[{', '.join(map(repr, values))}]"
    return " | ".join(_python_of(name, schema, inner) for name in _names(schema)) or "Any"


def _python_of(name: str, schema: Schema, inner: str) -> str:
    if name == "array":
        return f"list[{_python(schema.get('items', {}), 'dict[str, Any]')}]"
    if name == "object":
        if "properties" in schema:
            return inner
        values = schema.get("additionalProperties")
        return f"dict[str, {_python(values, 'Any') if isinstance(values, dict) else 'Any'}]"
    return _PYTHON[name]


def typescript_types(profile: OwnProfile) -> str:
    """Return a TypeScript module with an interface for each kind, and the union of them as ``Rec``."""
    parts = [f"// Types of {profile.name}; made by `toyspec schema types`."]
    for kind, schema in profile.kinds.items():
        parts.append(f"{_comment(schema, '')}export interface {class_name(kind)} {_members(schema, '')}")
    names = " | ".join(map(class_name, profile.kinds))
    return "\n\n".join([*parts, f"export type Rec = {names};"]) + "\n"


def _members(schema: Schema, indent: str) -> str:
    import json

    required = schema.get("required", ())
    deeper = indent + "  "
    lines = ["{"]
    for key, each in schema["properties"].items():
        mark = "" if key in required else "?"
        lines.append(f"{_comment(each, deeper)}{deeper}{json.dumps(key)}{mark}: {_typescript(each, deeper)};")
    return "\n".join([*lines, f"{indent}}}"])


def _comment(schema: Schema, indent: str) -> str:
    text = str(schema.get("description", "")).replace("*/", "* /").replace("\n", " ")
    return f"{indent}/** {text} */\n" if text else ""


def _typescript(schema: Schema, indent: str) -> str:
    import json

    if "const" in schema or "enum" in schema:
        return " | ".join(map(json.dumps, [schema["const"]] if "const" in schema else schema["enum"]))
    return " | ".join(_typescript_of(name, schema, indent) for name in _names(schema)) or "unknown"


def _typescript_of(name: str, schema: Schema, indent: str) -> str:
    if name == "array":
        return f"Array<{_typescript(schema.get('items', {}), indent)}>"
    if name == "object":
        if "properties" in schema:
            return _members(schema, indent)
        values = schema.get("additionalProperties")
        return f"Record<string, {_typescript(values, indent) if isinstance(values, dict) else 'unknown'}>"
    return _TYPESCRIPT[name]


def page(profile: OwnProfile) -> str:
    """Return the page of the profile in Markdown: each kind with a table of its fields."""
    parts = [f"# {profile.name}\n"]
    for kind, schema in profile.kinds.items():
        parts.append(
            f"## {kind}\n\n{schema.get('description', '')}\n\n| key | type | required | meaning |\n|---|---|---|---|"
        )
        required = schema.get("required", ())
        for key, each in schema["properties"].items():
            cells = (_in_words(each), "yes" if key in required else "no", str(each.get("description", "")))
            parts.append("".join([f"| `{key}` ", *(f"| {_cell(text)} " for text in cells), "|"]))
        parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "a match of `{}`",
    "format": "format {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}


def bound_in_words(keyword: str, bound: Any) -> str:
    """Return what a schema expects of a value by *keyword*, "at least 3 items"; empty for a keyword without one."""
    words = _BOUNDS.get(keyword, "").format(bound)
    return words.removesuffix("s") if bound == 1 else words


def _in_words(schema: Schema) -> str:
    """Return the type of a value, with the words of JSON Schema, and its bounds."""
    import json

    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        return " or ".join(f"`{json.dumps(each)}`" for each in values)
    types = " or ".join(_type_in_words(name, schema) for name in _names(schema)) or "any"
    bounds = [bound_in_words(key, schema[key]) for key in _BOUNDS if key in schema]
    return ", ".join([types, *bounds])


def _type_in_words(name: str, schema: Schema) -> str:
    if name == "array":
        return f"array of ({_in_words(schema['items'])})" if schema.get("items") else "array"
    if name == "object" and "properties" in schema:
        return "object: " + "; ".join(f"`{key}` {_in_words(each)}" for key, each in schema["properties"].items())
    if name == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object whose values are ({_in_words(schema['additionalProperties'])})"
    return str(name)


def class_name(kind: str) -> str:
    """Return the name of the type of a kind: ``run_start`` is ``RunStart``."""
    words = re.sub(r"\W", "_", kind).split("_")
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"K{name}"


def _names(schema: Schema) -> list[Any]:
    declared = schema.get("type", [])
    return declared if isinstance(declared, list) else [declared]


def _quoted(text: str) -> str:
    return f'"""{text.replace(chr(92), chr(92) * 2).replace(chr(34) * 3, chr(39) * 3)}"""'
