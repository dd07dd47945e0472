"""Makes msgspec types from a profile's bundle.

The public types come from datamodel-code-generator, put into schema order: an absent key is None there, and a number
that is null is NaN. The strict types keep absent and null apart, and refuse unknown keys and unsafe integers, so that
one decode validates a line.
"""

from __future__ import annotations

import ast
import json
from typing import Any

from datamodel_code_generator import GenerateConfig, InputFileType, LiteralType, generate
from datamodel_code_generator.enums import DataModelType
from datamodel_code_generator.format import Formatter, PythonVersion

from codegen import sources
from codegen.bundling import bundle
from codegen.tables import marked

Schema = dict[str, Any]


def types_module(profile: str) -> str:
    """Return the module of public types of *profile*, fields in schema order."""
    body = _rewritten(_generated(profile), profile)
    docstring = f"Types of {profile}: an absent key is None, and a number that is null is NaN."
    return marked(_origin(profile), docstring, body)


def _generated(profile: str) -> ast.Module:
    """Return what datamodel-code-generator makes of the schemas of *profile*."""
    text = generate(
        json.dumps(bundle(profile)),
        config=GenerateConfig(
            input_file_type=InputFileType.JsonSchema,
            output_model_type=DataModelType.MsgspecStruct,
            target_python_version=PythonVersion.PY_311,
            enum_field_as_literal=LiteralType.All,
            field_constraints=True,
            use_annotated=True,
            use_msgspec_tagged_unions=True,
            use_title_as_name=True,
            use_schema_description=True,
            use_field_description=True,
            keyword_only=True,
            disable_timestamp=True,
            formatters=[Formatter.BUILTIN],
        ),
    )
    return ast.parse(str(text))


def strict_module(profile: str) -> str:
    """Return the module of strict types of *profile*."""
    document = bundle(profile)
    tag = sources.stream(profile)["tag"]
    kinds = [kind for kind in sources.kinds(profile) if tag is None or tag in document["$defs"][kind]["properties"]]
    classes = [_strict_class(name, document, tag) for name in _reachable(kinds, document)]
    union = " | ".join(document["$defs"][kind]["title"] for kind in kinds)
    header = (
        "from __future__ import annotations\n\n"
        "from typing import Annotated, Any, Literal, TypeAlias\n\n"
        "from msgspec import UNSET, Meta, Struct, UnsetType\n\n\n"
    )
    body = header + "\n\n".join(classes) + f"\n\nStrictRecord: TypeAlias = {union}\n"
    docstring = f"Types of {profile} that keep absent and null apart, and refuse unknown keys and unsafe integers."
    return marked(_origin(profile), docstring, body)


def _origin(profile: str) -> str:
    return f"schemas/{profile}/"


def _rewritten(module: ast.Module, profile: str) -> str:
    """Return *module* as text, each class with its fields in schema order and described once.

    datamodel-code-generator puts required fields first, says each description twice, and leaves the
    tag of a union of one a plain field.
    """
    document, tag = bundle(profile), sources.stream(profile)["tag"]
    schemas = {schema["title"]: schema for schema in document["$defs"].values()}
    parts: list[str] = []
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            parts.append(_class_text(node, schemas[node.name], tag))
        elif not (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == document["title"]):
            blank = "\n" if isinstance(node, ast.AnnAssign) else ""
            parts.append(blank + ast.unparse(_Public().visit(node)))
    union = " | ".join(schema["title"] for schema in schemas.values() if _is_record(schema, document, tag))
    return "\n".join([*parts, f"\n\n{document['title']}: TypeAlias = {union}"]) + "\n"


def _is_record(schema: Schema, document: Schema, tag: str | None) -> bool:
    return len(document["$defs"]) == 1 or (tag is not None and "const" in schema["properties"].get(tag, {}))


def _class_text(node: ast.ClassDef, schema: Schema, tag: str | None) -> str:
    fields = {ast.unparse(item.target): item for item in node.body if isinstance(item, ast.AnnAssign)}
    options = ["Struct", "kw_only=True", "omit_defaults=True", "repr_omit_defaults=True", *_tagging(schema, tag)]
    if _tagging(schema, tag):
        fields.pop(str(tag), None)
    lines = [f"\n\nclass {node.name}({', '.join(options)}):", f'    """{schema["description"]}"""\n']
    for name, value in schema["properties"].items():
        if name in fields:
            lines += [f"    {ast.unparse(_Public().visit(fields[name]))}"]
            lines += [f'    """{value["description"]}"""'] if "description" in value else []
    return "\n".join(lines)


