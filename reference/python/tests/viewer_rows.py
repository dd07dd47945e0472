"""Writes what the viewer's server lists for runs of the corpus: its reader of folders must give the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toyspec.reading.log_detection import DialectChoice
from toyspec.view.curve_store import CurveStore
from toyspec.view.identities import NO_IDENTITY
from toyspec.view.scanning import Work, scan_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "conformance/cases"
ROWS = ROOT / "reference/viewer/test/rows.json"
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


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ROWS.write_text(text(Path(folder)), "utf-8")
