"""Measures a catalog at several sizes, on disk and in a store: ``nox -s scale``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import describe, load
from scale_runs import bundle, change, write_runs
from toyspec import build_catalog, update_catalog
from toyspec.core import engine
from toyspec.core.places.addresses import path_in
from toyspec.core.runs.discovery import find_streams

_HERE = Path(__file__).resolve()
_DOCS = _HERE.parents[3] / "docs"
_PART = _DOCS / "parts/catalog-scale.md"
_DATA = _DOCS / "assets/bench-scale.json"
_LISTED = 50_000
"""Objects of a listing that is timed."""

sys.path.insert(0, str(_HERE.parents[1] / "tests"))
from loopback_store import BUCKET, forget, many_objects, s3, served  # noqa: E402 - it is of the tests


def timed(work: object, *arguments: object, **options: object) -> float:
    """Return the wall time of one call of *work*."""
    began = time.perf_counter()
    work(*arguments, **options)  # type: ignore[operator]
    return time.perf_counter() - began


def on_disk(directory: str, count: int) -> dict[str, float]:
    """Return the seconds that *count* runs on disk take, and the most memory of this process so far, in bytes."""
    root, out = os.path.join(directory, f"runs-{count}"), os.path.join(directory, f"catalog-{count}")
    write_runs(root, count)
    one, two = (timed(build_catalog, root, out=out, workers=workers) for workers in (1, 2))
    none = statistics.median(timed(update_catalog, out) for _ in range(3))
    change(root, count)
    some = timed(update_catalog, out, workers=2 if count > 2000 else 1)
    shutil.rmtree(root)
    memory = most_memory()
    return {"runs": count, "one": one, "two": two, "some": some, "none": none, "memory": memory}


def most_memory() -> int:
    """Return the most memory that this program has had, in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def in_a_store(directory: str, count: int) -> dict[str, float]:
    """Return the seconds that *count* runs in a store on loopback take."""
    with served() as store:
        os.environ |= s3(store)
        forget()
        for number in range(count):
            store.put(path_in("runs", f"run-{number:08}/events.jsonl").lstrip("/"), bundle(number))
        out = os.path.join(directory, f"store-{count}")
        whole = timed(build_catalog, f"s3://{BUCKET}/runs", out=out)
        none = timed(update_catalog, out)
    return {"runs": count, "build": whole, "none": none}


def listing() -> dict[str, float]:
    """Return the number of requests that a listing takes, and the seconds for each."""
    with served() as store:
        os.environ |= s3(store)
        forget()
        store.every = many_objects(_LISTED)
        seconds = timed(lambda: list(find_streams(f"s3://{BUCKET}/data")))
        return {"objects": _LISTED, "requests": len(store.requests), "seconds": seconds / len(store.requests)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return all figures."""
    with tempfile.TemporaryDirectory(prefix="toyspec-scale-", dir=options.directory) as directory:
        sizes = [10**power for power in range(2, 6) if 10**power <= options.most]
        before = load()
        return {
            "machine": describe() | {"engine": engine.choice().name, "load before": before},
            "disk": [on_disk(directory, size) for size in sizes],
            "store": [in_a_store(directory, size) for size in sizes if size <= options.most_in_a_store],
            "listing": listing(),
        }


def page(found: dict[str, Any]) -> str:
    """Return the part of the page."""
    facts, each = found["machine"], found["listing"]
    rows = [
        f"| {row['runs']:,} | {row['runs'] / row['one']:,.0f} | {row['runs'] / row['two']:,.0f} | "
        f"{row['some']:.2f} s ({min(row['one'], row['two']) / row['some']:.1f}x) | "
        f"{row['none']:.2f} s ({min(row['one'], row['two']) / row['none']:.1f}x) | {row['memory'] / 1e6:.0f} MB |"
        for row in found["disk"]
    ]
    stored = [
        f"| {row['runs']:,} | {row['runs'] / row['build']:,.0f} | "
        f"{row['none']:.2f} s ({row['build'] / row['none']:.1f}x) |"
        for row in found["store"]
    ]
    machine = (
        f"Taken with: processor {facts['processor']}, cores {facts['cores']}, Python {facts['Python']}, "
        f"engine {facts['engine']}, load before {facts['load before']}."
    )
    listed = (
        f"A store lists 1,000 objects for a request. On loopback one takes {each['seconds'] * 1e3:.1f} ms, "
        f"so a list of 10 million objects takes 10,000 requests and {each['seconds'] * 10_000:.0f} s. "
        "Over a network, add 10,000 times the way there and back. At the list prices of S3 Standard in us-east-1 of "
        "November 2026 (0.005 dollars for 1,000 LIST requests, 0.0004 for 1,000 GET), such a list costs 0.05 dollars, "
        "and 4 dollars are added for each request that every run takes when it is read for the first time."
    )
    heads = ("build, runs/s, 1 worker", "2 workers", "update, 1 % changed", "update, none changed", "memory")
    lines = [machine, "", f"| runs on disk | {' | '.join(heads)} |", "|---|---|---|---|---|---|", *rows, ""]
    lines += ["| runs in a store on loopback | build, runs/s | update, none changed |", "|---|---|---|", *stored, ""]
    return "\n".join([*lines, listed, ""])


def main() -> None:
    """Print the figures, and with ``--publish`` write them for the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000, help="largest number of runs on disk")
    parser.add_argument("--most-in-a-store", type=int, default=1000, help="largest number of runs in the store")
    parser.add_argument("--directory", help="where the runs are made; default: the directory of temporary files")
    parser.add_argument("--publish", action="store_true", help="write the page's part")
    options = parser.parse_args()
    found = measure(options)
    text = page(found)
    sys.stdout.write(text)
    if options.publish:
        _DATA.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        _PART.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
