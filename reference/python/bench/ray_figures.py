"""Measures a catalog that a Ray cluster builds, beside processes of this machine: ``make bench-ray``.

Each job is a process of its own, so that its memory is its own. Nodes of the cluster are on this machine, on loopback.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import describe, load
from scale_runs import bundle, write_logs, write_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).resolve()
_PART = _HERE.parents[3] / "docs/parts/ray-cluster.md"

sys.path.insert(0, str(_HERE.parents[1] / "tests"))
from loopback_store import BUCKET, forget, s3, served  # noqa: E402 - it is of the tests


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """Start a cluster with *nodes* of one core each, beside a head that does no work; yield it."""
    import ray
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(nodes):
        started.add_node(num_cpus=1)
    try:
        yield started
    finally:
        ray.shutdown()
        started.shutdown()


def build(root: str, out: str, crew: str) -> dict[str, Any]:
    """Build a catalog of the runs at *root* with *crew*, such as ``processes-2`` or ``ray-2``."""
    from toyspec import build_catalog
    from toyspec.distributed import Ray

    kind, _, number = crew.partition("-")
    with ExitStack() as stack:
        workers: Any = int(number)
        if kind == "ray":
            workers = Ray(stack.enter_context(cluster(int(number))).address)
        began = time.perf_counter()
        report = build_catalog(root, out=out, workers=workers)
        seconds = time.perf_counter() - began
    return {"runs": report.runs, "seconds": seconds, "memory": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


def lose_a_node(root: str, out: str) -> dict[str, Any]:
    """Import the logs at *root* while a node of three is killed, after the third part of the bytes."""
    from toyspec.convert import import_runs
    from toyspec.distributed import Ray

    with cluster(2) as started:
        node, lost = started.add_node(num_cpus=1), []

        def watch(done: int, total: int) -> None:
            if not lost and 3 * done > total:
                lost.append(done / total)
                started.remove_node(node, allow_graceful=False)

        began = time.perf_counter()
        report = import_runs(root, out, workers=Ray(started.address), watch=watch)
        seconds = time.perf_counter() - began
    return {"runs": len(report.runs), "errors": len(report.errors), "seconds": seconds, "lost": lost}


def measured(name: str, *words: str) -> dict[str, Any]:
    """Return what the function *name* gives, in a process of its own."""
    command = [sys.executable, str(_HERE), "--job", name, *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(directory: str, count: int, stored: int) -> dict[str, Any]:
    """Return all figures of *count* runs on disk and *stored* runs in a store."""
    runs, logs = os.path.join(directory, "runs"), os.path.join(directory, "logs")
    write_runs(runs, count)
    write_logs(logs, 1000)
    found: dict[str, Any] = {"machine": describe() | {"load before": load()}}
    crews = ("processes-1", "processes-2", "ray-1", "ray-2")
    found["disk"] = {crew: measured("build", runs, os.path.join(directory, crew), crew) for crew in crews}
    with served() as store:
        os.environ |= s3(store)
        forget()
        for number in range(stored):
            store.put(f"runs/run-{number:08}/events.jsonl", bundle(number))
        source = f"s3://{BUCKET}/runs"
        found["store"] = {crew: measured("build", source, os.path.join(directory, f"s-{crew}"), crew) for crew in crews}
    found["lost"] = measured("lose_a_node", logs, os.path.join(directory, "imported"))
    return found


def page(found: dict[str, Any]) -> str:
    """Return the part of the page."""
    facts, lost = found["machine"], found["lost"]
    titles = {"processes": "processes", "ray": "nodes of Ray"}
    lines = [
        f"Taken with: processor {facts['processor']}, cores {facts['cores']}, Python {facts['Python']}, load before "
        f"{facts['load before']}; nodes of the cluster are on the same machine, of one core each.",
        "",
        "| source | workers | runs | seconds | runs/s | memory of the process that asks |",
        "|---|---|---|---|---|---|",
    ]
    for source, title in (("disk", "disk"), ("store", "`s3://` on loopback")):
        for crew, each in found[source].items():
            kind, _, number = crew.partition("-")
            lines.append(
                f"| {title} | {number} {titles[kind]} | {each['runs']:,} | {each['seconds']:.1f} | "
                f"{each['runs'] / each['seconds']:,.0f} | {each['memory'] / 1e6:.0f} MB |"
            )
    lines += [
        "",
        f"A node of three was killed after {100 * lost['lost'][0]:.0f} % of an import of 1,000 logs: {lost['runs']:,} runs "
        f"were imported in {lost['seconds']:.1f} s, with {lost['errors']} errors.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the figures, and with ``--publish`` write them for the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="number of runs on disk")
    parser.add_argument("--stored", type=int, default=1000, help="number of runs in the store")
    parser.add_argument("--publish", action="store_true", help="write the page's part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="toyspec-ray-") as directory:
        text = page(measure(directory, options.runs, options.stored))
    sys.stdout.write(text)
    if options.publish:
        _PART.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        chosen = {"build": build, "lose_a_node": lose_a_node}[sys.argv[2]]
        sys.stdout.write(json.dumps(chosen(*sys.argv[3:])) + "\n")
    else:
        main()
