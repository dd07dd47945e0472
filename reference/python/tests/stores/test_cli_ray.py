"""Standard output belongs to the command, whatever a cluster's library prints; an interrupt has its own status."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from command_line import command, environment
from loopback_store import stream

RAY = """
import atexit, os
from concurrent.futures import Future
from types import SimpleNamespace

class RayError(Exception):
    pass

errors = ("RayError", "RayTaskError", "OutOfMemoryError", "WorkerCrashedError")
exceptions = SimpleNamespace(**dict.fromkeys(errors, RayError))

def is_initialized():
    return False

def init(*_, **__):
    os.write(1, b"a node died\\n")
    atexit.register(os._exit, 1)

def cluster_resources():
    return {"CPU": 2}

def put(value):
    return value

def remote(**_):
    def task(work, call, items):
        return SimpleNamespace(future=lambda: _done(work, call, items))

    return lambda work: SimpleNamespace(remote=lambda call, items: task(work, call, items))

def _done(work, call, items):
    if os.environ.get("INTERRUPT"):
        raise KeyboardInterrupt
    future = Future()
    future.set_result(work(call, items))
    return future

def cancel(task, force):
    pass

def shutdown():
    atexit.unregister(os._exit) if not os.environ.get("INTERRUPT") else None
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory of three runs, beside a package that plays Ray."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "ray.py").write_text(RAY)
    for name in "abc":
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "events.jsonl").write_bytes(stream(3, run_id=name))
    return tmp_path / "runs"


def call(runs: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Check *runs* with the cluster."""
    env = {**environment(), "PYTHONPATH": str(runs.parent / "packages"), **variables}
    return subprocess.run(
        command("check", "--format", "json", "--ray", "local", str(runs)), env=env, capture_output=True, check=False
    )


def test_report_has_nothing_of_the_library(runs: Path) -> None:
    """The report is whole, and what the library has printed is on standard error."""
    done = call(runs)
    assert (0, 3) == (done.returncode, len(json.loads(done.stdout)["files"]))
    assert b"a node died" in done.stderr


def test_interrupt_has_its_status(runs: Path) -> None:
    """Whatever the library does at exit."""
    assert 130 == call(runs, INTERRUPT="1").returncode
