from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from referencing import Registry, Resource

from codegen import c_tables, go_tables, lock, ocaml_tables, rust_tables, sources
from codegen.__main__ import stale
from codegen.bundling import bundle
from codegen.messages import templates
from codegen.patterns import characters
from codegen.sources import ROOT
from toyspec.core.reading.configuration import _KEYS

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTS = sources.documents()
KINDS = [(profile, kind) for profile in sources.PROFILES for kind in sources.kinds(profile)]


def registry() -> Registry[Any]:
    """Return every schema by its id; nothing is fetched."""
    return Registry().with_resources((urn, Resource.from_contents(schema)) for urn, schema in DOCUMENTS.items())


def validator(urn: str) -> jsonschema.Draft202012Validator:
    """Return a validator for the schema *urn*."""
    return jsonschema.Draft202012Validator(DOCUMENTS[urn], registry=registry())


@pytest.mark.parametrize("urn", DOCUMENTS)
def test_schema_is_valid(urn: str) -> None:
    """Every schema is valid 2020-12."""
    jsonschema.Draft202012Validator.check_schema(DOCUMENTS[urn])


@pytest.mark.parametrize(("profile", "kind"), KINDS)
def test_id_names_the_file(profile: str, kind: str) -> None:
    """The id of a kind's schema names profile and kind."""
    assert f"urn:toyspec:{profile.replace('/', ':')}:{kind}" == sources.kinds(profile)[kind]["$id"]


FACTS = {
    **{f"{profile.partition('/')[0]}/v1/stream.json": "stream" for profile in sources.PROFILES},
    **{f"dialects/{dialect['name']}.json": "dialect" for dialect in sources.dialects()},
    **{f"{name}.json": name for name in ("rules", "looks", "messages")},
}


@pytest.mark.parametrize("path", FACTS)
def test_facts_follow_their_meta_schema(path: str) -> None:
    """Rules, looks, messages, streams and dialects have the form of their meta-schema, each in a file of its name."""
    validator(f"urn:toyspec:meta:{FACTS[path]}:v1").validate(sources.load(sources.SCHEMAS / path))


@pytest.mark.parametrize("profile", sources.PROFILES)
def test_stream_rules_name_what_exists(profile: str) -> None:
    """Rules, kinds and fields in the stream rules are those of the registry and the schemas."""
    known = {rule["id"] for rule in sources.rules() if profile in rule["profiles"]}
    kinds = sources.kinds(profile)
    for rule in sources.stream(profile)["rules"]:
        assert rule["rule"] in known
        assert rule.get("kind", next(iter(kinds))) in kinds
        if "field" in rule and "kind" in rule:
            assert rule["field"] in kinds[rule["kind"]]["properties"]


def test_no_rule_is_named_twice() -> None:
    """The names of rules are unique."""
    names = [rule["id"] for rule in sources.rules()]
    assert sorted(set(names)) == sorted(names)


def test_no_look_hides_another() -> None:
    """No start of a file hides another that follows it."""
    looks = sources.load(sources.SCHEMAS / "looks.json")
    starts = [(entry["at"], entry["hex"]) for entry in looks["starts"]]
    hidden = [
        later
        for index, later in enumerate(starts)
        if any(at == later[0] and later[1].startswith(hexed) for at, hexed in starts[:index])
    ]
    assert [] == hidden
    for entry in looks["first_lines"]:
        re.compile(entry["pattern"])


def test_messages_have_no_stray_marks() -> None:
    """No text of a message has a brace or a bar that was meant as a placeholder."""
    for name, template in templates().items():
        literal = "".join(part for part in template if isinstance(part, str))
        assert not re.search(r"\{\w|\w\}|\|", literal), name


def test_every_message_is_used() -> None:
    """Each message is written by the Python package; those that nothing writes are deleted."""
    package = sources.ROOT / "reference/python/toyspec"
    # The messages of `convert` are the records of a W&B file.
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in package.rglob("*.py")
        if {"convert", "generated"}.isdisjoint(path.relative_to(package).parts)
    )
    used = {name.lower() for name in re.findall(r"\bmessages\.(\w+)", code)}
    assert {name.replace("-", "_") for name in templates()} == used


