"""Prints every figure beside its goal: ``make bench``. A goal that is missed is shown, not hidden."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import checking_speed
import import_speed
import logger_costs
import machine
import peers
import planted_marks
import publishing
import reading_cost
import tracker_cost
import viewer_speed
import viewer_starts
import writing_cost
from toyspec.core import engine

if TYPE_CHECKING:
    from measuring import Row

_PARTS = {
    "usual": (writing_cost, reading_cost, peers, tracker_cost, import_speed),
    "engine": (checking_speed,),
    "loggers": (logger_costs,),
    "viewer": (viewer_starts, viewer_speed),
    "pixels": (planted_marks,),
}
_ROWS = {"viewer": 1_000_000, "pixels": 1000}
_USUAL_ROWS = 200_000
_VERDICTS = {True: "met", False: "NOT MET", None: ""}


def main() -> int:
    """Run every benchmark; return 1 where a goal is not met, with ``--strict`` only."""
    options = _parser().parse_args()
    if options.publish == "last":
        publishing.publish(options.part)
        return 0
    modules = [module for module in _PARTS[options.part] if not options.only or module.__name__ in options.only]
    if not modules:
        return 0
    count = options.rows or _ROWS.get(options.part, _USUAL_ROWS)
    if options.part not in ("viewer", "pixels"):
        # The engine is one of two sides in its own part; the figures of the others are those of plain Python.
        os.environ["TOYSPEC_ENGINE"] = "python"
    chosen = {} if options.part == "engine" else {"engine": engine.choice().name}
    described = machine.describe() | chosen | {"records": f"{count:,}", "load before": machine.load()}
    print(", ".join(f"{name} {value}" for name, value in described.items()), flush=True)
    found: list[Row] = []
    started = time.monotonic()
    for module in modules:
        with tempfile.TemporaryDirectory() as folder:
            for row in module.rows(Path(folder), count):
                found.append(row)
                _progress(erase=True)
                print(_shown(row), flush=True)
                _progress(f"{module.__name__}, {time.monotonic() - started:.0f} s")
    _progress(erase=True)
    if options.only and options.publish:
        publishing.write_data(options.part, described, publishing.with_published(options.part, described, found))
    else:
        publishing.write_data(options.part, described, found)
    if options.publish:
        publishing.publish(options.part)
    missed = sum(row.met is False for row in found)
    absent = sum(row.unit == "missing" for row in found)
    print(
        f"{len(found)} figures in {time.monotonic() - started:.0f} s: {missed} goals not met, {absent} figures missing"
    )
    return 1 if missed and options.strict else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure, and print every figure beside its goal.")
    parser.add_argument("--rows", type=int, metavar="N", help="records of the largest stream; pixels: most runs")
    parser.add_argument(
        "--part",
        choices=tuple(_PARTS),
        default="usual",
        help="engine: both engines; loggers: the loggers of other tools; viewer: `toyspec view` in a browser; "
        "pixels: what it paints",
    )
    parser.add_argument(
        "--only", nargs="*", default=(), metavar="MODULE", help="some measurements; --publish keeps the other figures"
    )
    parser.add_argument(
        "--publish", nargs="?", const="new", choices=("new", "last"), help="put figures into the documentation"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is not met")
    return parser


def _shown(row: Row) -> str:
    figure = f"missing: {row.detail}" if row.unit == "missing" else row.figure
    detail = f"  [{row.detail}]" if row.detail and row.unit != "missing" else ""
    return f"{row.group}: {row.name:<62} {figure:<30} {row.goal_text:<16} {_VERDICTS[row.met]:<8}{detail}".rstrip()


def _progress(text: str = "", *, erase: bool = False) -> None:
    """Show how far it is on a terminal, or remove that."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" if erase else f"... {text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
