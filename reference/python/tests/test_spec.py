"""The specification agrees with itself: statements, requirements, pages, rules and links."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[3]
SPEC = ROOT / "spec"
HEADINGS = ["## What it checks", "## Why", "## Example", "## What to do"]
KEYWORD = re.compile(r"\b(?:MUST NOT|MUST|SHALL NOT|SHALL|SHOULD NOT|SHOULD|REQUIRED|RECOMMENDED|MAY|OPTIONAL)\b")
_QUOTED = re.compile(r"<!-- generated:statements -->.*?<!-- /generated -->", re.DOTALL)
"""Statements of other pages, which `make generate` writes."""
_STATEMENT = re.compile(r"^\*\*\[([^\]\n]+)\]\*\* (.+?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Statement(msgspec.Struct, frozen=True):
    """One normative sentence of the prose."""

    id: str
    page: str
    text: str
    """The sentence on one line, without its code."""

    @property
    def keywords(self) -> list[str]:
        """Return the keywords of BCP 14 in the sentence."""
        return KEYWORD.findall(self.text)


@cache
def _json(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


@cache
def _text(page: str) -> str:
    return (SPEC / page).read_text(encoding="utf-8")


@cache
def _pages() -> list[str]:
    """Return the pages in the order in which the index names them from its chapters on."""
    index = _text("README.md")
    links = _LINK.findall(index[index.index("## Chapters") :])
    return list(dict.fromkeys(link for link in links if "#" not in link))


@cache
def _statements() -> list[Statement]:
    return [
        Statement(name, page, " ".join(_CODE.sub("", text).split()))
        for page in _pages()
        for name, text in _STATEMENT.findall(_text(page))
    ]


def _requirements() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _json("spec/requirements.json")["requirements"]
    return found


def _rules() -> list[str]:
    return [rule["id"] for rule in _json("schemas/rules.json")["rules"]]


def _kinds() -> list[str]:
    files = sorted((ROOT / "schemas").glob("*/v1/*.json"))
    profiles = {"toy", "metrics", "kaun"}
    return [
        f"{file.parent.parent.name}/v1/{file.stem}"
        for file in files
        if file.parent.parent.name in profiles and file.stem != "stream"
    ]


def _anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", _text(page)), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def test_index_names_every_page() -> None:
    """Every file of the specification is reached from its index, and every page that the index names exists."""
    files = {file.relative_to(SPEC).as_posix() for file in SPEC.rglob("*.md")} - {"README.md"}
    assert files == set(_pages())


def test_requirements_follow_their_schema() -> None:
    """requirements.json has the form that its schema describes, and so each is observable or excluded, never both."""
    schema = _json("schemas/meta/requirements.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    errors = jsonschema.Draft202012Validator(schema).iter_errors(_json("spec/requirements.json"))
    assert [] == [error.message for error in errors]


def test_requirements_are_the_statements() -> None:
    """requirements.json lists exactly the statements of the prose, in their order and with their keyword."""
    prose: list[Any] = [(statement.id, *statement.keywords) for statement in _statements()]
    assert prose == [(requirement["id"], requirement["keyword"]) for requirement in _requirements()]
    assert len(prose) == len(dict(prose)), "an id names two statements"


@pytest.mark.parametrize("statement", _statements(), ids=lambda statement: statement.id)
def test_statement_is_one_sentence(statement: Statement) -> None:
    """A statement is one sentence with one keyword, and its id begins with the name of its page."""
    prefix = statement.page.removesuffix(".md").replace("/v1/", "/")
    home = "rules" if prefix.startswith("rules/") else prefix
    assert home == statement.id.rpartition("/")[0]
    assert len(statement.keywords) == 1
    assert re.search(r"[.!?] +[A-Z]", statement.text) is None
    assert statement.text.endswith(".")


@pytest.mark.parametrize("page", ["README.md", *_pages()])
def test_keywords_are_in_statements_only(page: str) -> None:
    """Outside a statement no keyword of BCP 14 is in capitals, so that nothing binds without an id."""
    own = _CODE.sub("", _FENCED.sub("", _QUOTED.sub("", _text(page))))
    assert [] == KEYWORD.findall(_STATEMENT.sub("", own))


@pytest.mark.parametrize("rule", _rules())
def test_rule_has_its_page(rule: str) -> None:
    """Every rule has a page with the fixed headings, its facts, one statement and a place for its finding."""
    text = _text(f"rules/{rule}.md")
    assert text.startswith(f"# {rule}\n\n<!-- generated:rule -->\n")
    assert HEADINGS == re.findall(r"^## .+$", text, re.MULTILINE)
    assert [f"rules/{rule}"] == [name for name, _ in _STATEMENT.findall(text)]
    example = text[text.index("## Example") : text.index("## What to do")]
    assert re.search(r"[Ll]ine \d+, pointer `", example) is not None


def test_pages_of_rules_and_kinds_are_all() -> None:
    """Each rule, in the order of the registry, and each kind has a page and is required, and there are no others."""
    assert [f"rules/{rule}.md" for rule in _rules()] == [page for page in _pages() if page.startswith("rules/")]
    assert set(_kinds()) == {page.removesuffix(".md") for page in _pages() if "/v1/" in page}
    assert set(_rules()) == {requirement["rule"] for requirement in _requirements() if requirement.get("rule")}


@pytest.mark.parametrize("kind", _kinds())
def test_kind_has_its_page(kind: str) -> None:
    """Every kind that has a schema has a page with an example and a place for the table of its fields."""
    text = _text(f"{kind}.md")
    profile, _, name = kind.rpartition("/")
    assert text.startswith(f"# {name} ({profile})\n")
    assert text.count("<!-- generated:fields -->") == text.count("<!-- /generated -->") == 1
    assert text.count("```json\n") == 1


@pytest.mark.parametrize("page", ["README.md", *_pages()])
def test_links_lead_somewhere(page: str) -> None:
    """Every link between pages names a page that exists and a heading that is on it."""
    for link in _LINK.findall(_FENCED.sub("", _text(page))):
        path, _, anchor = link.partition("#")
        target = (SPEC / page).parent / path if path else SPEC / page
        assert target.is_file(), link
        if anchor:
            assert anchor in _anchors(target.resolve().relative_to(SPEC).as_posix()), link


@pytest.mark.parametrize("profile", ["toy", "metrics", "kaun"])
def test_stream_chapter_names_the_rules(profile: str) -> None:
    """The chapter about streams lists for each profile the rules of its stream.json, in their order."""
    expected: list[str] = []
    for entry in _json(f"schemas/{profile}/v1/stream.json")["rules"]:
        expected += [entry["rule"], *([entry["skipped"]["rule"]] if "skipped" in entry else [])]
    row = re.search(rf"^\| {profile}/v1 \| (.+) \|$", _text("stream.md"), re.MULTILINE)
    assert row is not None
    assert expected == re.findall(r"\[([a-z-]+)\]", row[1])


def test_stream_chapter_explains_the_vocabulary() -> None:
    """The chapter about streams explains every type of rule that stream.json may use, and no other."""
    definitions = _json("schemas/meta/stream.json")["$defs"]
    types = [
        definition["properties"]["type"]["const"] for definition in definitions.values() if "properties" in definition
    ]
    section = _text("stream.md").partition("## The vocabulary of stream.json")[2].partition("\n## ")[0]
    assert types == re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)


def test_numbers_in_the_prose_are_the_limits() -> None:
    """The limits that the prose states are those of limits.json."""
    limits = _json("schemas/limits.json")
    assert f"| line | {limits['max_line_bytes']} bytes |" in _text("encoding.md")
    assert f"| depth | {limits['max_depth']} |" in _text("encoding.md")
    assert f"to {limits['max_safe_integer']} exactly" in _text("encoding.md")
    assert f"up to {limits['max_open_regions']} open regions" in _text("checking.md")
    assert f"the first {limits['max_findings_per_rule']} findings" in _text("checking.md")
    assert f"has 1 to {limits['max_safe_run_id_chars']} ASCII letters" in _text("bundle.md")


def test_keywords_of_schemas_have_a_rule() -> None:
    """The table of schema keywords in the chapter about checking covers every keyword by which schemas refuse."""
    table = _text("checking.md").partition("| keyword of the schema | rule |")[2].partition("\n\n")[0]
    listed = set(re.findall(r"`([A-Za-z]+)`", table))
    assert _refusing_keywords() <= listed


def _refusing_keywords() -> set[str]:
    containers = {"$defs", "$ref", "properties", "items", "additionalProperties"}
    annotations = {"$schema", "$id", "title", "description"}
    found: set[str] = set()
    schemas = [_json(f"schemas/{kind}.json") for kind in _kinds()] + [_json("schemas/shared/v1/definitions.json")]
    while schemas:
        schema = schemas.pop()
        found |= {key for key in schema if key not in annotations | containers and not key.startswith("x-")}
        for key in ("properties", "$defs"):
            schemas += schema.get(key, {}).values()
        schemas += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return found
