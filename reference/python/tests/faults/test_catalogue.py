"""Every fault of the catalogue has its test, or a reason why it has none."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

FAULTS = Path(__file__).parent
TESTS = FAULTS.parent
CASES = Path(__file__).resolve().parents[4] / "conformance/cases"
CATALOGUE: dict[str, dict[str, Any]] = json.loads((FAULTS / "faults.json").read_text(encoding="utf-8"))


@functools.cache
def functions(folder: Path) -> dict[str, str]:
    """Return the text of each file of tests below *folder*, by its path from there."""
    paths = folder.rglob("test_*.py")
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def ids(text: str) -> set[str]:
    """Return the ids that names of tests, and names of hostile streams, have in *text*."""
    named = re.findall(r"^def (test_\w+)", text, re.MULTILINE)
    found = {match.upper() for name in named for match in re.findall(r"(?<=_)([pedcrnsh][0-9]{2})(?=_)", name)}
    return found | set(re.findall(r'^    "([A-Z][0-9]{2}) ', text, re.MULTILINE))


TESTED_HERE = set().union(*map(ids, [*functions(FAULTS).values(), (FAULTS / "hostile.py").read_text(encoding="utf-8")]))


@pytest.mark.parametrize("fault", CATALOGUE)
def test_every_fault_has_a_test_or_a_reason(fault: str) -> None:
    """A fault is injected by a test that is named after it or listed for it; else the reason is written down."""
    entry = CATALOGUE[fault]
    others = functions(TESTS)
    for listed in entry.get("tests", []):
        file, _, name = listed.partition("::")
        assert f"def {name}(" in others[file], listed
    for case in entry.get("cases", []):
        assert list((CASES / case).rglob("case.json")) or list((CASES / case).rglob("family.json")), case
    is_tested = fault in TESTED_HERE or bool(entry.get("tests")) or bool(entry.get("cases"))
    assert is_tested != bool(entry.get("untested"))


def test_every_test_here_is_of_a_fault_in_the_catalogue() -> None:
    """Every fault that a test names is described."""
    assert set() == TESTED_HERE - CATALOGUE.keys()
