"""Feeds reader, checker, follower and repair with mutated streams: ``python -m faults.fuzz [SECONDS] [SEED]``.

First mutations are drawn, and then they follow the coverage of what they feed: the package, the C library and the Rust
crate. `python -m conformance hunt` asks every implementation about the same streams.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from conformance.drawn import mutated
from faults.guiding import FUZZERS, MissingToolError, guided
from faults.oracles import examine
from faults.paging import block, publish, system


def drawn(seconds: float, seed: int, folder: Path) -> int:
    """Examine drawn streams for so long; return how many."""
    chance, end, number = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        examine(mutated(chance), folder, chance)
        number += 1
    return number


def main() -> int:
    """Fuzz, compare and print what was done; return 1 when something is wrong."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()) % 2**31
    write = sys.stdout.write
    write(f"seed {seed}\n")
    part = seconds / (1 + len(FUZZERS))
    said: list[str] = []
    is_wrong = False

    def say(line: str) -> None:
        said.append(line)
        write(f"{line}\n")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "drawn").mkdir()
        say(f"inputs fuzzed, drawn: {drawn(part, seed, folder / 'drawn'):,}")
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
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
