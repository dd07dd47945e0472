"""The guide to a new kind, in CONTRIBUTING.md and on a page of the site: its example is done in a copy of the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codegen import sources
from codegen.diagrams import readings
from codegen.project import project_files

# They generate everything a second time.
pytestmark = pytest.mark.slow

PARTS = (
    "conformance",
    "docs",
    "mkdocs.yml",
    "project.json",
    *project_files(sources.ROOT),
    "reference/c/toyspec.c",
    "reference/codegen",
    "reference/python/tests/dialects",
    "reference/python/toyspec",
    "schemas",
    "spec",
    *(f"conformance/cases/{case}" for case in sorted({*readings._STATES, *readings._MODES})),
    *(path.relative_to(sources.ROOT).as_posix() for path in sources.ROOT.glob("reference/*/README.md")),
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "cases", "sessions", "requirements")
CASE = "conformance/cases/toy-v1/missing-key/snapshot-without-step"


def guide() -> str:
    """Return the part of CONTRIBUTING.md that the site shows."""
    text = (sources.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(r"\[start:add-a-kind\] -->\n(.*?)<!-- --8<-- \[end:add-a-kind\]", text, re.DOTALL)
    assert found
    return re.sub(r"^ {4}", "", found[1], flags=re.MULTILINE)


def files_of_the_guide() -> dict[str, str]:
    """Return the text of each file that the guide writes, by path from the root."""
    text = guide()
    schema = re.search(r"```json\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    page = re.search(r"````markdown\n(.*?)^````$", text, re.DOTALL | re.MULTILINE)
    assert schema
    assert page
    console = text.partition("```console\n")[2].partition("\n```")[0]
    shown = dict(re.findall(r"^\$ cat (\S+)\n(.*?)(?=^\$ )", console, re.DOTALL | re.MULTILINE))
    return {"schemas/toy/v1/snapshot.json": schema[1], "spec/toy/v1/snapshot.md": page[1], **shown}


def run(tree: Path, *arguments: str, folder: str = ".") -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of *tree*."""
    packages = os.pathsep.join(str(tree / part) for part in ("reference/python", "reference", "."))
    # An engine that is installed was compiled from the schemas of this tree, not of the copy.
    fixed = {"PYTHONPATH": packages, "PYTHONUTF8": "1", "NO_COLOR": "1", "TOYSPEC_ENGINE": "python"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree / folder,
        env=os.environ | fixed,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree in which the guide has been followed."""
    root = tmp_path_factory.mktemp("tree")
    for name in PARTS:
        source = sources.ROOT / name
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=LEFT_OUT, dirs_exist_ok=True)
        else:
            shutil.copy(source, root / name)
    for name, text in files_of_the_guide().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    index = root / "spec/README.md"
    line = "| toy/v1 | [`snapshot`](toy/v1/snapshot.md) | the weights were saved; since 1.2 |\n"
    text = index.read_text(encoding="utf-8").replace("| metrics/v1 | [`entry`]", f"{line}| metrics/v1 | [`entry`]")
    index.write_bytes(text.encode())
    made = run(root, "-m", "codegen", "--lock", folder="reference")
    assert made.returncode == 0, made.stderr
    return root


def test_everything_else_follows(tree: Path) -> None:
    """After `make generate` nothing is stale, and types, tables and pages know the kind."""
    checked = run(tree, "-m", "codegen", "--check", folder="reference")
    assert ("", 0) == (checked.stdout, checked.returncode)
    assert "class Snapshot(" in (tree / "reference/python/toyspec/core/generated/toy_v1.py").read_text(encoding="utf-8")
    assert "| `size_bytes` | integer" in (tree / "spec/toy/v1/snapshot.md").read_text(encoding="utf-8")
    assert "spec/toy/v1/snapshot.md" in (tree / "mkdocs.yml").read_text(encoding="utf-8")
    assert (
        "snapshot"
        in json.loads((tree / "schemas/bundled/tables.json").read_text(encoding="utf-8"))["profiles"]["toy/v1"]["kinds"]
    )
    assert "1.2" in json.loads((tree / "schemas/lock.json").read_text(encoding="utf-8"))["digests"]["toy/v1"]


def test_cases_of_its_keys_are_made(tree: Path) -> None:
    """The program that makes the cases of fields makes those of the kind, and none of the others differs."""
    made = run(tree, "-m", "conformance.authoring.fields")
    assert made.returncode == 0, made.stderr
    of_kind = {path.name for path in (tree / "conformance/cases/toy-v1/fields").glob("snapshot-*")}
    assert {"snapshot-size-bytes-accepted", "snapshot-size-bytes-refused"} <= of_kind
    others = list(sources.ROOT.glob("conformance/cases/toy-v1/fields/*/events.jsonl"))
    assert [] == [p for p in others if p.read_bytes() != (tree / p.relative_to(sources.ROOT)).read_bytes()]


def test_case_is_filled_and_checked(tree: Path) -> None:
    """The case gets its records from its bytes, and the checker finds what it expects, and no unknown kind."""
    filled = run(tree, "-m", "conformance.authoring.fill", CASE)
    assert filled.returncode == 0, filled.stderr
    case = json.loads((tree / CASE / "case.json").read_text(encoding="utf-8"))
    assert ["run_start", "snapshot", "run_end"] == [record["kind"] for record in case["records"]]
    checked = run(tree, "-m", "toyspec", "check", "--format", "json", CASE)
    found = json.loads(checked.stdout)["files"][0]["findings"]
    assert case["findings"] == [{key: finding[key] for key in ("rule", "line", "pointer")} for finding in found]
