"""Prints every figure beside its goal: ``make bench``. A goal that is missed is shown, not hidden."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from pathlib import Path

import checking_speed
import peers
import reading_cost
import tracker_cost
import writing_cost
from measuring import Row  # noqa: TC001  (a program, started once)

_BENCHMARKS = (checking_speed.rows, peers.rows, reading_cost.rows, tracker_cost.rows, writing_cost.rows)


def main() -> int:
    """Run every benchmark; return 1 where a goal is missed."""
    options = _parser().parse_args()
    found: list[Row] = []
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for benchmark in _BENCHMARKS:
            for row in benchmark(Path(folder)):
                found.append(row)
                print(_shown(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in found], indent=2) + "\n")
    missed = [row for row in found if row.met is False]
    print(f"{len(found)} figures, {len(missed)} beyond their goal")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure, and print every figure beside its goal.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures into FILE too")
    return parser


def _shown(row: Row) -> str:
    verdict = {True: "ok", False: "MISSED", None: ""}[row.met]
    return f"{row.name:<52} {row.figure:<46} {row.goal:<14} {verdict}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
