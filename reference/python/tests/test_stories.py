"""Six stories of users, with real programs: each value that a program passes is found, or counted and named.

The programs note what they pass in a file of their own, after the call has returned.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import toyspec
from command_line import toyspec as command
from toyspec.core.command_line.main import main

pytestmark = pytest.mark.contended

SAMPLES = Path(__file__).parent / "samples"

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


def shown(*arguments: str, status: int = 0) -> str:
    """Return what a command prints."""
    done = command(*arguments, cwd=Path())
    assert status == done.returncode, done.stderr.decode()
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
    assert [(0, "")] * 4 == [(process.wait(), process.communicate()[1]) for process in job]

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


def test_a_notebook_is_run_out_of_order() -> None:
    """Cells that are run again begin the run again, keep the log before, and a stale object says what to use."""
    begin = 'run = toyspec.start_run("runs", run_id="nb", config={"lr": lr}, git=None)'
    train = """
for step in range(1, 4):
    run.log({"loss": lr / step, "note": f"lr {lr}"}, step=step)
    passed[-1].append((step, lr / step))
"""
    evaluate = 'run.eval("test", loss=lr)'
    passed: list[list[tuple[int, float]]] = [[]]
    cells: dict[str, Any] = {"toyspec": toyspec, "lr": 1.0, "passed": passed}
    for cell in (begin, train, train, evaluate):
        exec(cell, cells)
    stale = cells["run"]
    cells["lr"] = 0.5
    passed.append([])
    for cell in (begin, evaluate, train):
        exec(cell, cells)
    with pytest.raises(ValueError, match="was started again; log into the run that the later start_run returned"):
        stale.log(loss=1.0)
    cells["run"].close()
    exec(evaluate, cells)
    cells["run"].close()
    logs = ["runs/nb/events.jsonl.prev", "runs/nb/events.jsonl"]
    assert [sorted(each) for each in passed] == [sorted(values_read(log)["loss"]) for log in logs]
    assert [1, 2] == [len(values_read(log)["test/loss"]) for log in logs]
    assert [6, 3] == [len(values_read(log)["note"]) for log in logs]
    ends = [[record["reason"] for record in toyspec.read(log) if record.kind == "run_end"] for log in logs]
    assert [["interrupted"], ["completed", "completed"]] == ends
    assert "complete · no findings" in shown("check", "runs/nb")


def trained(number: int) -> tuple[str, dict[str, Any]]:
    """Log a run of a sweep; return its id and what it passed."""
    lr, optimizer = 10.0 ** (-number / 20), ("adamw", "sgd")[number % 2]
    config = {"lr": lr, "optim": {"name": optimizer, "betas": [0.9, 0.95 if number % 4 else 0.999]}}
    run_id = f"s{number:03}"
    with toyspec.start_run("runs", run_id=run_id, group="sweep", config=config, git=None) as writer:
        writer.define("val/acc", goal="max")
        for step in range(1, 4):
            writer.step(step, loss=lr * number / step)
            writer.log({"val/acc": number / 100 / step}, step=step)
    return run_id, {"config.lr": lr, "final_loss": lr * number / 3, "val/acc": number / 300, "best": number / 100}


def test_a_sweep_of_a_hundred_runs_is_listed_sorted_filtered_and_compared() -> None:
    """What each run passed is what the list, the frame, the catalog and the comparison show of it."""
    with ThreadPoolExecutor(8) as pool:
        passed = dict(pool.map(trained, range(100)))
    runs = toyspec.list_runs("runs")
    assert set(passed) == {each.facts.run_id for each in runs}
    best = runs.best("val/acc")
    assert best is not None
    assert ("s099", "s099") == (best.facts.run_id, _id(runs.best("best.val/acc")))
    order = [str(each.facts.run_id) for each in runs.sort("val/acc")]
    assert sorted(passed, key=lambda run_id: -passed[run_id]["val/acc"]) == order
    assert 50 == len(runs.filter("optim.name = sgd"))
    for name in ("val/ac", "best.val/ac"):
        with pytest.raises(ValueError, match="did you mean"):
            runs.best(name)
    rows = {row["run_id"]: row for row in runs.rows()}
    for run_id, values in passed.items():
        row = rows[run_id]
        assert (values["config.lr"], values["final_loss"]) == (row["config.lr"], row["final_loss"])
        assert math.isclose(values["val/acc"], row["last.val/acc"])
        assert math.isclose(values["best"], row["best.val/acc"])
    pandas = pytest.importorskip("pandas")
    frame = runs.to_pandas().set_index("run_id")
    assert isinstance(frame, pandas.DataFrame)
    assert {run_id: values["final_loss"] for run_id, values in passed.items()} == frame["final_loss"].to_dict()
    toyspec.build_catalog("runs", out="catalog")
    cataloged = toyspec.Catalog("catalog").runs()
    assert order == [each.facts.run_id for each in toyspec.list_runs("runs").sort("val/acc")]
    assert {each.facts.run_id: each.facts.final_loss for each in cataloged} == {
        run_id: values["final_loss"] for run_id, values in passed.items()
    }
    listed = json.loads(shown("ls", "--json", "--sort", "val/acc", "--where", "val/acc > 0.32", "runs"))
    assert [run_id for run_id in order if passed[run_id]["val/acc"] > 0.32] == [each["run_id"] for each in listed]
    compared = shown("compare", "runs/s003", "runs/s004")
    assert all(each in compared for each in ("optim.betas", "0.999", "0.95", "optim.name"))
    assert "did you mean" in command("ls", "--sort", "val/ac", "runs", cwd=Path()).stderr.decode()


def _id(found: Any) -> Any:
    return None if found is None else found.facts.run_id


def test_a_ci_engineer_trusts_exit_codes_and_json() -> None:
    """A good, an unfinished and a damaged run, one with a loss, and one that fails: each has its exit code."""
    program = """
        with toyspec.start_run("runs", run_id=sys.argv[1], git=None) as run:
            for step in range(1, 6):
                run.step(step, loss=1.0 / step)
                if sys.argv[1] == "killed" and step == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
            if sys.argv[1] == "lossy":
                run.log({"weights": [1, 2, 3], "acc": 0.5})
            if sys.argv[1] == "failing":
                raise ValueError("bad batch")
    """
    assert 0 == run(program, "good")[0]
    assert "no findings" in shown("check", "runs")
    assert 0 == run(program, "lossy")[0]
    assert "no findings" not in shown("check", "runs/lossy")
    shown("check", "--fail-on", "warning", "runs/lossy", status=1)
    assert -signal.SIGKILL == run(program, "killed")[0]
    shown("check", "runs")
    shown("check", "--require-complete", "runs", status=1)
    assert 1 == run(program, "failing")[0]
    report = json.loads(shown("check", "--format", "json", "runs"))
    states = {Path(each["path"]).parent.name: each["state"] for each in report["files"]}
    assert {"good": "complete", "lossy": "complete", "killed": "torn", "failing": "complete"} == states
    rows = {row["run_id"]: row for row in json.loads(shown("ls", "--json", "--full", "runs"))}
    assert ("errored", "ValueError: bad batch") == (rows["failing"]["reason"], rows["failing"]["error"])
    assert (3, 5) == (rows["killed"]["last_step"], rows["lossy"]["last_step"])
    (only,) = json.loads(shown("ls", "--json", "--where", "reason = errored", "runs"))
    assert "failing" == only["run_id"]
    text = Path("runs/good/events.jsonl").read_text()
    Path("runs/good/events.jsonl").write_text(text.replace('"step":3', '"step":"3"'))
    assert "wrong-type" in shown("check", "runs/good", status=1)
    shown("check", "nowhere", status=2)
    for name, loss in (("well", 1.0), ("sick", math.nan)):
        with toyspec.start_run("guarded", run_id=name, git=None) as guarded:
            guarded.step(loss=loss)
    assert 0 == main(["guard", "guarded/well"])
    assert 1 == main(["guard", "guarded"])


def test_a_user_of_wandb_moves_runs_and_scripts() -> None:
    """An offline run of the real package is imported, and the script goes on with another import."""
    report = toyspec.import_runs(SAMPLES / "wandb" / "wandb", "runs")
    (moved,) = report.runs
    assert moved.items == moved.carried + moved.changed + moved.dropped
    found = values_read(moved.target)
    assert [(step, 2.0 / (step + 1)) for step in range(30)] == found["train/loss"]
    assert [(step, 0.5 * step) for step in range(30)] == found["nested.norm"]
    accuracy = dict(found["val/acc"])
    assert (9 / 40, 29 / 40) == (accuracy[9], accuracy[29])
    assert math.isnan(accuracy[19])
    assert [(step, "text") for step in (9, 19, 29)] == found["remark"]
    assert "weights" in shown("show", moved.target)
    status, said = run(
        """
        import toyspec.integrations.wandb as wandb
        with wandb.init(project="demo", id="next", resume="allow", config={"lr": 0.1}) as run:
            wandb.define_metric("val/acc", summary="max")
            for step in range(5):
                wandb.log({"train/loss": 1.0 / (step + 1), "done": step == 4, "nested": {"norm": step}})
                passed(step, **{"train/loss": 1.0 / (step + 1), "done": float(step == 4), "nested/norm": float(step)})
            wandb.log({"val/acc": 0.5, "table": [1, 2]})
            passed(5, **{"val/acc": 0.5})
            run.summary["best"] = 0.5
        """
    )
    assert 0 == status
    assert "table" in said
    found = values_read("runs/next")
    for name, wanted in values_passed().items():
        assert wanted == found[name], name
    assert [0.5] == [value for _, value in found["summary/best"]]
    assert "left out" in shown("show", "runs/next")
    assert {"next", Path(moved.target).name} == {row["run_id"] for row in json.loads(shown("ls", "--json", "runs"))}
