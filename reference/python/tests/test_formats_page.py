"""The page on formats of other tools has a section for each, and says which can be imported and exported."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from toyspec.convert.destinations.destination import TOOLS
from toyspec.convert.finding import FORMATS, importer

_PAGE = Path(__file__).resolve().parents[3] / "docs/reference/formats.md"


@pytest.mark.parametrize("name", list(FORMATS))
def test_format_has_a_row_and_a_section(name: str, tmp_path: Path) -> None:
    """The row has what an import and an export need; a folder without any of its files is of no format."""
    page = _PAGE.read_text(encoding="utf-8")
    known = FORMATS[name]
    assert f"## {known.title} {{#{name}}}\n\n`{name}`: " in page
    _, imports, exports, _ = page.partition(f"| [{known.title}](#{name}) | ")[2].partition("\n")[0].split(" | ")
    assert imports == _support(known.needs)
    assert exports == (_support(TOOLS[name].extra) if name in TOOLS else "no")
    assert [] == list(importer(name).find_runs(str(tmp_path)))


def _support(extra: str | None) -> str:
    return f"with `toyspec[{extra}]`" if extra else "yes"


_ROOT = Path(__file__).resolve().parents[3]
_FOR_DEVELOPERS = {"dev", "docs", "generate", "lint", "test", "test-all"}


def test_the_table_of_extras_is_that_of_the_package() -> None:
    """Names and packages are those of pyproject.toml; the packages of another extra are in its own row."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = {
        extra: {re.split(r"[^\w-]", each)[0] for each in requirements if not each.startswith("toyspec[")}
        for extra, requirements in project["optional-dependencies"].items()
        if extra not in _FOR_DEVELOPERS
    }
    assert _extras_of_the_page() == expected


def _extras_of_the_page() -> dict[str, set[str]]:
    page = (_ROOT / "docs/install.md").read_text(encoding="utf-8")
    table = page.partition("## Extras")[2].partition("##")[0]
    found: dict[str, set[str]] = {}
    for line in table.splitlines()[4:]:
        if line.startswith("| `"):
            names, _, packages = line.strip("|").split("|")
            extras = re.findall(r"`([\w-]+)`", names)
            shares = packages.split("·") if len(extras) > 1 else [packages]
            found |= {
                extra: {name.strip() for name in share.split(",")} for extra, share in zip(extras, shares, strict=True)
            }
    return found
