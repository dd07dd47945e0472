"""Tests of the addresses of the project: one file names them, and everything else follows it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from codegen import sources
from codegen.project import project_files, values
from codegen.site.downloads import addressed_schemas

if TYPE_CHECKING:
    from pathlib import Path

OTHER: dict[str, Any] = {
    "released": False,
    "repository": "https://code.other.test/lab/logs",
    "site": "https://logs.other.test/",
    "packages": {
        "python": "py-logs",
        "engine": "py-logs-engine",
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


def test_files_have_the_addresses_of_the_project() -> None:
    """What is committed is what `make generate` writes."""
    for name, text in project_files(sources.ROOT).items():
        assert text == (sources.ROOT / name).read_text(encoding="utf-8"), name


def test_released_package_is_installed_by_its_name(moved: Path) -> None:
    """One switch says whether pages install the package from the repository or from the index."""
    assert "$ python -m pip install git+https://code.other.test/lab/logs && " in project_files(moved)["docs/index.md"]
    (moved / "project.json").write_text(json.dumps(OTHER | {"released": True}))
    made = project_files(moved)
    for page in ("docs/index.md", "docs/viewer.md"):
        assert "$ python -m pip install py-logs && " in made[page]


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
        if name not in {"reference/ruby/lib/toyspec.rb", "reference/c/Makefile"}:
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