def test_the_expected_name_is_the_one_pattern_of_the_schemas() -> None:
    """The message `expected-name` describes the only pattern; a second pattern needs a message of its own."""
    patterns = {node["pattern"] for profile in sources.PROFILES for node in nodes(bundle(profile)) if "pattern" in node}
    assert {r"^[^/\u0000-\u001f\u007f-\u009f]{1,255}(?![\s\S])"} == patterns


def test_every_reference_is_a_full_urn() -> None:
    """No schema refers to a file or a relative place."""
    references = [node["$ref"] for schema in DOCUMENTS.values() for node in nodes(schema) if "$ref" in node]
    assert [] == [reference for reference in references if not reference.startswith("urn:toyspec:")]


@pytest.mark.parametrize(("profile", "kind"), KINDS)
def test_every_property_says_what_it_means(profile: str, kind: str) -> None:
    """Each property of a kind, and of the objects in it, has a description."""
    definitions = bundle(profile)["$defs"]
    own = definitions[kind]["properties"]
    inner = [definitions[value["$ref"].rpartition("/")[2]] for value in own.values() if "$ref" in value]
    for schema in [definitions[kind], *inner]:
        assert schema["description"].endswith(".")
        for value in schema["properties"].values():
            assert "$ref" in value or value["description"].endswith(".")


@pytest.mark.parametrize("profile", sources.PROFILES)
def test_bundle_is_whole(profile: str) -> None:
    """A bundle refers to nothing outside itself and is valid 2020-12; no pattern ends in ``$``, which admits an LF."""
    document = bundle(profile)
    jsonschema.Draft202012Validator.check_schema(document)
    for node in nodes(document):
        assert node.get("$ref", "#/$defs/").startswith("#/$defs/")
        if isinstance(node.get("pattern"), str):
            assert re.fullmatch(r"\^.*\(\?!\[\\s\\S\]\)", node["pattern"])


def test_stale_file_is_seen(generated: dict[str, str]) -> None:
    """A generated file that differs by one character is stale."""
    path = "reference/python/toyspec/core/generated/limits.py"
    assert [path] == stale({path: generated[path] + "#"})


def test_generated_code_is_marked(generated: dict[str, str]) -> None:
    """Generated Python is marked as generated in its first line."""
    modules = {path: text for path, text in generated.items() if path.endswith(".py")}
    assert {True} == {text.startswith("# Generated by `make generate` from ") for text in modules.values()}


def test_lock_holds_every_revision() -> None:
    """The schemas of each released revision are what they were when it was released."""
    assert json.loads(lock.lock_text())["digests"] == sources.load(sources.SCHEMAS / "lock.json")["digests"]


def test_later_revisions_only_add() -> None:
    """Without what is newer than 1.0, the schemas are those of 1.0; nothing newer is required."""
    assert ["1.0", "1.1"] == lock.revisions("toy/v1")[:2]
    assert [] == [key for profile in sources.PROFILES for key in lock.newer_and_required(profile)]
    assert lock.digest("toy/v1", "1.0") != lock.digest("toy/v1", "1.1")


