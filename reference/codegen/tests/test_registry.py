"""The registry of names, and the papers of the project, are what the tools read."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

from codegen.project import values
from codegen.sources import ROOT

_ROW = re.compile(r"^\| `([^`]+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|", re.MULTILINE)


def test_names_of_the_registry() -> None:
    """Each name is entered once, in parts that every profile can have, with a state and a goal that is known."""
    rows = _ROW.findall((ROOT / "docs/reference/registry.md").read_text(encoding="utf-8"))
    names = [name for name, *_ in rows]
    assert len(set(names)) == len(names) > 0
    assert all(re.fullmatch(r"[a-z]+(/[a-z_]+)+", name) for name in names)
    assert {"adopted", "experimental", "withdrawn"} >= {state for _, state, *_ in rows}
    assert {"lower", "higher", "-"} >= {goal.strip() for *_, goal in rows}


def test_citation_names_this_version() -> None:
    """What is cited is this project, at this version."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    known = values(ROOT)
    assert (known["version"], known["repository"]) == (cited["version"], cited["repository-code"])
    assert {"cff-version", "message", "title", "authors", "license"} <= cited.keys()


def test_release_check_names_what_is_missing(tmp_path: Path) -> None:
    """A tree with reserved addresses, an open changelog and an action at a tag is not released; a complete one is."""
    check = runpy.run_path(str(ROOT / ".ci/release_check.py"))["missing"]
    for name in ("project.json", "CHANGELOG.md", "CITATION.cff", "GOVERNANCE.md", "LICENSE", "SECURITY.md"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    version = tmp_path / "reference/python/toyspec/version.py"
    version.parent.mkdir(parents=True)
    version.write_text('__version__ = "1.2.3"\n', encoding="utf-8")
    workflow = tmp_path / ".github/workflows/a.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("      - uses: actions/checkout@v5\n", encoding="utf-8")
    found = "\n".join(check(tmp_path))
    for fact in ("repository is", "site is", "no entry for 1.2.3", "not pinned by hash: actions/checkout@v5"):
        assert fact in found
    project = {**json.loads((ROOT / "project.json").read_bytes()), "repository": "https://host.dev/a/b"}
    (tmp_path / "project.json").write_text(json.dumps({**project, "site": "https://b.dev/"}), encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("## [1.2.3] - 2026-11-24\n", encoding="utf-8")
    workflow.write_text(f"      - uses: actions/checkout@{'0' * 40} # v5\n", encoding="utf-8")
    assert [] == list(check(tmp_path))


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*-*.yml")), ids=lambda path: path.stem)
def test_template_of_an_issue(path: Path) -> None:
    """Each template has a name, a description and questions of a type that is known."""
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"]
    assert form["description"]
    assert {"textarea", "input", "dropdown", "checkboxes", "markdown"} >= {part["type"] for part in form["body"]}
