"""Generated files say that they are generated, to people and to git."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from codegen import sources
from codegen.__main__ import pages
from codegen.project import project_files

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


def test_first_lines_name_the_command(made: dict[str, str]) -> None:
    """Line 1 says with what to make the file again, on a page the line after the heading, which is its title.

    JSON has no place for that.
    """
    marks = {path: _mark(path, text) for path, text in made.items() if not path.endswith(".json")}
    assert [] == [path for path, mark in marks.items() if "make generate" not in mark]


def _mark(path: str, text: str) -> str:
    """Return the line of a generated file that has to name the command."""
    if not path.endswith(".md"):
        return text.splitlines()[0]
    without_front_matter = text.removeprefix("---\n").partition("---\n")[2] if text.startswith("---\n") else text
    return without_front_matter.splitlines()[2]


@pytest.mark.skipif(not (sources.ROOT / ".git").exists() or shutil.which("git") is None, reason="there is no git tree")
def test_git_knows(made: dict[str, str]) -> None:
    """Reviews fold what is generated: .gitattributes names every such file."""
    command = ["git", "check-attr", "linguist-generated", "--stdin"]
    listed = subprocess.run(
        command, cwd=sources.ROOT, input="\n".join(made), capture_output=True, text=True, check=True
    ).stdout
    assert [] == [line for line in listed.splitlines() if not line.endswith(": true")]
