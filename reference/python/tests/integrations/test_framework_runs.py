"""The runs that the site offers were written by the real frameworks, and are what a user would get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import toyspec_within as toyspec

ROOT = Path(__file__).resolve().parents[4]
RUNS = ROOT / "docs" / "assets" / "framework-runs"
PAGE = ROOT / "docs" / "how-to" / "log-from-frameworks.md"
PROGRAMS = sorted(path.stem for path in (ROOT / "reference/python/interop/frameworks").glob("*.py"))


def test_every_run_is_complete_and_without_a_finding() -> None:
    """What a strict check of a user demands holds for all of them."""
    done = toyspec("check", "--require-complete", "--fail-on", "warning", str(RUNS))
    assert 0 == done.returncode, done.stdout.decode()


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_framework_has_a_run_on_the_page(program: str) -> None:
    """Each program of the page has its run, of a few kilobytes, and the page links to it."""
    streams = sorted((RUNS / program).glob("*/events.jsonl"))
    assert streams
    assert sum(stream.stat().st_size for stream in streams) < 40_000
    linked = re.findall(r"\(\.\./assets/framework-runs/([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert streams[0].relative_to(RUNS).as_posix() in linked


def test_runs_have_no_path_of_a_machine() -> None:
    """Nothing of the machine that made them is in a published run but its kind."""
    for stream in RUNS.rglob("events.jsonl"):
        assert not re.findall(r'"/(?:work|tmp|home|root)[^"]*"', stream.read_text(encoding="utf-8"))
