"""Every fault of the catalogue has its test, or a reason why it has none."""

from __future__ import annotations

import errno
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from faults import paging
from faults.checking import Verdict, fail_every_call, share

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


PAGE = "a\n<!-- x -->\nold\n\nold\n<!-- /x -->\nb <!-- y -->\n<!-- /y -->\n"


def test_figures_replace_those_of_the_run_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published twice, only the second figures are there; back references in them are text."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(paging, "PAGE", str(page))
    paging.publish("x", ["first"])
    paging.publish("x", [r"\1", "second"])
    assert "a\n<!-- x -->\n\n\\1\nsecond\n\n<!-- /x -->\nb <!-- y -->\n<!-- /y -->\n" == page.read_text()


@pytest.mark.parametrize("mark", ["z", "y"])
def test_a_page_without_the_marks_is_an_error(mark: str) -> None:
    """Figures that have no place, or whose mark does not stand alone on its line, are not dropped without a word."""
    text = PAGE if mark == "z" else PAGE.replace("<!-- /y -->", "")
    with pytest.raises(ValueError, match="has to be there once"):
        paging.replaced(text, mark, ["x"])


CLEAN = (0, 0, 0, 0)


def wrongs(verdict: Verdict) -> tuple[int, int, int, int]:
    """Return all that a writer did wrong."""
    return (verdict.lost, verdict.invented, verdict.damaged, verdict.believed)


@pytest.mark.parametrize("writer", ["library", "library-synced"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("lasting", ["once", "for-ever"])
@pytest.mark.parametrize("effect", ["error", "short-write"])
def test_e14_e01_e02_e03_e05_e06_no_failing_call_deceives_the_library(
    writer: str, error: int, lasting: str, effect: str, tmp_path: Path
) -> None:
    """Whichever call fails, in whatever way: nothing acknowledged is lost, no line is unreadable."""
    verdict = fail_every_call(writer, tmp_path, error=error, lasting=lasting, effect=effect)  # type: ignore[arg-type]
    assert verdict.faults > 8
    assert CLEAN == wrongs(verdict)


def test_c01_c02_c11_the_second_of_two_writers_is_refused(tmp_path: Path) -> None:
    """Nothing is lost between two processes: one of them writes, the other one gets an error."""
    assert CLEAN == wrongs(share("library", tmp_path, count_each=6000))
