"""A training that logs: ``python -m faults.victim DIRECTORY STEPS [--sync] [--copy FILE] [--fill FILE]``.

Prints what it believes to be written and that it came to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial

from toyspec.core.writing.run_writer import RunWriter


def main() -> None:
    """Train, log and print ``{"acknowledged": […], "dropped": n, "trained": steps}``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("steps", type=int)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--copy")
    parser.add_argument("--fill", type=int, default=0, help="bytes of text in each note")
    options = parser.parse_args()
    writer = RunWriter(options.directory, durability="fsync" if options.sync else "process", run_id="victim")
    acknowledged: list[str] = []

    def log(name: str, call: Callable[[], None]) -> None:
        was_active, dropped = writer.active, writer.dropped
        call()
        if was_active and writer.dropped == dropped:
            acknowledged.append(name)

    log("run_start", writer.run_start)
    for step in range(1, options.steps + 1):
        log(f"step {step}", partial(writer.step, step, loss=1.0 / step))
        if options.fill:
            log(f"note {step}", partial(writer.note, "x" * options.fill, step=step))
    if writer.active:
        log("run_end", writer.run_end)
    writer.close()
    if options.copy and os.path.exists(writer.events_path):
        shutil.copyfile(writer.events_path, options.copy)
    json.dump({"acknowledged": acknowledged, "dropped": writer.dropped, "trained": options.steps}, sys.stdout)


if __name__ == "__main__":
    main()
