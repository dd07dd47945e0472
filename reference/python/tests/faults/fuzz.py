"""Feeds reader, checker, follower and repair with mutated streams: ``python -m faults.fuzz [SECONDS] [SEED]``.

With atheris the mutations follow the coverage of the package; without it they are drawn. Then every implementation
that is built is asked about the same streams.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults.differential import Panel, commands
from faults.mutations import mutated, shrunk
from faults.oracles import examine

MIN_COMPARED = 20
"""Number of streams that are compared on the slowest machine."""


def drawn(seconds: float, seed: int, folder: Path) -> int:
    """Examine drawn streams for so long; return how many."""
    chance, end, number = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        examine(mutated(chance), folder, chance)
        number += 1
    return number


def guided(seconds: float, seed: int) -> tuple[int, str]:
    """Let atheris make streams for so long, in a process of its own; return its exit status and its statistics."""
    command = [sys.executable, "-m", "faults.guided", str(int(seconds)), str(seed)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    lines = done.stderr.splitlines()
    kept = [line for line in lines if "DONE" in line or "executed_units" in line or line.startswith("wrong:")]
    return done.returncode, "\n".join(kept if done.returncode == 0 else lines[-60:])


def compared(seconds: float, seed: int, folder: Path) -> tuple[int, list[str], list[str]]:
    """Ask all implementations about drawn streams; return how many streams, who was asked, and what differs."""
    chance, number = random.Random(seed), 0
    found: list[str] = []
    with Panel(commands(folder)) as panel:
        end = time.monotonic() + seconds
        while (number < MIN_COMPARED or time.monotonic() < end) and len(found) < 10:
            data, mode = mutated(chance), chance.choice(["salvage", "salvage", "tail", "prefix", "strict"])
            number += 1
            facts = list(panel.disagreements(data, mode))
            if facts:
                small = shrunk(data, lambda bytes_, mode=mode: bool(list(panel.disagreements(bytes_, mode))))  # type: ignore[misc]
                found.append(f"{small!r}: {'; '.join(panel.disagreements(small, mode))}")
        return number, panel.names, found


def main() -> int:
    """Fuzz, compare and print what was done; return 1 when something is wrong."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()) % 2**31
    write = sys.stdout.write
    write(f"seed {seed}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "drawn").mkdir()
        write(f"inputs fuzzed, drawn: {drawn(seconds / 3, seed, folder / 'drawn'):,}\n")
        number, names, found = compared(seconds / 3, seed, folder)
    write(f"inputs compared: {number:,} between {', '.join(names)}\n")
    sys.stdout.writelines(f"disagreement: {fact}\n" for fact in found)
    if importlib.util.find_spec("atheris") is None:
        write("not run: atheris is not installed, so that no mutation follows coverage (pip install atheris)\n")
        return 1 if found else 0
    status, said = guided(seconds / 3, seed)
    write(f"guided by coverage: {said}\n")
    return 1 if found or status else 0


if __name__ == "__main__":
    sys.exit(main())
