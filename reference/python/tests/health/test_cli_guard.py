"""``toyspec guard``: the exit status, restarts, and a training that diverges and is brought to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import toyspec
from logged_runs import events, kinds
from toyspec.core.command_line.main import main

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.contended

PREAMBLE = "import os, sys, time\nfrom math import nan\nimport toyspec\n"
QUICK = ["--poll", "0.05", "--backoff", "0.05", "--grace", "5"]

DIVERGES = """
    import json, random
    # The learning rate of the first attempt is too high from step 60 on; the second has a lower one.
    path = "runs/dip/checkpoint.json"
    is_again = os.path.exists(path)
    saved = json.load(open(path)) if is_again else {"step": 0, "weight": 10.0}
    numbers = random.Random(saved["step"])
    weight = saved["weight"]
    with toyspec.start_run("runs", run_id="dip", git=None, health="default") as run:
        for step in range(saved["step"] + 1, 121):
            rate = 2.5 if step > 60 and not is_again else 0.02
            weight -= rate * weight
            run.step(step, loss=1.0 + weight ** 2 + numbers.gauss(0, 0.01), lr=rate)
            if run.should_stop:
                raise SystemExit(75)
            if step % 20 == 0 and rate < 1:
                json.dump({"step": step, "weight": weight}, open(path, "w"))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder without settings."""
    monkeypatch.chdir(tmp_path)


def _program(text: str) -> list[str]:
    return [sys.executable, "-c", PREAMBLE + textwrap.dedent(text)]


def _guard(options: Sequence[str], program: str) -> int:
    return main(["guard", *QUICK, *options, "runs", "--", *_program(program)])


def test_training_that_diverges_is_stopped_resumed_and_finished(capfd: pytest.CaptureFixture[str]) -> None:
    """A divergence is found within 10 steps, the training stops, resumes from its checkpoint and finishes."""
    assert 0 == _guard(["--restarts", "2"], DIVERGES)
    found = events(Path("runs/dip"))
    stopped = next(each for each in found if each["kind"] == "alert" and each["rule"] == "loss-diverged")
    assert 60 < stopped["step"] <= 70
    ends = [each for each in found if each["kind"] == "run_end"]
    assert [("aborted", stopped["step"]), ("completed", 120)] == [(end["reason"], end["final_step"]) for end in ends]
    resumed = next(each for each in found if each["kind"] == "run_resume")
    assert 60 == resumed["from_step"]
    assert [*range(1, 121)] == list(toyspec.history("runs/dip", "loss")["step"])
    assert [] == toyspec.check("runs").files[0].findings
    output = capfd.readouterr().err
    assert 1 == output.count("toyspec guard: dip: error: loss-diverged")
    assert "a health rule asked the training to stop; starting it again in 0.05 s, 1 restarts left" in output


def test_program_that_logs_elsewhere_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    """The status is that of the command, and a line says that no rule was applied, also beside a run of before."""
    elsewhere = 'with toyspec.start_run("elsewhere", git=None) as run:\n    run.step(1, loss=nan)\n'
    fact = (
        "toyspec guard: no run was written at runs, so no rule was applied; pass the directory that the program logs to"
    )
    assert 0 == _guard([], elsewhere)
    assert fact in capfd.readouterr().err.splitlines()
    with toyspec.start_run("runs", git=None) as run:
        run.step(1, loss=0.5)
    assert 3 == _guard([], "sys.exit(3)")
    assert fact in capfd.readouterr().err.splitlines()
    assert 0 == _guard([], 'with toyspec.start_run("runs", git=None) as run:\n    run.step(1, loss=0.5)\n')
    assert fact not in capfd.readouterr().err.splitlines()


def test_alert_sets_the_exit_status(capfd: pytest.CaptureFixture[str]) -> None:
    """An alert at or above --fail-on is status 1, and the status of a failing command is its own."""
    sick = """
        with toyspec.start_run("runs", run_id="sick", git=None) as run:
            for step in range(1, 30):
                run.step(step, loss=nan if step == 20 else 1.0)
    """
    assert 1 == _guard(["--json"], sick)
    written = capfd.readouterr()
    assert "toyspec guard: sick: error: loss-not-finite  step 20  loss is NaN" in written.err
    messages = [json.loads(line) for line in written.out.splitlines()]
    assert [("begun", "sick"), ("recovered", "sick")] == [(each["event"], each["run"]) for each in messages]
    assert 0 == _guard([], "pass")
    assert 7 == _guard([], "raise SystemExit(7)")
    assert 127 == main(["guard", "runs", "--", "./no-such-program"])


def test_what_was_in_the_log_before_sets_no_status() -> None:
    """Only what happens while guard watches counts: an old run with an alert does not fail a new one."""
    with toyspec.start_run("runs", run_id="old", git=None) as run:
        run.step(1, loss=nan)
    assert 0 == _guard([], "toyspec.start_run('runs', run_id='new', git=None).step(1, loss=1.0)")
    assert 1 == main(["guard", "--poll", "0.05", "runs/old"])


def test_killed_command_is_started_again_and_resumes_its_run(capfd: pytest.CaptureFixture[str]) -> None:
    """After a kill the command is started again, at most as often as allowed, and its run without a name goes on."""
    killed = """
        run = toyspec.start_run("runs", git=None)
        for _ in range(3):
            run.step(loss=1.0)
        time.sleep(0.2)
        os.kill(os.getpid(), 9)
    """
    assert 137 == _guard(["--restarts", "2"], killed)
    [directory] = [path for path in Path("runs").iterdir() if path.is_dir()]
    assert 2 == kinds(directory).count("run_resume")
    assert 9 == kinds(directory).count("step")
    output = capfd.readouterr().err
    assert ["0.05", "0.1"] == [line.split(" s,")[0].split()[-1] for line in output.splitlines() if "again in" in line]


def test_stalled_command_is_ended_and_started_again(capfd: pytest.CaptureFixture[str]) -> None:
    """A command without progress is ended by SIGTERM and resumes; without restarts it is left alone."""
    Path("toyspec.toml").write_text('[[health]]\nname = "stall"\ntype = "stall"\nseconds = 0.5\ntimes = 1\n')
    stalls = """
        with toyspec.start_run("runs", run_id="s", git=None) as run:
            first = (run.last_step or 0) + 1
            for step in range(first, 25):
                run.step(step, loss=1.0)
                if step == 15 and not os.path.exists("once"):
                    open("once", "w").close()
                    time.sleep(60)
    """
    assert 0 == _guard(["--restarts", "1"], stalls)
    assert ["interrupted", "completed"] == [
        each["reason"] for each in events(Path("runs/s")) if each["kind"] == "run_end"
    ]
    output = capfd.readouterr().err
    assert "s: error: stall" in output
    assert "the command makes no progress; ending it by SIGTERM" in output


def test_command_that_does_not_ask_is_ended_where_that_is_wanted() -> None:
    """With --stop a rule with on = "stop" ends a command, also one that knows nothing of it and goes on for hours."""
    endless = """
        import json
        os.makedirs("runs/x", exist_ok=True)
        log = open("runs/x/metrics.jsonl", "w", buffering=1)
        for step in range(10**6):
            log.write(json.dumps({"step": step, "loss": nan if step > 20 else 1.0}) + chr(10))
            time.sleep(0.01)
    """
    assert 128 + signal.SIGTERM == _guard(["--stop"], endless)


def test_signal_is_handed_on_and_ends_the_restarts(tmp_path: Path) -> None:
    """SIGTERM reaches the command, and nothing is started again."""
    waits = "open('ready', 'a').write('x')\ntime.sleep(60)"
    words = [sys.executable, "-m", "toyspec", "guard", *QUICK, "--restarts", "5", "runs", "--", *_program(waits)]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        # The file is there before it has its content.
        while not (tmp_path / "ready").exists() or not (tmp_path / "ready").read_text():
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGTERM)
        _, output = process.communicate(timeout=300)
    assert 128 + signal.SIGTERM == process.returncode
    assert b"starting it again" not in output
    assert "x" == (tmp_path / "ready").read_text()


def test_ranks_are_watched_together(capfd: pytest.CaptureFixture[str]) -> None:
    """A rank that is slower than the others is named."""
    ranks = """
        from toyspec.core.writing.environment import TrainingProcess
        runs = [
            toyspec.start_run("runs", run_id="r", git=None, ranks="all", process=TrainingProcess(rank, 2, "t"))
            for rank in (0, 1)
        ]
        for step in range(1, 121):
            for rank, run in enumerate(runs):
                run.step(step, loss=1.0, compute_us=1000 + 300 * rank)
        for run in runs:
            run.run_end()
    """
    assert 1 == _guard(["--fail-on", "warning"], ranks)
    assert "r: warning: rank-behind  step" in capfd.readouterr().err


def test_alerts_go_to_the_actions_of_the_settings() -> None:
    """The command in [[alerts]] gets the alert; the guarded program leaves that to guard."""
    command = [sys.executable, "-c", "import sys; open('told', 'a').write(sys.stdin.read() + chr(10))"]
    Path("toyspec.toml").write_text(f"[[alerts]]\ncommand = {json.dumps(command)}\nlevel = 'error'\n")
    sick = """
        with toyspec.start_run("runs", run_id="sick", git=None, health=True) as run:
            for step in range(1, 4):
                run.step(step, loss=nan)
    """
    assert 1 == _guard([], sick)
    assert ["loss-not-finite"] == [json.loads(line)["rule"] for line in Path("told").read_text().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--restarts", "1", "runs"], "--restarts needs a command"),
        (["--stop", "runs"], "--stop needs a command"),
        (["--restart-on", "kil", "runs"], "--restart-on has no cause 'kil'; it has kill, stall, stop, error"),
        (["--idle-timeout", "1", "runs", "--", "true"], "--idle-timeout is for runs without a command"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A combination that means nothing is an error."""
    assert 2 == main(["guard", *arguments])
    assert expected in capsys.readouterr().err


