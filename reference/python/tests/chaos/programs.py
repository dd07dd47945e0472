"""The programs of the chaos that are not commands: ``python -m chaos.programs write|follow …``."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path

import toyspec
from chaos.records import number_of, write
from chaos.states import ACKNOWLEDGED, REFUSED, TRIED, States

AT_START = 7
"""Exit status of a writer that was refused, with a message, before it began."""


def training(options: argparse.Namespace) -> int:
    """Log records until the order to finish comes, and keep account of each call that has returned."""
    states = States(options.states)
    to = toyspec.Sync(options.to, every=0.5, wait=2.0, patience=5.0) if options.to else None
    try:
        run = toyspec.start_run(
            options.root, run_id=options.run, exist=options.exist, git=None, durability=options.durability, sync=to
        )
    except (OSError, toyspec.ToyspecError) as error:
        sys.stderr.write(f"not started: {error}\n")
        return AT_START
    number = states.next
    while not states.is_finishing:
        states[number] = TRIED
        before = run.dropped
        if not options.forget or number % options.forget:
            write(run, number)
        states[number] = ACKNOWLEDGED if run.active and run.dropped == before else REFUSED
        number += 1
        time.sleep(options.pause)
    run.run_end()
    run.close()
    return 0


def following(options: argparse.Namespace) -> int:
    """Note the number of each record, and each change of the file, until the file *stop* is there."""
    with options.notes.open("w", buffering=1, encoding="utf-8") as notes:
        for item in toyspec.follow(options.stream, until="forever", poll_seconds=0.05, stop=options.stop.exists):
            if isinstance(item, toyspec.Record):
                number = number_of(item.value)
                notes.write(f"{number}\n" if number is not None else "")
            else:
                notes.write(f"# {item.kind}\n")
    return 0


def main() -> int:
    """Run one of them."""
    parser = argparse.ArgumentParser()
    programs = parser.add_subparsers(required=True)
    writer = programs.add_parser("write")
    writer.add_argument("root")
    writer.add_argument("run")
    writer.add_argument("states", type=Path)
    writer.add_argument("--exist", default="resume")
    writer.add_argument("--durability", default="process")
    writer.add_argument("--to")
    writer.add_argument("--pause", type=float, default=0.01)
    writer.add_argument("--forget", type=int, default=0)
    writer.set_defaults(program=training)
    follower = programs.add_parser("follow")
    follower.add_argument("stream", type=Path)
    follower.add_argument("notes", type=Path)
    follower.add_argument("stop", type=Path)
    follower.set_defaults(program=following)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        return int(options.program(options))
    return 130


if __name__ == "__main__":
    sys.exit(main())
