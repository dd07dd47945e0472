"""Tests of the pages that bring the specification into the site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.docs_stubs import navigation, stubs

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURATION = (
    "site_name: x\nnav:\n  - Start: index.md\n  # generated:nav\n  - old.md\n  # /generated:nav\n"
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
  # generated:nav
  - Specification:
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
