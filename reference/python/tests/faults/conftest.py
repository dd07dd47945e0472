"""Prints the table of ``nox -s faults``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faults.paging import block, publish, system
from faults.tally import COUNTS, IS_LONG, ROWS

CATALOGUE = Path(__file__).parent / "faults.json"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was done, what this system forbade, and what no test here can do."""
    if not IS_LONG:
        return
    lines = [f"{what:24}{number:>12,}" for what, number in COUNTS.items()]
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            test = report.nodeid.rpartition("::")[2]
            lines.append(f"not run here: {test}: {report.longrepr[2].removeprefix('Skipped: ')}")
    for name, entry in json.loads(CATALOGUE.read_text(encoding="utf-8")).items():
        if "untested" in entry:
            lines.append(f"untested: {name} {entry['fault']}: {entry['untested']}")
    lines.append(f"tests failed            {len(terminalreporter.stats.get('failed', [])):>12,}")
    for line in ("", *lines):
        terminalreporter.write_line(line)
    publish("faults", [f"One run of `nox -s faults` on {system()}:", "", *block(lines)])
    for table, rows in ROWS.items():
        if rows:
            publish(table, rows)
