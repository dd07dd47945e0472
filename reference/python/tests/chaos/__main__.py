"""Lets everything fail together for some minutes: ``python -m chaos --minutes 3 --seed 1``.

Writers, followers, syncers, catalog builders, viewers, other commands and a store on loopback run together, while they
are killed, logs are cut, the disk is full and connections are cut. At the end every acknowledged record is accounted
for. What happens is chosen by a seed, which a failure prints; how processes meet depends on the machine too.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from chaos.day import Day, DayReport, Plan, keep
from faults import paging
from faults.methods import mount_trouble

_DISK = "TOYSPEC_CHAOS_DISK"
_LEFT = Path("build/chaos")
_MOST_SHOWN = 20


def main() -> int:
    """Live a day and print what it came to; return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=3.0, help="how long it lasts (default: 3)")
    parser.add_argument("--seed", type=int, help="what chooses what happens (default: another one each time)")
    parser.add_argument("--page", type=Path, help="page that gets the figures")
    parser.add_argument(
        "--forget", type=int, default=0, help="let writers forget every N-th record, which must be found"
    )
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    trouble = mount_trouble()
    if not trouble and _DISK not in os.environ:
        _on_a_disk(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _say(f"chaos: {options.minutes:g} minutes, seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="toyspec-chaos-") as made:
        disk, notes = Path(os.environ.get(_DISK) or Path(made, "disk")), Path(made, "notes")
        for folder in (disk, notes):
            folder.mkdir(exist_ok=True)
        plan = Plan(options.minutes * 60, options.seed, disk, notes, not trouble, forget=options.forget)
        report = Day(plan).live()
        if report.wrong:
            keep(plan, _LEFT / str(options.seed))
    lines = _lines(report)
    if trouble:
        lines.append(f"left out: full disks ({trouble})")
    _say("\n".join(lines))
    for wrong in report.wrong[:_MOST_SHOWN]:
        _say(f"wrong: {wrong}")
    again = f"nox -s chaos -- --minutes {options.minutes:g} --seed {options.seed}"
    if report.wrong:
        _say(f"{len(report.wrong)} wrong; {again} tries it again; logs: {_LEFT / str(options.seed)}")
        return 1
    if options.page:
        heading = f"One run of `{again}` on {paging.system()}:"
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(paging.replaced(text, "chaos", [heading, "", *paging.block(lines)]), encoding="utf-8")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _lines(report: DayReport) -> list[str]:
    return [f"{what:36}{number:>12,}" for what, number in {**report.counts, "wrong": len(report.wrong)}.items()]


def _on_a_disk(options: argparse.Namespace) -> NoReturn:
    """Become a program that alone sees a disk of its own, which is gone at its end."""
    disk = _LEFT.absolute() / "disk"
    disk.mkdir(parents=True, exist_ok=True)
    size = f"{64 + 24 * int(options.minutes + 1)}m"
    mount = f'mount -t tmpfs -o size={size} none "{disk}" && exec "$@"'
    words = ["unshare", "-Urm", "sh", "-c", mount, "sh", sys.executable, "-m", "chaos", *sys.argv[1:]]
    os.execvpe(words[0], [*words, "--seed", str(options.seed)], {**os.environ, _DISK: str(disk)})


if __name__ == "__main__":
    sys.exit(main())
