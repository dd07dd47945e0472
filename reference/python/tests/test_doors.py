"""Every door to a log ends its run as the program ends, and keeps nothing above the writer."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, Final

import pytest

import toyspec
from command_line import environment
from files import in_subprocess

pytestmark = pytest.mark.posix

DOORS: Final = {
    "block": "with toyspec.start_run('runs', run_id=run_id, git=None) as run:\n    run.log(loss=1.0)\n    {}",
    "no block": "run = toyspec.start_run('runs', run_id=run_id, git=None)\nrun.log(loss=1.0)\n{}",
    "finally": (
        "run = toyspec.start_run('runs', run_id=run_id, git=None)\n"
        "try:\n    run.log(loss=1.0)\n    {}\nfinally:\n    run.close()"
    ),
    "run_end": "run = toyspec.start_run('runs', run_id=run_id, git=None)\nrun.log(loss=1.0)\n{}\nrun.run_end()",
    "wandb": "wandb.init(dir='runs', name=run_id)\nwandb.log({{'loss': 1.0}}, step=1)\n{}",
    "wandb.finish": "wandb.init(dir='runs', name=run_id)\nwandb.log({{'loss': 1.0}}, step=1)\n{}\nwandb.finish()",
    "mlflow": "with mlflow.start_run(run_id):\n    mlflow.log_metric('loss', 1.0)\n    {}",
    "SummaryWriter": "with SummaryWriter('runs', run_id=run_id) as tb:\n    tb.add_scalar('loss', 1.0, 1)\n    {}",
    "TrainingLogger": (
        "logger = TrainingLogger(runs_root='runs', run_name=run_id, print_every=0)\nlogger.log_step(loss=1.0)\n{}"
    ),
    "TrainingLogger.finish": (
        "logger = TrainingLogger(runs_root='runs', run_name=run_id, print_every=0)\nlogger.log_step(loss=1.0)\n"
        "{}\nlogger.finish()"
    ),
}
CATCH: Final = "signal.signal(signal.{0}, lambda *_: None); os.kill(os.getpid(), signal.{0})"
# A handler that hands the signal on to the one that it has found.
CHAINED: Final = (
    "old = signal.getsignal(signal.SIGINT); signal.signal(signal.SIGINT, lambda *given: old(*given)); "
    "os.kill(os.getpid(), signal.SIGINT)"
)
ENDS: Final = {
    "pass": ("completed", None, None),
    "raise ValueError('bad')": ("errored", "ValueError: bad", None),
    "sys.exit(0)": ("completed", None, 0),
    "sys.exit(1)": ("aborted", "exit status 1", 1),
    "os.kill(os.getpid(), signal.SIGKILL)": (None, None, None),
    "os._exit(0)": (None, None, None),
    "os.kill(os.getpid(), signal.SIGTERM)": ("interrupted", "signal SIGTERM", 143),
    CATCH.format("SIGTERM"): ("interrupted", "signal SIGTERM", None),
    f"{CATCH.format('SIGTERM')}; sys.exit(0)": ("interrupted", "signal SIGTERM", 0),
    f"{CATCH.format('SIGTERM')}; sys.exit(7)": ("interrupted", "signal SIGTERM", 7),
    f"{CATCH.format('SIGUSR1')}; sys.exit(0)": ("interrupted", "signal SIGUSR1", 0),
    f"{CATCH.format('SIGUSR2')}; sys.exit(0)": ("interrupted", "signal SIGUSR2", 0),
    CHAINED: ("interrupted", "signal SIGINT", None),
    "child = os.fork(); child or sys.exit(3); os.waitpid(child, 0)": ("completed", None, None),
}
PROGRAM: Final = """
import os, signal, sys
import toyspec
from toyspec.integrations import mlflow, wandb
from toyspec.integrations.summary_writer import SummaryWriter
from toyspec.tracker import TrainingLogger
os.environ["SLURM_JOB_ID"] = "1"
for folder, run_id, code in {cases}:
    child = os.fork()
    if not child:
        os.makedirs(folder, exist_ok=True)
        os.chdir(folder)
        break
    os.waitpid(child, 0)
else:
    code = ""
exec(code)
"""


def test_a_run_ends_as_its_program_does(tmp_path: Path) -> None:
    """Asked are, in this order, a signal, also one that the program caught, an exception and the exit code."""
    cases = [(door, f"r{at:02}", program.format(end)) for door, program in DOORS.items() for at, end in enumerate(ENDS)]
    in_subprocess(PROGRAM.format(cases=cases), cwd=tmp_path, env=environment(), check=True)
    for door in DOORS:
        found = {}
        for at, end in enumerate(ENDS):
            (path,) = (tmp_path / door / "runs").glob(f"r{at:02}*/events.jsonl")
            found[end] = ended(path)
        assert found == ENDS, door


def ended(path: Path) -> tuple[Any, ...]:
    """Return how the last record ends its run, by what and with which exit code; three times None where it does not."""
    last = json.loads(path.read_bytes().splitlines()[-1])
    return tuple(last.get(name) for name in ("reason", "error", "exit_code"))


WRITING: Final = ("append_file", "appending", "run_stream", "run_writer")
WRITERS: Final = {
    "core/commands/repair.py": "appending",  # it cuts, and adds no record
    "convert/importing.py": "append_file",  # records that another program has made
    "core/kaun/run.py": "append_file appending",  # logs of other profiles, which have one writer each
    "core/metrics/log.py": "append_file appending",
    "trainer/training.py": "run_writer",  # its run_start says nothing of the machine, so that equal runs are equal
}


def test_nothing_else_writes() -> None:
    """Every other room begins a run by start_run, and hands its values to what that returns."""
    package = Path(toyspec.__file__).parent
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith("core/writing/"):
            parts = imported(path) & set(WRITING)
            found |= {name: parts} if parts else {}
    assert found == {name: set(parts.split()) for name, parts in WRITERS.items()}


def imported(path: Path) -> set[str]:
    """Return the modules of the writing room that the module at *path* imports when it runs."""
    found: set[str] = set()
    source = path.read_bytes()
    waiting: list[ast.AST] = [ast.parse(source)] if b"core.writing" in source else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "toyspec.core.writing":
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("toyspec.core.writing."):
            found.add(str(node.module).rpartition(".")[2])
        waiting += ast.iter_child_nodes(node)
    return found
