"""Writes what Python reads of runs of the corpus and of other programs' logs: the viewer's folders must be read so.

The entries of the files that have a log of their own, with any damage, are written there by hand.
"""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_rows import SOURCES, logs_of
from toyspec import read
from toyspec.core.errors import StreamError
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.run_files import rank_file
from toyspec.core.runs.groups import BANDS, are_ordered, group_name, groups_of, keys_without, mean_of, resampled
from toyspec.view.curve_store import CurveStore
from toyspec.view.details import shown_ranks
from toyspec.view.opened_files import NO_IDENTITY
from toyspec.view.scanning import ScanWork, scan_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "conformance/cases"
ROWS = ROOT / "reference/viewer/test/rows.json"
DIALECT_ROWS = ROOT / "reference/viewer/test/dialect-rows.json"
RANKS = ROOT / "reference/viewer/test/ranks.json"
GROUPS = ROOT / "reference/viewer/test/groups.json"
FOLDERS = (
    *(f"toy-v1/{name}" for name in ("canonical", "golden", "numbers", "nul-bytes", "resumption", "state", "views")),
    *(f"metrics-v1/{name}" for name in ("canonical", "numbers", "torn", "views")),
    "kaun-v1/views",
)
FACTS = (
    *(
        "run_id",
        "name",
        "group",
        "tags",
        "state",
        "profile",
        "started_at",
        "seconds",
        "last_step",
        "final_loss",
        "reason",
    ),
    *("ended", "error", "first_step", "progress", "remaining", "config", "metrics"),
)


def streams() -> Iterator[Path]:
    """Yield the streams of the folders."""
    for folder in FOLDERS:
        for name in ("events.jsonl", "metrics.jsonl"):
            # A manifest is not in the stream.
            every = sorted((CASES / folder).glob(f"*/{name}"))
            yield from (path for path in every if not path.with_name("run.json").exists())


def row_of(path: Path, cache: Path, *more: str) -> dict[str, Any] | None:
    """Return what the server lists of the stream at *path*, as far as it is compared; None if it cannot be read."""
    row = scan_stream(ScanWork(str(path), path.parent.name, NO_IDENTITY), CurveStore(str(cache)), DialectChoice()).row
    return None if row is None or row["message"] is not None else {name: row[name] for name in (*more, *FACTS)}


def made(path: Path, member: str) -> dict[str, Any]:
    """Return what the entries of a file have as their logs, by their names: they are written there by hand."""
    entries: dict[str, dict[str, Any]] = json.loads(path.read_bytes())
    return {name: entry[member] for name, entry in entries.items() if member in entry}


