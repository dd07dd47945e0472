"""Writes runs below demo-runs/ and looks at them with the command line. ``make demo`` starts it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from damage import append_behind_fragment, kill_inside, lose_power, write_at_once, write_nan
from runs import write_kaun, write_live, write_metrics, write_toy

ROOT = Path("demo-runs")
LIVE = ROOT / "llama-live"
LIVE_SECONDS = 3.0
TRAINED = ROOT / "mlp-001"
TRAINING = ("--steps", "40", "--seed", "7")
STRICT = ("--require-complete", "--fail-on", "warning")


def main() -> int:
    """Write the runs, show them, and return 0 when every command said what it should."""
    shutil.rmtree(ROOT, ignore_errors=True)
    write_runs(ROOT)
    codes = [
        show("Nine runs of three trainers, some killed, some damaged:", "ls", "--full", str(ROOT)),
        show("What is wrong with them, where, and what to do:", "check", str(ROOT)),
        show("Each kind of finding has a page:", "explain", "unterminated-line"),
        follow_live("A run that another process is writing at this moment:"),
        show("A small language model, trained here and now:", "train", *TRAINING, "--out", str(TRAINED), last=4),
        show("Its run:", "show", str(TRAINED)),
        show("The strictest check of that run:", "check", *STRICT, str(TRAINED)),
    ]
    print("\nEverything this demo made is in demo-runs/.")
    expected = [0, 1, 0, 0, 0, 0, 0]
    if codes != expected:
        print(f"demo: the commands exited with {codes}, {expected} was expected", file=sys.stderr)
    return int(codes != expected)


def write_runs(root: Path) -> None:
    """Write a complete, a torn and a damaged run of each profile below *root*."""
    write_toy(root / "llama-001", lr=3e-4, seed=1)
    kill_inside(write_toy(root / "llama-002", lr=1e-3, seed=2), 280)
    append_behind_fragment(write_toy(root / "llama-003", lr=1e-4, seed=3), 150)

    write_metrics(root / "vit-001", seed=1)
    lose_power(write_metrics(root / "vit-002", seed=2), 120, length=4096)
    write_nan(write_metrics(root / "vit-003", seed=3), 42, b"loss")

    write_kaun(root, experiment="mnist", seed=1)
    kill_inside(write_kaun(root, experiment="mnist", seed=2), 60)
    write_at_once(write_kaun(root, experiment="mnist", seed=3), 77)


def show(title: str, *arguments: str, last: int | None = None) -> int:
    """Print *title*, run the command line with *arguments*, and return its exit code.

    With *last*, print only so many of its last lines, as the pipe that is shown does.
    """
    pipe = "" if last is None else f" | tail -n {last}"
    print(f"\n{title}\n\n$ toyspec {shlex.join(arguments)}{pipe}", flush=True)
    if last is None:
        return subprocess.run([toyspec(), *arguments], check=False).returncode
    done = subprocess.run([toyspec(), *arguments], check=False, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    print("".join(done.stdout.splitlines(keepends=True)[-last:]), end="", flush=True)
    return done.returncode


def follow_live(title: str) -> int:
    """Follow a run that a process in the background writes meanwhile, and return the exit code of ``tail``."""
    with subprocess.Popen([sys.executable, __file__, "write-live"]):
        return show(title, "tail", str(LIVE))


def toyspec() -> str:
    """Return the path of the command of this environment."""
    return os.path.join(sysconfig.get_path("scripts"), "toyspec")


if __name__ == "__main__":
    if sys.argv[1:] == ["write-live"]:
        write_live(LIVE, seconds=LIVE_SECONDS)
    else:
        sys.exit(main())
