"""Prints the table of ``make faults``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faults.tally import COUNTS, IS_LONG

CATALOGUE = Path(__file__).parent / "faults.json"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was done, what this system forbade, and what no test here can do."""
    if not IS_LONG:
        return
    write = terminalreporter.write_line
    write("")
    for what, number in COUNTS.items():
        write(f"{what:24}{number:>12,}")
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            write(f"not run here: {report.nodeid.rpartition('::')[2]}: {report.longrepr[2].removeprefix('Skipped: ')}")
    for name, entry in json.loads(CATALOGUE.read_text(encoding="utf-8")).items():
        if "untested" in entry:
            write(f"untested: {name} {entry['fault']}: {entry['untested']}")
