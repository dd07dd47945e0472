"""Examines streams that atheris makes to reach code that was not reached before: started by ``faults.guiding``."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import atheris

# What is imported here is watched: everything that examine needs, but not the corpus.
with atheris.instrument_imports(include=["toyspec"]):
    from faults.oracles import examine


def main() -> None:
    """Examine below folder argument 1, with libFuzzer's options behind; print what is wrong and fail."""
    run = Path(sys.argv[1]) / "run"
    run.mkdir()

    def one(data: bytes) -> None:
        try:
            examine(data, run, random.Random(0))
        except BaseException:
            sys.stderr.write(f"wrong: {data!r}\n")
            raise

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
