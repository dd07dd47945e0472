"""The views of the viewer that ``nox -s screenshots`` shows, over the runs of ``make demo`` and a sweep."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from browser.serving import ROOT, serving
from browser.test_viewer_served import some_runs
from browser.viewer_picture import RATES, write_run
from view_client import served

SIZES = ((1440, 900), (768, 900), (390, 844))

SWEEP = [f"gpt-small-lr{rate}-20261121-001" for rate in RATES]
_SELECTED = "sel=" + ",".join(f"demo-runs%2F{name}" for name in SWEEP)
_CHART = ".chart-overlay"

Screens = dict[str, tuple[str, str]]

SCREENS: Screens = {
    "viewer-runs": ("#runs", ".row"),
    "viewer-charts": ("#charts", _CHART),
    "viewer-selected": (f"#charts?smooth=0.9&{_SELECTED}", _CHART),
    "viewer-run": ("#run/demo-runs%2Fmlp-001", "#part-config"),
    "viewer-damaged": ("#run/demo-runs%2Fllama-003", "#part-findings"),
    "viewer-operations": ("#run/demo-runs%2Fwhole", "#part-regions"),
    "viewer-compare": (f"#compare?{_SELECTED}", ".relations circle"),
    "viewer-compare-all": ("#compare", ".compare"),
}
"""Hash of each view, and what it shows when it is complete."""

REPORT: Screens = {"viewer-report": ("report.html", _CHART)}
"""The same for the report file."""


def write_runs(folder: Path) -> None:
    """Write the runs of ``make demo``, a sweep beside them and their report into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    show = [sys.executable, str(ROOT / "reference/python/demo/show.py")]
    subprocess.run(show, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for number, rate in enumerate(RATES, 1):
        write_run(folder / "demo-runs", number, rate, run_id=SWEEP[number - 1])
    some_runs(folder / "demo-runs")
    report = [sys.executable, "-m", "toyspec", "report", "demo-runs", "-o", "report.html"]
    subprocess.run(report, cwd=folder, check=True)


@contextmanager
def serving_views(folder: Path) -> Iterator[tuple[str, str]]:
    """Serve the runs of *folder*, written if missing; yield the addresses of viewer and folder."""
    if not (folder / "report.html").exists():
        write_runs(folder)
    with served(folder, folder / "cache") as client, serving(folder, folder="/") as files:
        client.settled_rows()
        yield f"http://127.0.0.1:{client.server.port}/", files
