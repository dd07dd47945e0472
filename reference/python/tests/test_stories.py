"""Stories of users, with real programs: each value that a program passes is found, or counted and named.

The programs note what they pass in a file of their own, after the call has returned.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import toyspec
from command_line import toyspec_within as command

pytestmark = pytest.mark.contended

PREAMBLE = """
import json, os, signal, sys, time
import toyspec

def passed(step, **values):
    with open(os.environ["PASSED"], "a") as file:
        file.write(json.dumps([step, values]) + "\\n")
"""

Passed = dict[str, list[tuple[int, Any]]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, as a user does."""
    monkeypatch.chdir(tmp_path)


def start(program: str, *arguments: str, passed: str = "passed.jsonl", **variables: str) -> subprocess.Popen[str]:
    """Start a Python *program*, whose values go to the file *passed*."""
    text = PREAMBLE + textwrap.dedent(program)
    environment = {**os.environ, "PASSED": passed, **variables}
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )


def run(program: str, *arguments: str, passed: str = "passed.jsonl", **variables: str) -> tuple[int, str]:
    """Run a program to its end; return its exit status and what it said."""
    process = start(program, *arguments, passed=passed, **variables)
    said = process.communicate()[1]
    return process.returncode, said


def values_passed(passed: str = "passed.jsonl") -> Passed:
    """Return the step and the value of each value that programs have passed, by name, in order."""
    found: Passed = defaultdict(list)
    for line in Path(passed).read_text(encoding="utf-8").splitlines():
        step, values = json.loads(line)
        for name, value in values.items():
            found[name].append((step, value))
    return found


def values_read(log: str | Path, attempts: Any = "all") -> Passed:
    """Return the same of what is read back."""
    table = toyspec.history(log, attempts=attempts)
    found: Passed = {}
    for name in table.keys() - {"step", "attempt"}:
        cells = zip(table["step"], table[name], strict=True)
        found[name] = [(int(step or 0), value) for step, value in cells if value is not None]
    return found


def shown(*arguments: str) -> str:
    """Return what a command prints."""
    done = command(*arguments)
    assert 0 == done.returncode, done.stderr.decode()
    return done.stdout.decode()


RESEARCHER = """
    path = "checkpoint.json"
    state = json.load(open(path)) if os.path.exists(path) else {"step": 0, "weight": 8.0}
    killed_after = int(sys.argv[1])
    with toyspec.start_run("runs", run_id="mlp", arch="mlp", config={"lr": 0.1}, exist="resume", git=None) as run:
        run.define("val/acc", goal="max")
        for step in range(state["step"] + 1, 21):
            state = {"step": step, "weight": state["weight"] * 0.9}
            run.step(step, loss=state["weight"], lr=0.1, extra={"mfu": step / 100})
            passed(step, loss=state["weight"], lr=0.1, mfu=step / 100)
            if step % 5 == 0:
                json.dump(state, open(path, "w"))
                run.log({"val": {"acc": step / 40}, "best": f"at {step}"}, step=step)
                passed(step, **{"val/acc": step / 40, "best": f"at {step}"})
            if step == killed_after:
                os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_researcher_is_killed_resumes_and_evaluates_the_next_day() -> None:
    """Every value of four attempts is there, lists have the latest of each step, and the evaluation is in the run."""
    statuses = [run(RESEARCHER, killed_after)[0] for killed_after in ("8", "13", "0")]
    assert [-signal.SIGKILL, -signal.SIGKILL, 0] == statuses
    status, said = run(
        """
        with toyspec.start_run("runs", run_id="mlp", exist="resume", git=None) as run:
            run.eval("test", loss=1.25, extra={"acc": 0.75})
            passed(20, **{"test/loss": 1.25, "test/acc": 0.75})
        """
    )
    assert (0, "") == (status, said)
    wanted = values_passed()
    found = values_read("runs/mlp")
    assert {name: sorted(map(str, each)) for name, each in wanted.items()} == {
        name: sorted(map(str, each)) for name, each in found.items()
    }
    latest = {name: dict(each) for name, each in wanted.items()}
    assert latest == {name: dict(each) for name, each in values_read("runs/mlp", "latest").items()}
    assert list(range(1, 21)) == [step for step, _ in values_read("runs/mlp", "latest")["loss"]]
    text = shown("show", "runs/mlp")
    assert all(each in text for each in ("1 to 20", "val/acc", "test", "highest 0.5 at step 20", "mfu", "best"))
    (row,) = json.loads(shown("ls", "--json", "--full", "runs"))
    assert ("complete", 20) == (row["state"], row["last_step"])
    assert "1 run: complete · no findings" in shown("check", "runs")


PREEMPTED = """
    rank = int(os.environ["SLURM_PROCID"])
    first = int(sys.argv[1])
    with toyspec.start_run("runs", ranks="all", exist="resume", git=None, config={"nodes": 1}) as run:
        step = first
        while step <= int(sys.argv[2]):
            run.step(step, loss=100.0 / step + rank, compute_us=1000 + rank)
            run.log({"tokens/s": 10.0 * step + rank, "rank": rank}, step=step)
            passed(step, loss=100.0 / step + rank, compute_us=1000 + rank, rank=rank)
            passed(step, **{"tokens/s": 10.0 * step + rank})
            time.sleep(0.01)
            step += 1
