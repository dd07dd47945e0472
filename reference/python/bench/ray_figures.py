"""Measures work on a Ray cluster of this machine beside the same work with processes, and what losses cost.

``nox -s bench_ray -- --publish``, on an idle machine: times are elapsed times, without the start of Ray, which is given
apart. Each job is a process of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import loopback_store
from machine import describe, load
from publishing import show
from scale_runs import bundle, write_logs, write_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DOCS = Path(__file__).resolve().parents[3] / "docs"
_PART = _DOCS / "parts/ray-figures.md"
_DATA = _DOCS / "assets/bench-ray.json"
_CREWS = ("processes 1", "processes 2", "ray 1", "ray 2")
_NAMES = {
    "check": "check",
    "catalog": "catalog build",
    "import": "import of JSON Lines",
    "check s3://": "check from `s3://`",
}
_ITEMS = 40
_GIB = 1 << 30


def do(name: str, source: str, out: str, crew: str) -> dict[str, Any]:
    """Do one job in this process; return its seconds, and the processor time and most memory of this process."""
    from toyspec import build_catalog, check
    from toyspec.convert import import_runs
    from toyspec.stores import Ray

    kind, _, size = crew.partition(" ")
    workers: Any = Ray("auto") if kind == "ray" else int(size)
    begun = time.perf_counter()
    if kind == "ray":
        start_ray(int(size))
    started = time.perf_counter()
    before = _own_cpu()
    jobs: dict[str, Callable[[], object]] = {
        "check": lambda: check(source, workers=workers),
        "catalog": lambda: build_catalog(source, out=out, workers=workers),
        "import": lambda: import_runs(source, out, workers=workers),
    }
    jobs[name]()
    return {
        "seconds": time.perf_counter() - started,
        "start": started - begun,
        "cpu": _own_cpu() - before,
        "memory": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def start_ray(size: int, **system: float) -> None:
    """Start a cluster of *size* cores on loopback, which ends with this process; *system* are settings of Ray."""
    import ray

    ray.init(
        num_cpus=size,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _system_config=system or None,
    )


def lose_a_node(source: str, out: str, *, is_lost: bool) -> dict[str, Any]:
    """Import with two nodes of one core, one of which *is_lost* after a tenth of the logs."""
    from ray.cluster_utils import Cluster

    from toyspec.convert import import_runs
    from toyspec.stores import Ray

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    seen = [0]

    def watch(*_: object) -> None:
        seen[0] += 1
        if is_lost and seen[0] == max(1, len(os.listdir(source)) // 10):
            cluster.remove_node(node, allow_graceful=False)

    started = time.perf_counter()
    report = import_runs(source, out, workers=Ray(cluster.address), watch=watch)
    seconds = time.perf_counter() - started
    cluster.shutdown()
    return {"seconds": seconds, "runs": len(report.runs), "digest": digest(out)}


def digest(root: str) -> str:
    """Return a digest of every file below *root*, with its path; *root* itself, which reports name, does not count."""
    found = hashlib.sha256()
    for path in sorted(Path(root).rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes().replace(root.encode(), b""))
    return found.hexdigest()


def hoard(items: list[int], *, poison: int) -> list[int]:
    """Return *items*; *poison* takes memory until it is ended, 16 GiB at most."""
    if poison in items:
        held = []
        for _ in range(64):
            held.append(b"x" * (_GIB // 4))
            time.sleep(0.1)
    return items


def lose_memory() -> dict[str, Any]:
    """Let one item of a work take more memory than Ray allows on this machine; return what became of all items."""
    from toyspec.core.workers.running import Work, results_of
    from toyspec.stores import Ray

    info = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    total, free = (1024 * int(info[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    start_ray(2, memory_usage_threshold=(total - free + 3 * _GIB) / total, memory_monitor_refresh_ms=100)
    work: Work[int, Any] = Work(partial(hoard, poison=_ITEMS // 2), lambda _: 1, lambda _, reason: reason)
    started = time.perf_counter()
    found = dict(results_of(range(_ITEMS), work, Ray("auto")))
    lost = {item: result for item, result in found.items() if result != item}
    return {"seconds": time.perf_counter() - started, "items": len(found), "lost": lost}


def _own_cpu() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


_JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "do": do,
    "node": lambda source, out, lost: lose_a_node(source, out, is_lost=lost == "lost"),
    "memory": lose_memory,
}


def measured(*words: str, **environment: str) -> dict[str, Any]:
    """Return what a job found, in a process of its own."""
    command = [sys.executable, __file__, "--job", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ | environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(directory: str, runs: int, logs: int, stored: int) -> dict[str, Any]:
    """Return all figures, for so many *runs* on disk, *logs* to import and runs *stored* in a bucket."""
    sources = {name: os.path.join(directory, name) for name in ("runs", "few", "logs")}
    write_runs(sources["runs"], runs)
    write_runs(sources["few"], runs // 10)
    write_logs(sources["logs"], logs)
    rows: list[dict[str, Any]] = []
    cases = [
        ("check", "runs", runs),
        ("catalog", "few", runs // 10),
        ("catalog", "runs", runs),
        ("import", "logs", logs),
    ]
    for name, source, count in cases:
        for crew in _CREWS:
            out = os.path.join(directory, f"{name}-{source}-{crew.replace(' ', '-')}")
            found = measured("do", name, sources[source], out, crew)
            rows.append({"job": name, "count": count, "crew": crew, **found})
            _say(rows[-1])
        made = {digest(os.path.join(directory, f"{name}-{source}-{crew.replace(' ', '-')}")) for crew in _CREWS}
        if name == "import" and len(made) != 1:
            raise SystemExit("the imports differ")
    with loopback_store.served() as store:
        for number in range(stored):
            store.put(f"runs/run-{number:08}/events.jsonl", bundle(number))
        for crew in _CREWS:
            found = measured("do", "check", f"s3://{loopback_store.BUCKET}/runs", "", crew, **loopback_store.s3(store))
            rows.append({"job": "check s3://", "count": stored, "crew": crew, **found})
            _say(rows[-1])
    nodes = {
        which: measured("node", sources["logs"], os.path.join(directory, f"import-node-{which}"), which)
        for which in ("kept", "lost")
    }
    return {"rows": rows, "nodes": nodes, "memory": measured("memory")}


def _say(row: dict[str, Any]) -> None:
    sys.stderr.write(f"{row['job']} {row['count']:,} {row['crew']}: {row['seconds']:.2f} s\n")


def page(found: dict[str, Any]) -> str:
    """Return the part of the page."""
    facts, rows = found["machine"], found["rows"]
    starts = sorted(row["start"] for row in rows if row["crew"].startswith("ray"))
    taken = (
        f"Taken with: processor {facts['processor']}, cores {facts['cores']}, Python {facts['Python']}, load before "
        f"{facts['load before']}; elapsed time. Ray takes {starts[0]:.1f} to {starts[-1]:.1f} s to start, which is not "
        "included. Memory is that of the process that gives the work."
    )
    heads = ["job", "1 process", "2 processes", "Ray, 1 worker", "Ray, 2 workers", "Ray, 2 against 1"]
    heads += ["memory, 2 processes", "memory, Ray, 2 workers"]
    lines = [taken, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for job, count in dict.fromkeys((row["job"], row["count"]) for row in rows):
        each = {row["crew"]: row for row in rows if (row["job"], row["count"]) == (job, count)}
        times = [each[crew]["seconds"] for crew in _CREWS]
        memory = [f"{each[crew]['memory'] / 1e6:.0f} MB" for crew in ("processes 2", "ray 2")]
        cells = [f"{_NAMES[job]}, {count:,}", *(f"{seconds:.1f} s" for seconds in times), f"{times[2] / times[3]:.2f}x"]
        lines.append(f"| {' | '.join(cells + memory)} |")
    kept, lost, hoarded = found["nodes"]["kept"], found["nodes"]["lost"], found["memory"]
    reported = "; ".join(f"item {item}, {reason}" for item, reason in hoarded["lost"].items())
    nodes = (
        f"An import of {kept['runs']:,} logs on two nodes of one core takes {kept['seconds']:.1f} s. If one node is "
        f"killed after a tenth of the logs, it takes {lost['seconds']:.1f} s, and what it makes is "
        f"{'the same' if kept['digest'] == lost['digest'] else '**different**'}, byte by byte."
    )
    ended = (
        f"Of {hoarded['items']} items, one took memory until Ray ended its worker, each time that it was tried. After "
        f"{hoarded['seconds']:.0f} s {hoarded['items'] - len(hoarded['lost'])} have their results, and reported is: "
        f"{reported}."
    )
    return "\n".join([*lines, "", nodes, "", ended, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, and with ``--publish`` write them for the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20_000, help="runs that are checked and go into a catalog")
    parser.add_argument("--logs", type=int, default=400, help="logs that are imported")
    parser.add_argument("--stored", type=int, default=1_000, help="runs in the store")
    parser.add_argument("--publish", action="store_true", help="write the page's part")
    options = parser.parse_args(arguments)
    facts = describe() | {"load before": load()}
    with tempfile.TemporaryDirectory(prefix="toyspec-ray-") as directory:
        found = {"machine": facts, **measure(directory, options.runs, options.logs, options.stored)}
    show(found, page(found), published=(_DATA, _PART) if options.publish else None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        sys.stdout.write(json.dumps(_JOBS[sys.argv[2]](*sys.argv[3:])) + "\n")
    else:
        main()
