"""Measures a catalog beside the limit of the same machine: asking for every file, and reading every file.

``nox -s scale_limits -- 100000 --publish``. Each job is a process of its own. All times are processor
time, of all its processes, so that they mean something on a machine that does much else.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import describe, load
from publishing import show
from scale_runs import change, write_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

_DOCS = Path(__file__).resolve().parents[3] / "docs"
_PART = _DOCS / "parts/catalog-limits.md"
_DATA = _DOCS / "assets/bench-scale-limits.json"
_BUILDS = {1: "one", 2: "two"}
_GOALS = {"build": 10.0, "update": 2.0, "memory": 300}
"""A build may take five times the elapsed time of the limit with two workers: ten times its processor time."""


def list_files(root: str) -> None:
    """Ask for the status of every file below *root*."""
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                list_files(entry.path)
            else:
                entry.stat()


def read_files(root: str) -> None:
    """Open and read every file below *root*."""
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                read_files(entry.path)
            else:
                descriptor = os.open(entry.path, os.O_RDONLY)
                while os.read(descriptor, 1 << 20):
                    pass
                os.close(descriptor)


def job(name: str, root: str, out: str, workers: int) -> dict[str, float]:
    """Do one job in this process, and return its processor time in seconds and its most memory in bytes."""
    memory = 0
    if name == "nothing":
        pass
    elif name in ("list", "read"):
        {"list": list_files, "read": read_files}[name](root)
    elif name == "first":
        from toyspec.core.command_line.main import main as command

        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - the process ends
        command(["ls", "--catalog", out, "-n", "20"])
        sys.stdout = sys.__stdout__
    else:
        from toyspec import build_catalog, update_catalog

        with sampled_memory() as sampled:
            build_catalog(root, out=out, workers=workers) if name == "build" else update_catalog(out, workers=workers)
        memory = max(sampled, default=0)
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = sum(used.ru_utime + used.ru_stime for used in (own, others))
    return {"cpu": cpu, "memory": max(memory, 1024 * own.ru_maxrss)}


@contextmanager
def sampled_memory() -> Iterator[list[int]]:
    """Give a list that then has the most memory of this process and those that it starts, sampled every 50 ms.

    It is the sum of the proportional set sizes: what forked processes share counts once. Linux only; empty elsewhere.
    """
    found: list[int] = []
    is_done = threading.Event()

    def sample() -> None:
        while not is_done.wait(0.05):
            found[:] = [max([*found, sum(map(_proportional, _family(os.getpid())))])]

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield found
    finally:
        is_done.set()
        thread.join()


def _family(process: int) -> Iterator[int]:
    """Yield *process* and all that it has started."""
    yield process
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _proportional(process: int) -> int:
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def measured(name: str, root: str, out: str, workers: int = 1) -> dict[str, float]:
    """Return what a job takes in a process of its own, beyond the start of the interpreter."""
    words = [sys.executable, __file__, "--job", name, root, out, str(workers)]
    found: dict[str, float] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return found


def measure(directory: str, count: int, steps: int | None, most_workers: list[int]) -> dict[str, Any]:
    """Return what *count* runs take; *steps* for all, or those of usual runs."""
    root, out = os.path.join(directory, f"runs-{count}"), os.path.join(directory, f"catalog-{count}")
    if not os.path.isdir(root):
        write_runs(root, count, steps)
    start = measured("nothing", root, out)["cpu"]
    found: dict[str, Any] = {"runs": count, "steps": steps}
    # What is measured first would read from the disk, and all others from memory.
    measured("read", root, out)
    found |= {name: measured(name, root, out) for name in ("list", "read")}
    for workers in most_workers:
        shutil.rmtree(out, ignore_errors=True)
        found[_BUILDS[workers]] = measured("build", root, out, workers)
    found["none"] = measured("update", root, out)
    change(root, count)
    found["some"] = measured("update", root, out)
    found["first"] = measured("first", root, out)
    for each in found.values():
        if isinstance(each, dict):
            each["cpu"] -= start
    return found


def page(found: dict[str, Any]) -> str:
    """Return the part of the page."""
    facts = found["machine"]
    taken = (
        f"Taken with: processor {facts['processor']}, Python {facts['Python']}, load before {facts['load before']}; "
        f"processor time of all processes. Goals: a build takes at most {_GOALS['build']:.0f} times as long as opening "
        f"and reading every file, which is five times in elapsed time with two workers; an update with 1 % changed at "
        f"most {_GOALS['update']:.0f} times as long as asking for the status of every file; {_GOALS['memory']} MB."
    )
    heads = (
        "runs", "status of every file", "reading every file", "build, 1 worker", "build, 2 workers",
        "update, 1 % changed", "update, none changed", "`ls --catalog -n 20`", "memory, 1 and 2 workers",
    )  # fmt: skip
    lines = [taken, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in found["sizes"]:
        cpu = {name: each["cpu"] for name, each in row.items() if isinstance(each, dict)}
        name = f"{row['runs']:,}" + (f" of {row['steps']} steps" if row["steps"] else "")
        built = [which for which in _BUILDS.values() if which in row]
        memory = " and ".join(f"{row[which]['memory'] / 1e6:.0f}" for which in built)
        builds = (
            f"{cpu[each]:.2f} s ({cpu[each] / cpu['read']:.1f}x)" if each in cpu else "" for each in _BUILDS.values()
        )
        cells = [
            name, f"{cpu['list']:.2f} s", f"{cpu['read']:.2f} s",
            *builds,
            *(f"{cpu[which]:.2f} s ({cpu[which] / cpu['list']:.1f}x)" for which in ("some", "none")),
            f"{cpu['first']:.2f} s", f"{memory} MB",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Print the figures, and with ``--publish`` write them for the page, beside those of other sizes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sizes", type=int, nargs="*", default=[1000, 10_000], help="numbers of runs")
    parser.add_argument("--steps", type=int, help="steps of each run, for very many; default: 100, 300 or 1,000")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], choices=[1, 2], help="workers of the builds")
    parser.add_argument("--directory", help="where the runs are made; default: the directory of temporary files")
    parser.add_argument("--publish", action="store_true", help="write the page's part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="toyspec-limits-", dir=options.directory) as directory:
        facts = describe() | {"load before": load()}
        made = [measure(options.directory or directory, size, options.steps, options.workers) for size in options.sizes]
    known = json.loads(_DATA.read_text(encoding="utf-8"))["sizes"] if _DATA.exists() else []
    kept = [row for row in known if (row["runs"], row["steps"]) not in {(row["runs"], row["steps"]) for row in made}]
    found = {
        "machine": facts,
        "sizes": sorted([*made, *kept], key=lambda row: row["runs"]) if options.publish else made,
    }
    show(found, page(found), published=(_DATA, _PART) if options.publish else None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        name, root, out, workers = sys.argv[2:]
        sys.stdout.write(json.dumps(job(name, root, out, int(workers))))
    else:
        main()