def text(cache: Path) -> str:
    """Return the file: a line for each stream of the corpus, and for each that the file has, with its bytes."""
    found = {path.relative_to(CASES).as_posix(): row_of(path, cache) for path in streams()}
    every = {name: row for name, row in found.items() if row is not None}
    for name, content in made(ROWS, "bytes").items():
        path = cache / name
        path.parent.mkdir()
        path.write_text(content)
        every[name] = {"bytes": content, **(row_of(path, cache) or {})}
    lines = [f"  {json.dumps(path)}: {json.dumps(row)}" for path, row in every.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def dialect_logs() -> Iterator[Path]:
    """Yield the samples of dialects and the logs of other programs in the corpus."""
    known = (ROOT / "reference/viewer/src/dialects/tables.ts").read_text("utf-8")
    # The viewer's reader of folders does not have every form.
    yield from (path for name in SOURCES if f'"name": "{name}"' in known for path in logs_of(name))
    yield from sorted(file for file in CASES.glob("none/*/*/*") if file.is_file() and file.name != "case.json")


def damaged(data: bytes) -> bytes:
    """Return a log with a line that cannot be read in its middle, and a torn end."""
    middle = data.find(b"\n", len(data) // 2) + 1
    return data[:middle] + b"\0 lost \xff\n" + data[middle:-5]


def said(source: Path) -> dict[str, Any] | None:
    """Return what a log says by its dialect; None where it is of none."""
    try:
        reading = read(source, mode="salvage")
        rows = list(reading)
    except StreamError:
        return None
    use = reading.report.dialect
    if use is None:
        return None
    keys = {"name": use.name, "step": use.step, "time": use.time, "epoch": use.epoch, "phase": use.phase}
    gaps = [[gap.line, gap.offset, gap.length, gap.reason] for gap in reading.report.gaps]
    return {"read_as": keys, "state": reading.report.state, "gaps": gaps, "rows": list(map(_said_by, rows))}


def _said_by(row: Any) -> dict[str, Any]:
    values = {name: value if value is None or isfinite(value) else str(value) for name, value in row.values.items()}
    said = {"step": row.step, "time": row.time, "epoch": row.epoch, "phase": row.phase}
    return {"line": row.line, "offset": row.offset, "values": values} | said


def dialect_text(cache: Path) -> str:
    """Return the file of the logs of other programs: a line for each, with the row that the server lists."""
    lines = []
    for path in dialect_logs():
        found = said(path)
        if found is not None:
            name = path.relative_to(ROOT).as_posix()
            lines.append(f"  {json.dumps(name)}: {json.dumps(found | {'row': row_of(path, cache, 'dialect')})}")
            broken = cache / path.name
            broken.write_bytes(damaged(path.read_bytes()))
            if (salvaged := said(broken)) is not None:
                lines.append(f"  {json.dumps(f'{name}#damaged')}: {json.dumps(salvaged)}")
    for name, content in made(DIALECT_ROWS, "bytes").items():
        file = cache / "made" / name.split("#")[0]
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content.encode("latin-1"))
        read_of_it = said(file)
        assert read_of_it is not None, name
        entry = {"bytes": content} | read_of_it | {"row": row_of(file, cache, "dialect")}
        lines.append(f"  {json.dumps(name)}: {json.dumps(entry)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def ranks_text() -> str:
    """Return the file of the runs of several processes: a line for each, with what the server gives for its ranks."""
    lines = []
    for folder in sorted({path.parent for path in CASES.glob("*/*/*/events.rank-*.jsonl")}):
        stream = folder / "events.jsonl"
        if stream.is_file():
            found = shown_ranks(str(stream), "run")
            lines.append(f"  {json.dumps(folder.relative_to(CASES).as_posix())}: {json.dumps(found)}")
    for name, files in made(RANKS, "files").items():
        with tempfile.TemporaryDirectory() as directory:
            for file, content in files.items():
                Path(directory, file).write_text(content)
            found = shown_ranks(os.path.join(directory, rank_file(0)), "run")
        lines.append(f"  {json.dumps(name)}: {json.dumps({'files': files, 'ranks': found})}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def groups_text() -> str:
    """Return the file of groups: a line for each group of curves or runs, drawn at random, with what they come to."""
    drawing = random.Random(46)
    drawn: list[Callable[[], float]] = [
        lambda: 65536.0,
        lambda: drawing.choice([0.1, 0.1 + 0.2]),
        lambda: drawing.gauss(2, 1),
        lambda: 1.7e308,
    ]
    known: list[dict[str, Any]] = []
    for at in range(16):
        value, ends = drawn[at % 4], [drawing.randint(1, 6) for _ in range(at % 6 + 1)]
        rows = [[value() if place < end else nan for place in range(6)] for end in ends]
        signs = [[drawing.choice([1, 1, 1, -1, nan]) * each for each in row] for row in rows]
        band = [*BANDS][at // 2 % 4]
        known += [{"rows": each, "band": band, "mean": mean_of(each, band)} for each in (rows, signs)]
        places = sorted(drawing.sample(range(12), 4))
        wanted = sorted({*drawing.sample(range(12), 6), places[1]})
        first = places[0] - drawing.randint(0, 2)
        curve: dict[str, Any] = {
            "places": places,
            "values": [each[0] for each in signs * 4][:4],
            "wanted": wanted,
            "first": first,
        }
        known.append(curve | {"at": resampled(**curve)})
        values = [0.0001, 0.003, 0.001, 0.01, 1, 1e-8, None, "r10", "r9", "R9", True, False, "Ä", ""]
        rates = [[drawing.choice(values[: 6 if at % 2 else None])] * (1 + at % 2) for _ in range(6)]
        keys = [["config.lr"], ["config.a.lr", ["wd", "config.lr"][at % 4 // 2]]][at % 2]
        parts = groups_of(rates)
        named = {"members": [each.members for each in parts], "names": [group_name(keys, each) for each in parts]}
        known.append({"keys": keys, "values": rates, **named, "ordered": are_ordered(parts)})
        settings = [
            {"seed": seed, "a.lr": rate, "b": at % 3, "out": f"{seed}-{rate}"} for seed, [rate, *_] in enumerate(rates)
        ]
        known.append(
            {"settings": settings, "without": (name := ["seed", "lr"][at % 2]), "keys": keys_without(settings, name)}
        )
    return "[\n" + ",\n".join(re.sub("NaN", "null", f"  {json.dumps(each)}") for each in known) + "\n]\n"


if __name__ == "__main__":
    GROUPS.write_text(groups_text(), "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        ROWS.write_text(text(Path(folder)), "utf-8")
        RANKS.write_text(ranks_text(), "utf-8")
        DIALECT_ROWS.write_text(dialect_text(Path(folder)), "utf-8")
