"""An import that is killed leaves no half bundle, and the next one makes what an uninterrupted one would have made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conversions import imported
from convert.test_convert_tensorboard import event_file, steps
from toyspec import import_runs, list_runs

# The progress of an import is what it has read, so the kill is in the middle of its work whatever the machine.
KILLED = """
import os, signal, sys
from toyspec.convert import import_runs

source, out, share = sys.argv[1:]

def watch(done, total):
    if done >= float(share) * total:
        os.kill(os.getpid(), signal.SIGKILL)

import_runs([source], out, watch=watch)
"""

pytestmark = pytest.mark.posix


def long_log(folder: Path, name: str, rows: int = 60_000) -> Path:
    """Write a log of many rows and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == "tensorboard":
        return event_file(folder, *steps(rows // 10)).parent
    path = folder / "metrics.jsonl"
    path.write_text("".join(f'{{"step":{step},"loss":{step}.5,"lr":0.25}}\n' for step in range(rows)))
    return path


def kill_an_import(source: Path, out: Path, share: float) -> None:
    """Import in another process, which is killed once it has read that share of the source."""
    command = [sys.executable, "-c", KILLED, str(source), str(out), str(share)]
    assert -signal.SIGKILL == subprocess.run(command, check=False).returncode


@pytest.mark.parametrize("name", ["tensorboard", "metrics-jsonl"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_killed_import_leaves_nothing_that_is_listed(tmp_path: Path, name: str, share: float) -> None:
    """No run is there after the kill; running again makes the same bytes, and nothing else is left."""
    source = long_log(tmp_path / "log", name)
    kill_an_import(source, tmp_path / "runs", share)
    left = os.listdir(tmp_path / "runs")
    assert 1 == len(left)
    assert left[0].startswith(".import-")
    assert [] == list(list_runs(tmp_path / "runs"))
    (again,) = imported(source, tmp_path / "runs").runs
    (whole,) = imported(source, tmp_path / "whole").runs
    assert Path(whole.target, "events.jsonl").read_bytes() == Path(again.target, "events.jsonl").read_bytes()
    assert [again.run_id] == os.listdir(tmp_path / "runs")


def test_killed_second_import_leaves_the_first(tmp_path: Path) -> None:
    """A run that is imported again, since its source has grown, keeps its stream until the new one is whole."""
    source = long_log(tmp_path / "log", "metrics-jsonl", 100)
    (first,) = imported(source, tmp_path / "runs").runs
    before = {path.name: path.read_bytes() for path in Path(first.target).iterdir()}
    long_log(tmp_path / "log", "metrics-jsonl")
    kill_an_import(source, tmp_path / "runs", 0.5)
    assert before == {path.name: path.read_bytes() for path in Path(first.target).iterdir()}
    (again,) = imported(source, tmp_path / "runs").runs
    assert (first.run_id, 180_000) == (again.run_id, again.items)
    assert before["events.jsonl"] == Path(again.target, "events.jsonl.prev").read_bytes()


def test_interrupted_import_goes_on(tmp_path: Path) -> None:
    """What was made before Ctrl-C is whole and is kept; the rest follows, under the names that it would have had."""
    sources = [event_file(tmp_path / str(size) / "same", *steps(size)).parent for size in range(3, 11)]
    import_runs(sources, tmp_path / "whole")

    def interrupt(done: int, total: int) -> None:
        if done > total / 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_runs(sources, tmp_path / "runs", watch=interrupt)
    before = os.listdir(tmp_path / "runs")
    assert before
    assert not [name for name in before if name.startswith(".")]
    report = import_runs(sources, tmp_path / "runs")
    assert {"done-before"} == {run.status for run in report.runs if run.run_id in before}
    streams = {path.relative_to(tmp_path / "whole"): path for path in (tmp_path / "whole").rglob("events.jsonl")}
    assert {name: path.read_bytes() for name, path in streams.items()} == {
        name: (tmp_path / "runs" / name).read_bytes() for name in streams
    }
