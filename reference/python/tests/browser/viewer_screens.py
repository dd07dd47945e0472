"""The views of the viewer that ``nox -s screenshots`` shows, over the runs of ``make demo`` and a sweep."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

from browser.serving import ROOT, serving
from browser.viewer_picture import RATES, write_run
from view_client import served

SIZES = ((1440, 900), (768, 900), (390, 844))

SWEEP = [f"gpt-small-lr{rate}-20261121-001" for rate in RATES]
_SELECTED = "sel=" + ",".join(f"demo-runs%2F{name}" for name in SWEEP)
_PROFILED = "llama-profiled"
_CHART = ".chart-overlay"

Screens = dict[str, tuple[str, str]]

SCREENS: Screens = {
    "viewer-runs": ("#runs", ".row"),
    "viewer-charts": ("#charts", _CHART),
    "viewer-selected": (f"#charts?smooth=0.9&{_SELECTED}", _CHART),
    "viewer-run": ("#run/demo-runs%2Fmlp-001", "#part-config"),
    "viewer-damaged": ("#run/demo-runs%2Fllama-003", "#part-findings"),
    "viewer-operations": (f"#run/demo-runs%2F{_PROFILED}", "#part-regions"),
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
    write_profiled_run(folder / "demo-runs" / _PROFILED)
    report = [sys.executable, "-m", "toyspec", "report", "demo-runs", "-o", "report.html"]
    subprocess.run(report, cwd=folder, check=True)


def write_profiled_run(run: Path) -> None:
    """Write a run with timings of operations, regions, distributions, notes and figures of the machine."""
    chance = random.Random(3)
    records: list[dict[str, Any]] = [{"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": run.name}]
    for step in range(1, 61):
        t = step * 2.0
        times = {"matmul": 800, "attention": 420, "softmax": 130, "rmsnorm": 75, "embedding": 40, "sampling": 9}
        buckets = {name: round(each * chance.uniform(0.8, 1.3)) for name, each in times.items()}
        records += [
            {"kind": "region_enter", "t": t - 1.9, "region": "forward"},
            {"kind": "region_exit", "t": t - 1.2, "region": "forward"},
            {"kind": "region_enter", "t": t - 1.2, "region": "backward"},
            {"kind": "region_exit", "t": t - 0.2, "region": "backward"},
            {"kind": "step", "t": t, "step": step, "loss": 1.6 + 3 / step + chance.gauss(0, 0.05), "lr": 0.0003},
            {"kind": "op_timing", "t": t, "step": step, "buckets": buckets, "compute_us": sum(buckets.values())},
        ]
        if step % 10 == 0:
            histogram = [round(400 * math.exp(-((each - 15.5) ** 2) / (20 + 2 * step))) for each in range(32)]
            grad = {"param": "blk.0.attn_q.weight", "min": -2.0, "max": 2.0, "l2": 0.9, "histogram": histogram}
            records += [
                {"kind": "grad", "t": t, "step": step, **grad},
                {"kind": "system", "t": t, "step": step, "extra": {"gpu_util": chance.uniform(0.8, 0.99)}},
            ]
        if step == 30:
            records += [
                {"kind": "note", "t": t, "step": step, "text": "learning rate lowered by hand"},
                {"kind": "region_enter", "t": t, "region": "save checkpoint"},
                {"kind": "region_exit", "t": t + 0.09, "region": "save checkpoint"},
            ]
    records.append({"kind": "run_end", "t": 122.0, "reason": "completed"})
    run.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(each) + "\n" for each in sorted(records, key=itemgetter("t")))
    (run / "events.jsonl").write_text(text, encoding="utf-8")


@contextmanager
def serving_views(folder: Path) -> Iterator[tuple[str, str]]:
    """Serve the runs of *folder*, written if missing; yield the addresses of viewer and folder."""
    if not (folder / "report.html").exists():
        write_runs(folder)
    with served(folder, folder / "cache") as client, serving(folder, folder="/") as files:
        client.settled_rows()
        yield f"http://127.0.0.1:{client.server.port}/", files
