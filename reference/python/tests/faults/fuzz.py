"""Feeds reader, checker, follower and repair with mutated streams: ``python -m faults.fuzz [SECONDS] [SEED]``.

First mutations are drawn, then every implementation that is built is asked about the same streams, and then mutations
follow the coverage of what they feed: the package, the C library and the Rust crate.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from faults.differential import Panel, commands
from faults.guiding import FUZZERS, MissingToolError, guided
from faults.mutations import mutated, shrunk
from faults.oracles import examine
from faults.paging import block, publish, system

MIN_COMPARED = 20
"""Number of streams that are compared on the slowest machine."""


def drawn(seconds: float, seed: int, folder: Path) -> int:
    """Examine drawn streams for so long; return how many."""
    chance, end, number = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        examine(mutated(chance), folder, chance)
        number += 1
    return number


def compared(seconds: float, seed: int, folder: Path, *, least: int = MIN_COMPARED) -> tuple[int, list[str], list[str]]:
    """Ask all implementations about drawn streams; return how many streams, who was asked, and what differs.

    They are asked for so long, and about *least* streams at least.
    """
    chance, number = random.Random(seed), 0
    found: list[str] = []
    with Panel(commands(folder)) as panel:
        end = time.monotonic() + seconds
        while (number < least or time.monotonic() < end) and len(found) < 10:
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
    part = seconds / (2 + len(FUZZERS))
    said: list[str] = []
    is_wrong = False

    def say(line: str) -> None:
        said.append(line)
        write(f"{line}\n")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "drawn").mkdir()
        say(f"inputs fuzzed, drawn: {drawn(part, seed, folder / 'drawn'):,}")
        number, names, found = compared(part, seed, folder)
    say(f"inputs compared: {number:,} between {', '.join(names)}")
    for fact in found:
        say(f"disagreement: {fact}")
    for fuzzer in FUZZERS:
        try:
            outcome = guided(fuzzer, seconds=part, seed=seed)
        except MissingToolError as error:
            say(f"not run: inputs guided by the coverage of {fuzzer}: {error}")
            continue
        say(f"inputs guided by the coverage of {fuzzer}: {outcome.inputs:,}")
        write(outcome.failure)
        is_wrong = is_wrong or bool(outcome.failure)
    publish("fuzz", [f"One run of `nox -s fuzz -- {seconds:.0f}` on {system()}:", "", *block(said)])
    return 1 if found or is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
