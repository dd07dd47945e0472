"""The page on installing names each extra that a user can ask for, with its packages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
