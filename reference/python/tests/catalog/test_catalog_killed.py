"""A catalog whose builder is killed: readers see the one from before or the whole new one, never a part."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from command_line import command, environment
from loopback_store import stream
from toyspec import Catalog, build_catalog, list_runs, update_catalog

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
FEW, MANY = 20, 400


def _put(root: Path, numbers: range) -> None:
    for number in numbers:
        (root / f"run-{number:03}").mkdir(parents=True)
        (root / f"run-{number:03}" / "events.jsonl").write_bytes(stream(50, run_id=f"run-{number:03}"))


@pytest.mark.parametrize("word", ["build", "update"])
def test_killed_builder_leaves_a_whole_catalog(word: str, tmp_path: Path) -> None:
    """SIGKILL at any moment; then the next call makes what one that was not killed makes."""
    runs, out = tmp_path / "runs", tmp_path / "catalog"
    _put(runs, range(FEW))
    build_catalog(runs, out=out)
    _put(runs, range(FEW, MANY))
    places = [str(runs), "--out", str(out)] if word == "build" else [str(out)]
    seen = set()
    for tenth in range(1, 11):
        process = subprocess.Popen(
            command("catalog", word, *places, "--workers", "2"),
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(tenth / 10)
        process.kill()
        process.wait()
        seen.add(len(Catalog(out).runs()))
        assert seen <= {FEW, MANY}
    assert FEW in seen
    update_catalog(out)
    assert MANY == len(Catalog(out))
    listed = [run.facts.path for run in list_runs(runs).sort("run")]
    assert listed == [run.facts.path for run in Catalog(out).runs(order="name")]
