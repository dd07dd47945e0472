"""Writes what Python reads of runs of the corpus and of other programs' logs: the viewer's folders must be read so."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toyspec import read
from toyspec.errors import StreamError
from toyspec.reading.log_detection import DialectChoice
from toyspec.view.curve_store import CurveStore
from toyspec.view.identities import NO_IDENTITY
from toyspec.view.scanning import Work, scan_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "conformance/cases"
ROWS = ROOT / "reference/viewer/test/rows.json"
SAMPLES = Path(__file__).parent / "dialects"
DIALECT_ROWS = ROOT / "reference/viewer/test/dialect-rows.json"
FOLDERS = (
    *(f"toy-v1/{name}" for name in ("canonical", "golden", "numbers", "nul-bytes", "resumption", "state", "views")),
    *(f"metrics-v1/{name}" for name in ("canonical", "numbers", "torn", "views")),
)
FACTS = (
    *("run_id", "name", "group", "tags", "state", "profile", "started", "seconds", "steps", "final_loss", "reason"),
    *("progress", "config", "metrics"),
)


def streams() -> Iterator[Path]:
    """Yield the streams of the folders."""
    for folder in FOLDERS:
        for name in ("events.jsonl", "metrics.jsonl"):
            yield from sorted((CASES / folder).glob(f"*/{name}"))


def rows(cache: Path) -> dict[str, dict[str, Any]]:
    """Return what the server lists of each stream, by its path below the corpus."""
    store, found = CurveStore(str(cache)), {}
    for path in streams():
        row = scan_stream(Work(str(path), path.parent.name, NO_IDENTITY), store, DialectChoice()).row
        if row is not None and row["message"] is None:
            found[path.relative_to(CASES).as_posix()] = {name: row[name] for name in FACTS}
    return found


def text(cache: Path) -> str:
    """Return the file: a line for each run."""
    lines = [f"  {json.dumps(path)}: {json.dumps(row)}" for path, row in rows(cache).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def dialect_logs() -> Iterator[Path]:
    """Yield the samples of dialects and the logs of other programs in the corpus."""
    for folder in sorted(SAMPLES.iterdir()):
        yield folder / json.loads((folder / "sample.json").read_bytes())["file"]
    yield from sorted(file for file in CASES.glob("none/*/*/*") if file.is_file() and file.name != "case.json")


def damaged(data: bytes) -> bytes:
    """Return a log with a line that cannot be read in its middle, and a torn end."""
    middle = data.find(b"\n", len(data) // 2) + 1
    return data[:middle] + b"\0 lost \xff\n" + data[middle:-5]


def said(source: Any) -> dict[str, Any] | None:
    """Return what a log says by its dialect; None where it is of none."""
    try:
        reading = read(source, mode="salvage")
        rows = list(reading)
    except StreamError:
        return None
    if reading.read_as is None:
        return None
    use = reading.read_as.use
    keys = {"name": use.name, "step": use.step, "time": use.time, "epoch": use.epoch, "phase": use.phase}
    gaps = [[gap.line, gap.offset, gap.length, gap.reason] for gap in reading.report.gaps]
    return {"read_as": keys, "state": reading.report.state, "gaps": gaps, "rows": list(map(_said_by, rows))}


def _said_by(row: Any) -> dict[str, Any]:
    values = {name: value if value is None or isfinite(value) else str(value) for name, value in row.values.items()}
    said = {"step": row.step, "time": row.time, "epoch": row.epoch, "phase": row.phase}
    return {"line": row.line, "offset": row.offset, "attempt": row.attempt, "values": values} | said


def dialect_text(cache: Path) -> str:
    """Return the file of the logs of other programs: a line for each, with the row that the server lists."""
    store, lines = CurveStore(str(cache)), []
    for path in dialect_logs():
        found = said(path)
        if found is not None:
            row = scan_stream(Work(str(path), path.name, NO_IDENTITY), store, DialectChoice()).row
            assert row is not None
            listed = {name: row[name] for name in ("dialect", *FACTS)}
            name = path.relative_to(ROOT).as_posix()
            lines.append(f"  {json.dumps(name)}: {json.dumps(found | {'row': listed})}")
        if found is not None and path.is_file():
            broken = cache / path.name
            broken.write_bytes(damaged(path.read_bytes()))
            if (salvaged := said(broken)) is not None:
                lines.append(f"  {json.dumps(f'{name}#damaged')}: {json.dumps(salvaged)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ROWS.write_text(text(Path(folder)), "utf-8")
        DIALECT_ROWS.write_text(dialect_text(Path(folder)), "utf-8")