def _tagging(schema: Schema, tag: str | None) -> list[str]:
    """Return the options of a class whose records *tag* names; none for an object that has a key of that name."""
    if tag is None or "const" not in schema["properties"].get(tag, {}):
        return []
    return [f'tag_field="{tag}"', f'tag="{schema["properties"][tag]["const"]}"']


class _Public(ast.NodeTransformer):
    """Makes the absent key None, and the null that was a number NaN; removes descriptions from annotations."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not (
            isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple)
        ):
            return node
        plain, meta = node.slice.elts
        assert isinstance(meta, ast.Call)
        meta.keywords = [item for item in meta.keywords if item.arg not in {"description", "title"}]
        return node if meta.keywords else plain

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(None) if node.id in ("UNSET", "UnsetType") else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        node.names = [name for name in node.names if name.name not in ("UNSET", "UnsetType")]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Return a union without null for a number, and with None for a key that may be absent."""
        given = _alternatives(node)
        names = [ast.unparse(self.visit(each)) for each in given if ast.unparse(each) not in ("None", "UnsetType")]
        is_optional = any(ast.unparse(each) == "UnsetType" for each in given)
        has_none = is_optional or (len(names) < len(given) and not any("float" in name for name in names))
        return ast.parse(" | ".join([*names, "None"] if has_none else names), mode="eval").body


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """Return the types of a union."""
    if isinstance(node, ast.BinOp):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _reachable(kinds: list[str], document: Schema) -> list[str]:
    """Return the definitions that *kinds* use, each before its users."""
    names = [name for name in document["$defs"] if name not in kinds and _is_used(name, kinds, document)]
    return names + kinds


def _is_used(name: str, kinds: list[str], document: Schema) -> bool:
    reference = f"#/$defs/{name}"
    return any(reference in json.dumps(document["$defs"][kind]) for kind in kinds)


def _strict_class(name: str, document: Schema, tag: str | None) -> str:
    schema = document["$defs"][name]
    title = schema["title"]
    required = schema.get("required", [])
    options = ["Struct", "kw_only=True", "forbid_unknown_fields=True", *_tagging(schema, tag)]
    lines = [f"class {title}({', '.join(options)}):"]
    lines.append(f'    """A {title} that has only known keys and safe integers."""\n')
    for key, value in schema["properties"].items():
        if key == tag and "const" in value:
            continue
        annotation = _annotation(value, document)
        lines.append(f"    {key}: {annotation}" if key in required else f"    {key}: {annotation} | UnsetType = UNSET")
    return "\n".join(lines) + "\n"


def _annotation(schema: Schema, document: Schema) -> str:
    if "$ref" in schema:
        return str(document["$defs"][schema["$ref"].rpartition("/")[2]]["title"])
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    text = " | ".join(_named(name, schema, document) for name in names if name != "null")
    return f"{text} | None" if "null" in names else text


def _named(name: str, schema: Schema, document: Schema) -> str:
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return "Literal[" + ", ".join(json.dumps(value) for value in values) + "]"
    if name == "object":
        values = schema.get("additionalProperties")
        return "dict[str, Any]" if values is None else f"dict[str, {_map_value(values, document)}]"
    if name == "array":
        return _constrained(f"list[{_annotation(schema['items'], document)}]", schema)
    plain = {"integer": "int", "number": "float", "string": "str", "boolean": "bool"}[name]
    if name == "integer":
        limit = sources.limits()["max_safe_integer"]
        schema = {"minimum": -limit, "maximum": limit, **schema}
    return _constrained(plain, schema)


def _map_value(schema: Schema, document: Schema) -> str:
    """Return the type of a value in an open map, where an unsafe integer has a finding of its own."""
    text = _annotation(schema, document)
    if "number" not in schema["type"]:
        return text
    limit = sources.limits()["max_safe_integer"]
    return f"Annotated[int, Meta(ge={-limit}, le={limit})] | {text}"


_CONSTRAINTS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "pattern": "pattern",
    "minItems": "min_length",
    "maxItems": "max_length",
}


def _constrained(plain: str, schema: Schema) -> str:
    parts = [f"{_CONSTRAINTS[key]}={value!r}" for key, value in schema.items() if key in _CONSTRAINTS]
    return f"Annotated[{plain}, Meta({', '.join(parts)})]" if parts else plain
