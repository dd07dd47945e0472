"""Tests of the reference pages that are made from the package."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

import toyspec
from codegen import sources
from codegen.api_page import api_page
from codegen.cli_page import _escaped, cli_pages
from codegen.docs_stubs import navigation, stubs
from codegen.reference_pages import reference_pages, rules_page
from codegen.report_page import report_page
from codegen.rule_texts import sections
from toyspec.core.command_line.commands import COMMANDS, command_parser

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def cli() -> str:
    """Return the pages of the command line."""
    return "\n".join(text for name, text in cli_pages().items() if not name.endswith("json-report.md"))


@pytest.fixture(scope="module")
def python() -> str:
    """Return the page of the library."""
    return api_page()


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_its_section_with_all_options(name: str, cli: str) -> None:
    """Every command has a section that explains each of its options."""
    section = cli.partition(f"\n## toyspec {name}\n")[2].partition("\n## ")[0]
    options = re.findall(r"^  (-[^ ,]+)", command_parser(name).format_help(), re.MULTILINE)
    rows = re.findall(r"^\| `(-[^ ,`]+)[^|]*` \| .+ \|$", section.replace("\\|", ""), re.MULTILINE)
    assert set(options) - {"-h"} == set(rows)


def test_library_page_has_every_public_name(python: str) -> None:
    """What can be imported is what the page lists, each with a sentence."""
    listed = re.findall(r"^### (\w+)\n\n```py\n.+?\n```\n\n(?=\w)", python, re.MULTILINE | re.DOTALL)
    assert {name for name in toyspec.__all__ if not name.startswith("_")} == set(listed)


def test_tables_are_tables(cli: str, python: str) -> None:
    """Every row has two cells: what looks like a further bar is escaped."""
    rows = [line for line in (cli + python).splitlines() if line.startswith("| ")]
    assert [] == [row for row in rows if row.replace("\\|", "").count("|") != 3]


def test_markup_is_escaped_outside_of_code() -> None:
    """Stars and underscores are shown literally, and code is unchanged."""
    assert r"run\_end, `run_end`, &lt;x>, a \| b" == _escaped("run_end, `run_end`, <x>, a | b")


def test_report_page_shows_a_report_that_its_schema_takes() -> None:
    """The example is a report by the schema, and a table explains each of its keys."""
    page = report_page()
    shown = json.loads(page.partition("```json\n")[2].partition("```")[0])
    schema = sources.load(sources.SCHEMAS / "report/v1/report.json")
    jsonschema.Draft202012Validator(schema).validate(shown)
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (.*) \|$", page, re.MULTILINE))
    keys = {*shown, *shown["files"][0], *shown["files"][0]["findings"][0], *shown["summary"], "sidecar"}
    assert keys <= rows.keys()
    assert [] == [key for key, meaning in rows.items() if not meaning]


def test_rules_and_kinds_are_all_listed() -> None:
    """Each rule and each kind has one row, which leads to its page and its data."""
    pages = reference_pages() | rules_page()
    rules = re.findall(r"^\| \[([\w-]+)\]\(\1\.md\)", pages["docs/spec/rules/index.md"], re.MULTILINE)
    assert [rule["id"] for rule in sources.rules()] == rules
    kinds = re.findall(
        r"^\| \[`(\w+)`\]\(\.\./spec/([^)]+)/\1\.md\)<br>", pages["docs/reference/schemas.md"], re.MULTILINE
    )
    assert [(kind, profile) for profile in sources.PROFILES for kind in sources.kinds(profile)] == kinds


@pytest.mark.parametrize("field", ["loses", "recognize"])
def test_dialect_without_a_field_is_named(tmp_path: Path, field: str) -> None:
    """A dialect that lacks what the generators need is reported with its file, its field and what belongs there."""
    document = sources.load(sources.SCHEMAS / "dialects/allennlp.json")
    del document[field]
    (tmp_path / "allennlp.json").write_text(json.dumps(document), encoding="utf-8")
    meaning = sources.load(sources.SCHEMAS / "meta/dialect.json")["properties"][field]["description"]
    with pytest.raises(sources.FactMissingError) as raised:
        sources.dialects(tmp_path)
    for part in ("schemas/dialects/allennlp.json", repr(field), meaning, "Add it"):
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("text of\na paragraph\n", ["text of a paragraph"]),
        ("<!-- generated:rule -->\nfact\n<!-- /generated -->\n", ["fact"]),
        ("see [this](a.md#b) **now**", ["see this now"]),
        ("**[a/b]** A reader MUST wait.", ["A reader MUST wait."]),
        ("```jsonl\n{}\n\n# no title\n```\nafter", ["    {}", "", "    # no title", "", "after"]),
        ("| a | b |\n|---|---|\n| ccc | d |\n", ["a    b", "ccc  d"]),
        (f"| a | b |\n|---|---|\n| {'c' * 80} | d |\n", [f"a: {'c' * 80}", "b: d"]),
        ("- one\n  more\n- two\n1. three\n", ["- one more", "", "- two", "", "1. three"]),
    ],
    ids=["paragraph", "comment", "marks", "requirement", "code", "table", "wide table", "list"],
)
def test_markdown(page: str, lines: list[str]) -> None:
    """Each construct of a page becomes plain text."""
    assert {"rule": [], "Why": lines} == sections(f"# rule\n\n## Why\n\n{page}")


CONFIGURATION = (
    "site_name: x\nnav:\n  - Start: index.md\n  - Specification:\n"
    "      # generated:nav\n      - old.md\n      # /generated:nav\n"
    "  - Last:\n      - conformance/PROTOCOL.md\n"
    "      # generated:implementations\n      # /generated:implementations\n"
)

INDEX = "# Spec\n\nsee [First](first.md)\n\n## Chapters\n\n[Second](second.md#a), [First](first.md), [x](../x.md)\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a source tree with a small specification."""
    (tmp_path / "mkdocs.yml").write_text(CONFIGURATION, encoding="utf-8")
    pages = {
        "README.md": INDEX,
        "appendix.md": "",
        "first.md": "",
        "second.md": "**[second/a-b]** A writer MUST.\n\n`**[second/c]** no`\n\n**[second/d]** A reader MAY.\n",
        "toy/v1/step.md": "",
        "toy/v1/run_start.md": "",
        "rules/invalid-json.md": "",
    }
    for name, text in pages.items():
        page = tmp_path / "spec" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    for name in ("conformance/PROTOCOL.md", "conformance/README.md", "reference/go/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    return tmp_path


def test_navigation_follows_the_index_and_the_schemas(tree: Path) -> None:
    """Chapters follow the index, kinds the order in which a run writes them; pages placed by hand occur once."""
    expected = """\
site_name: x
nav:
  - Start: index.md
  - Specification:
      # generated:nav
      - spec/README.md
      - spec/second.md
      - spec/first.md
      - spec/appendix.md
      - toy/v1:
          - spec/toy/v1/run_start.md
          - spec/toy/v1/step.md
      - Rules:
          - spec/rules/index.md
          - JSON:
              - spec/rules/invalid-json.md
      # /generated:nav
  - Last:
      - conformance/PROTOCOL.md
      # generated:implementations
      - Corpus:
          - conformance/README.md
      - Implementations:
          - implementations/go.md
      # /generated:implementations
"""
    assert expected == navigation(tree)["mkdocs.yml"]


def test_every_page_has_a_stub_at_the_same_place(tree: Path) -> None:
    """Stubs mirror spec/, so that a relative link holds in both places."""
    pages = {path.relative_to(tree / "spec").as_posix() for path in (tree / "spec").rglob("*.md")}
    made = stubs(tree)
    assert {f"docs/spec/{page}" for page in pages} == {page for page in made if page.startswith("docs/spec/")}
    assert made["docs/implementations/go.md"].startswith('--8<-- "reference/go/README.md"\n')
    assert '--8<-- "spec/toy/v1/step.md"\n' in made["docs/spec/toy/v1/step.md"]


def test_statements_lead_to_their_requirements(tree: Path) -> None:
    """An id in brackets is a link on the site: the stub says where it leads, as seen from the page."""
    made = stubs(tree)
    assert made["docs/spec/second.md"].endswith(
        "spec/second.md. -->\n\n[second/a-b]: ../requirements/second.md#second-a-b\n"
        "[second/d]: ../requirements/second.md#second-d\n"
    )
    assert "]: " not in made["docs/spec/first.md"]
