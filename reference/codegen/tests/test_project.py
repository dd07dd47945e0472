"""Tests of the addresses of the project: one file names them, and everything else follows it."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codegen import sources
from codegen.__main__ import pages
from codegen.project import project_files, values
from codegen.site.downloads import addressed_schemas
from codegen.sources import ROOT

if TYPE_CHECKING:
    from pathlib import Path

OTHER: dict[str, Any] = {
    "released": False,
    "repository": "https://code.other.test/lab/logs",
    "site": "https://logs.other.test/",
    "packages": {
        "python": "py-logs",
        "engine": "py-logs-engine",
        "corpus": "py-logs-conformance",
        "crate": "logs-crate",
        "npm": "npm-logs",
        "gem": "logs-gem",
    },
}

BY_HAND = {"project.json", "reference/codegen/tests/test_project.py"}


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """Return a copy of the files that name an address, beside a project that has moved."""
    for name in [*project_files(sources.ROOT), "reference/python/toyspec/version.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(sources.ROOT / name, tmp_path / name)
    (tmp_path / "project.json").write_text(json.dumps(OTHER))
    return tmp_path


def test_released_package_is_installed_by_its_name(moved: Path) -> None:
    """One switch says whether pages install the package from a clone, which has runs to show, or from the index."""
    runs = "docs/assets/example-runs"
    assert list((sources.ROOT / runs).glob("*/events.jsonl"))
    for is_released, installed, shown in ((False, ".", runs), (True, "py-logs", "runs/")):
        (moved / "project.json").write_text(json.dumps(OTHER | {"released": is_released}))
        made = project_files(moved)
        for page in ("docs/index.md", "docs/viewer.md"):
            assert f"$ python -m pip install {installed} && toyspec view --open {shown}\n" in made[page]
            assert is_released == ("\nIn any terminal:\n" in made[page])


def test_other_address_changes_every_file(moved: Path) -> None:
    """With another project no file names an address of the first one, and each names one of the other."""
    old = [values(sources.ROOT)[name].partition("://")[2] for name in ("repository", "site")]
    made = project_files(moved)
    assert "module code.other.test/lab/logs/reference/go\n" in made["reference/go/go.mod"]
    assert 'fast = ["py-logs-engine==' in made["pyproject.toml"]
    assert '"py-logs[remote]"' in made["pyproject.toml"]
    assert 'import { Writer } from "npm-logs/node";' in made["reference/typescript/README.md"]
    for name, text in made.items():
        assert not [address for address in old if address.rstrip("/") in text], name
        if name not in {"reference/ruby/lib/toyspec.rb", "reference/c/Makefile", "docs/index.md", "docs/viewer.md"}:
            assert any(word in text for word in ("other.test", "lab/logs", *OTHER["packages"].values())), name


def test_no_other_file_names_an_address() -> None:
    """An address that is typed again would stay behind when the project moves."""
    known = values(sources.ROOT)
    hosts = [known[name].partition("://")[2].partition("/")[0] for name in ("repository", "site")]
    found = subprocess.run(
        ["git", "grep", "-lI", *(word for host in hosts for word in ("-e", host)), "--", ":!conformance/cases"],
        cwd=sources.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode > 1:
        assert "CI" not in os.environ, found.stderr
        pytest.skip("not a git tree")
    assert set() == set(found.stdout.split()) - set(project_files(sources.ROOT)) - BY_HAND


def test_published_schema_has_its_address_as_id() -> None:
    """A schema by address refers to nothing but addresses that are published too."""
    site = "https://logs.other.test/1.0.0/"
    made = {site + name.removeprefix("docs/"): json.loads(data) for name, data in addressed_schemas(site).items()}
    assert site + "schemas/toy/v1/step.schema.json" in made
    for address, schema in made.items():
        assert address == schema["$id"]
        assert {reference.partition("#")[0] for reference in references(schema)} <= {*made, ""}, address


def references(node: Any) -> list[str]:
    """Return every ``$ref`` in *node*."""
    if isinstance(node, list):
        return [found for item in node for found in references(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for value in node.values() for found in references(value)]


# Made in part only, between marks of their own.
IN_PART = (
    "docs/parts/compared.md",
    "docs/reference/formats.md",
    "mkdocs.yml",
    "reference/c/",
    "spec/",
    *project_files(sources.ROOT),
)


@pytest.fixture(scope="module")
def made(generated: dict[str, str]) -> dict[str, str]:
    """Return every file that is generated as a whole."""
    return {path: text for path, text in (generated | pages()).items() if not path.startswith(IN_PART)}


@pytest.mark.skipif(not (sources.ROOT / ".git").exists() or shutil.which("git") is None, reason="there is no git tree")
def test_git_knows(made: dict[str, str]) -> None:
    """Reviews fold what is generated: .gitattributes names every such file."""
    command = ["git", "check-attr", "linguist-generated", "--stdin"]
    listed = subprocess.run(
        command, cwd=sources.ROOT, input="\n".join(made), capture_output=True, text=True, check=True
    ).stdout
    assert [] == [line for line in listed.splitlines() if not line.endswith(": true")]


_ROW = re.compile(r"^\| `([^`]+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|", re.MULTILINE)


def test_names_of_the_registry() -> None:
    """Each name is entered once, in parts that every profile can have, with a state and a goal that is known."""
    rows = _ROW.findall((ROOT / "docs/reference/registry.md").read_text(encoding="utf-8"))
    names = [name for name, *_ in rows]
    assert len(set(names)) == len(names) > 0
    assert all(re.fullmatch(r"[a-z]+(/[a-z_]+)+", name) for name in names)
    assert {"adopted", "experimental", "withdrawn"} >= {state for _, state, *_ in rows}
    assert {"lower", "higher", "-"} >= {goal.strip() for *_, goal in rows}


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
