"""Measures a catalog at several sizes, on disk and in a store on loopback: ``make scale``."""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe, load
from toyspec import Catalog, build_catalog, update_catalog
from toyspec.places.addresses import path_in

_STEPS = (100, 300, 1000)
_CHANGED = 100
"""One run in so many changes before an update."""

_LISTED = 100_000
_HERE = Path(__file__).resolve()
_PART = _HERE.parents[3] / "docs/parts/catalog-scale.md"


def bundle(number: int) -> bytes:
    """Return the stream of the run *number*."""
    chance = random.Random(number)
    head = (
        f'{{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run-{number:07}",'
        f'"started_at":"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}T10:00:00Z",'
        f'"config":{{"lr":{chance.choice((1e-3, 3e-4))},"seed":{number}}}}}\n'
    )
    steps = "".join(
        f'{{"kind":"step","t":{step * 0.1:.1f},"step":{step},"loss":{4 / (step + 1) + chance.random():.5f},"lr":0.1}}\n'
        for step in range(chance.choices(_STEPS, (8, 2, 1))[0])
    )
    return f'{head}{steps}{{"kind":"run_end","t":999.0,"reason":"completed"}}\n'.encode()


def write_runs(root: str, count: int) -> None:
    """Write *count* runs below *root*."""
    for number in range(count):
        directory = os.path.join(root, f"run-{number:07}")
        os.makedirs(directory)
        Path(directory, "events.jsonl").write_bytes(bundle(number))


def change(root: str, count: int) -> None:
    """Change every hundredth run."""
    for number in range(0, count, _CHANGED):
        with open(os.path.join(root, f"run-{number:07}", "events.jsonl"), "ab") as file:
            file.write(b'{"kind":"run_end","t":1000.0,"reason":"completed"}\n')


def timed(work: object, *arguments: object, **options: object) -> float:
    """Return the wall time of one call of *work*."""
    began = time.perf_counter()
    work(*arguments, **options)  # type: ignore[operator]
    return time.perf_counter() - began


def on_disk(directory: str, count: int) -> list[str]:
    """Return the row of the table for *count* runs on disk."""
    root, out = os.path.join(directory, f"runs-{count}"), os.path.join(directory, f"catalog-{count}")
    write_runs(root, count)
    one, two = (timed(build_catalog, root, out=out, workers=workers) for workers in (1, 2))
    none = timed(update_catalog, out)
    change(root, count)
    some = timed(update_catalog, out, workers=2 if count > 2000 else 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shutil.rmtree(root)
    return [
        f"{count:,}", f"{count / one:,.0f}", f"{count / two:,.0f}", f"{some:.2f} s ({min(one, two) / some:.1f}x)",
        f"{none:.2f} s ({min(one, two) / none:.1f}x)", f"{peak:.0f} MB",
    ]  # fmt: skip


def in_a_store(directory: str, count: int) -> list[str]:
    """Return the row of the table for *count* runs in a store on loopback."""
    sys.path.insert(0, str(_HERE.parents[1] / "tests"))
    from loopback_store import BUCKET, s3, served

    with served() as store:
        os.environ |= s3(store)
        for number in range(count):
            store.put(path_in("runs", f"run-{number:07}/events.jsonl").lstrip("/"), bundle(number))
        out = os.path.join(directory, f"store-{count}")
        whole = timed(build_catalog, f"s3://{BUCKET}/runs", out=out)
        none = timed(update_catalog, out)
    return [f"{count:,}", f"{count / whole:,.0f}", f"{none:.2f} s ({whole / none:.1f}x)"]


def listing(directory: str) -> list[str]:
    """Return what listing a catalog of 100,000 rows costs: the first 20 rows, and all."""
    import duckdb

    root, out = os.path.join(directory, "few"), os.path.join(directory, "many")
    write_runs(root, 100)
    build_catalog(root, out=out)
    files = Catalog(out).files()
    table = f"read_parquet({files}, union_by_name = true)"
    rows = f"SELECT * REPLACE (stream || '-' || copy AS stream, run || '-' || copy AS run) FROM {table}"  # noqa: S608
    duckdb.sql(f"COPY ({rows}, range({_LISTED // 100}) each(copy)) TO '{files[0]}.all' (FORMAT parquet)")
    for file in files[1:]:
        os.unlink(file)
    os.replace(f"{files[0]}.all", files[0])
    from toyspec.catalog.layout import read_manifest, write_manifest

    known = read_manifest(out)
    known.runs, known.count = known.runs[:1], _LISTED
    write_manifest(out, known)
    command = [sys.executable, "-m", "toyspec", "ls", "--catalog", out]
    first = min(timed(subprocess.run, [*command, "-n", "20"], stdout=subprocess.DEVNULL, check=True) for _ in range(3))
    every = timed(subprocess.run, command, stdout=subprocess.DEVNULL, check=True)
    return [f"{first:.2f} s", f"{every:.1f} s"]


def main() -> None:
    """Print the figures, and with ``--publish`` write them for the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000, help="largest number of runs")
    parser.add_argument("--publish", action="store_true", help="write the page's part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="toyspec-scale-") as directory:
        sizes = [10**power for power in range(2, 6) if 10**power <= options.most]
        disk = [on_disk(directory, size) for size in sizes]
        store = [in_a_store(directory, size) for size in sizes if size <= 1000]
        first, every = listing(directory)
    facts = describe()
    text = "\n".join([
        f"Taken with: processor {facts['processor']}, cores {facts['cores']}, Python {facts['Python']}, load {load()}.",
        "",
        "| runs on disk | build, runs/s, 1 worker | 2 workers | update, 1 % changed | update, none changed | memory |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in disk),
        "",
        "| runs in a store on loopback | build, runs/s | update, none changed |",
        "|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in store),
        "",
        f"`toyspec ls --catalog -n 20` of 100,000 runs takes {first}, and the whole table {every}.",
        "",
    ])  # fmt: skip
    sys.stdout.write(text)
    if options.publish:
        _PART.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