def test_lock_sees_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A released revision that is changed has another digest; a change of prose has not."""
    before = lock.digest("metrics/v1", "1.0")
    changed = bundle("metrics/v1")
    changed["$defs"]["entry"]["description"] = "Other words."
    monkeypatch.setattr(lock, "bundle", lambda _: changed)
    assert before == lock.digest("metrics/v1", "1.0")
    changed["$defs"]["entry"]["properties"]["step"]["maximum"] = 7
    assert before != lock.digest("metrics/v1", "1.0")


def nodes(value: Any) -> list[dict[str, Any]]:
    """Return every object inside *value*, itself included."""
    if isinstance(value, dict):
        return [value, *(node for item in value.values() for node in nodes(item))]
    return [node for item in value for node in nodes(item)] if isinstance(value, list) else []


def errors_of(settings: str) -> list[str]:
    """Return what the published schema of the settings reports about a text."""
    return [error.message for error in validator("urn:toyspec:meta:settings:v1").iter_errors(tomllib.loads(settings))]


def test_schema_of_the_settings() -> None:
    """An editor that has the schema accepts what toyspec accepts, and marks what it refuses."""
    table = 'files = ["rewards*.jsonl"]\nstep = ["u"]\nsteps = "increase"\n'
    settings = f'roots = ["logs"]\nignore = ["step-goes-backwards"]\n[dialects.reward-log]\n{table}'
    assert [] == errors_of(settings)
    assert [] == errors_of('[[health]]\npreset = "default"\n[[alerts]]\ncommand = ["say"]\n')
    for wrong in ("[[health]]\nkind = 1\n", "roots = 1\n", "root = []\n", "[dialects.a]\nstep = 1\n", "[dialects.a]\n"):
        assert [] != errors_of(wrong), wrong


def test_schema_has_every_setting() -> None:
    """What toyspec knows, the schema knows; parts are for dialects that toyspec ships."""
    schema = json.loads((ROOT / "schemas/meta/settings.json").read_bytes())
    dialect = json.loads((ROOT / "schemas/meta/dialect.json").read_bytes())
    assert set(_KEYS) == schema["properties"].keys()
    own = schema["properties"]["dialects"]["additionalProperties"]["properties"]
    assert dialect["properties"].keys() - {"$schema", "$comment", "parts"} == own.keys()


RUN_ID = sources.documents()["urn:toyspec:shared:v1"]["$defs"]["run_id"]["pattern"]
UNKNOWN = ["^[a-z]+$", "^[^/]{1,255}$", "^[^/]+(?![\\s\\S])", "[^/]{1,2}(?![\\s\\S])", "^[^\\d]{1,2}(?![\\s\\S])", ""]


def test_run_id() -> None:
    """The pattern of a run id excludes the slash and control characters, and bounds the length."""
    assert (((0x2F, 0x2F), (0, 0x1F), (0x7F, 0x9F)), 1, 255) == characters(RUN_ID)


@pytest.mark.parametrize("pattern", UNKNOWN)
@pytest.mark.parametrize(
    "table",
    [c_tables._Tables()._field, go_tables._type, ocaml_tables._value, rust_tables._schema],
    ids=["c", "go", "ocaml", "rust"],
)
def test_unknown_pattern_stops_every_generator(pattern: str, table: Callable[..., str]) -> None:
    """A language never checks less than the schema because its table cannot express the pattern."""
    schema: dict[str, Any] = {"types": ["string"], "pattern": pattern}
    name = ["name"] if table.__qualname__.startswith("_Tables") else []
    with pytest.raises(ValueError, match="no form for the pattern"):
        table(schema, *name)


@pytest.mark.parametrize(
    "schema",
    [
        {"types": ["string"], "pattern": "^[a-z]+$"},
        {"types": ["string"], "format": "uri"},
        {"types": ["string"], "minLength": 1},
        {"types": ["array"], "items": {"types": ["integer"]}, "minItems": 1},
        {"types": ["integer"], "enum": [1, 2]},
        {"types": ["number"], "exclusiveMinimum": 0},
    ],
)
def test_what_the_library_does_not_check_fails(schema: dict[str, Any]) -> None:
    """A form that the library would not check stops the generator."""
    with pytest.raises(ValueError, match=r"OCaml library|form for the pattern"):
        ocaml_tables._value(schema)


def test_constant_number_bounds_the_value() -> None:
    """A constant that is a number is checked as a range."""
    assert ocaml_tables._value({"types": ["integer"], "const": 1}) == "(value ~least:1.0 ~greatest:1.0 Integer)"
