"""Examines streams that atheris makes to reach code that was not reached before: started by ``faults.fuzz``."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

# What is imported here is watched; everything that examine needs, but not the corpus.
with atheris.instrument_imports(include=["toyspec"]):
    from faults.oracles import examine

from faults.mutations import seeds


def main() -> None:
    """Examine for argument 1 seconds with argument 2 as seed; a wrong stream ends the process and is printed."""
    seconds, seed = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus, run = folder / "corpus", folder / "run"
        corpus.mkdir()
        run.mkdir()
        chosen = random.Random(int(seed)).sample(seeds(), min(300, len(seeds())))
        for number, data in enumerate(chosen):
            (corpus / str(number)).write_bytes(data)

        def one(data: bytes) -> None:
            try:
                examine(data, run, random.Random(0))
            except BaseException:
                sys.stderr.write(f"wrong: {data!r}\n")
                raise

        options = [
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            "-max_len=4096",
            "-timeout=20",
            "-print_final_stats=1",
        ]
        atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/", str(corpus)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