def test_runs_without_a_command_are_watched_until_they_are_idle(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command guard ends when all runs have ended, or after the idle time."""
    with toyspec.start_run("runs", run_id="a", git=None) as run:
        run.step(1, loss=1.0)
    assert 0 == main(["guard", "--poll", "0.01", "runs"])
    assert 0 == main(["guard", "--poll", "0.01", "--idle-timeout", "0.05", "nothing-here"])
    assert "waiting for nothing-here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(1)", 1),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit(127)", 127),
        ("os.kill(os.getpid(), 1)", 129),
        ("os.kill(os.getpid(), 9)", 137),
        ("os.kill(os.getpid(), 15)", 143),
    ],
)
def test_status_is_that_of_the_command(ending: str, status: int) -> None:
    """Its own where it ended by itself, and 128 and the number of the signal that ended it, as a shell has it."""
    assert status == _guard([], ending)


@pytest.mark.parametrize(("ending", "status"), [("raise SystemExit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_signal_while_a_restart_is_waited_for_ends_the_guard(ending: str, status: int, tmp_path: Path) -> None:
    """The status is that of the last end, and nothing is started again, however long the wait would be."""
    program = _program(f"open('started', 'a').write('x')\n{ending}")
    options = ["--poll", "0.05", "--backoff", "3600", "--restarts", "5", "--restart-on", "error,kill"]
    words = [sys.executable, "-m", "toyspec", "guard", *options, "runs", "--", *program]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert b"starting it again in 3600 s, 4 restarts left" in said
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=300)
    assert status == process.returncode
    assert "x" == (tmp_path / "started").read_text()


def test_command_that_ignores_sigterm_is_killed_after_its_grace(capfd: pytest.CaptureFixture[str]) -> None:
    """With --stop, a command that does not end by SIGTERM within --grace is ended by SIGKILL."""
    stubborn = """
        import json, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.makedirs("runs/x", exist_ok=True)
        log = open("runs/x/metrics.jsonl", "w", buffering=1)
        for step in range(10**6):
            log.write(json.dumps({"step": step, "loss": nan if step > 20 else 1.0}) + chr(10))
            time.sleep(0.01)
    """
    assert 137 == _guard(["--stop", "--grace", "0.2"], stubborn)
    assert "it did not end within 0.2 s; ending it by SIGKILL" in capfd.readouterr().err