"""


def test_a_slurm_job_on_four_ranks_is_preempted_and_requeued() -> None:
    """SIGTERM ends all ranks, the requeued job goes on in the same four logs, and no rank loses a value."""
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "4"}

    def started(rank: int, first: int, last: int) -> subprocess.Popen[str]:
        place = f"passed-{rank}.jsonl"
        return start(PREEMPTED, str(first), str(last), passed=place, **slurm, SLURM_PROCID=str(rank))

    job = [started(rank, 1, 100_000) for rank in range(4)]
    deadline = time.monotonic() + 300
    while not all(_lines(rank) >= 6 for rank in range(4)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in job:
        process.terminate()
    assert [-signal.SIGTERM] * 4 == [process.wait() for process in job]
    for process in job:
        process.communicate()
    reached = min(max(step for step, _ in values_passed(f"passed-{rank}.jsonl")["loss"]) for rank in range(4))
    job = [started(rank, reached, reached + 5) for rank in range(4)]
    results = [(process.wait(), process.communicate()[1].splitlines()) for process in job]
    assert [0] * 4 == [status for status, _ in results]
    # A rank that was far ahead says what it writes again.
    assert all(" and supersedes " in line for _, said in results for line in said), results

    (name,) = os.listdir("runs")
    ranks = toyspec.ranks_of(f"runs/{name}")
    assert (4, None) == (ranks.world_size, ranks.first_to_stop)
    assert [("complete", reached + 5)] * 4 == [(each.state, each.last_step) for each in ranks.ranks]
    for rank in range(4):
        log = f"runs/{name}/events{f'.rank-{rank}' if rank else ''}.jsonl"
        found, wanted = values_read(log), values_passed(f"passed-{rank}.jsonl")
        for metric, each in wanted.items():
            # A step may be written whose return the signal prevented.
            assert set(each) <= set(found[metric]), (rank, metric)
        ends = [record.value for record in toyspec.read(log) if record.kind == "run_end"]
        assert [("interrupted", "signal SIGTERM"), ("completed", None)] == [
            (end["reason"], end.get("error")) for end in ends
        ]
        table = toyspec.history(log, ["loss"])
        assert list(range(1, reached + 6)) == table["step"]
    assert "complete · no findings" in shown("check", "runs")
    printed = shown("show", f"runs/{name}")
    assert all(f"\n{rank} " in printed or f" {rank} " in printed for rank in range(4))


def _lines(rank: int) -> int:
    path = Path(f"passed-{rank}.jsonl")
    return len(path.read_text().splitlines()) if path.exists() else 0
