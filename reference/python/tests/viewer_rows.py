"""Writes what Python reads of runs of the corpus and of other programs' logs: the viewer's folders must be read so."""

from __future__ import annotations

import json
import os
import tempfile
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_rows import SOURCES, sample_of
from toyspec import read
from toyspec.core.checker import CheckOptions, iter_reports
from toyspec.core.errors import StreamError
from toyspec.core.findings import FileReport
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.run_files import rank_file
from toyspec.view.curve_store import CurveStore
from toyspec.view.details import shown_ranks
from toyspec.view.opened_files import NO_IDENTITY
from toyspec.view.scanning import ScanWork, scan_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "conformance/cases"
ROWS = ROOT / "reference/viewer/test/rows.json"
DIALECT_ROWS = ROOT / "reference/viewer/test/dialect-rows.json"
RANKS = ROOT / "reference/viewer/test/ranks.json"
FOLDERS = (
    *(f"toy-v1/{name}" for name in ("canonical", "golden", "numbers", "nul-bytes", "resumption", "state", "views")),
    *(f"metrics-v1/{name}" for name in ("canonical", "numbers", "torn", "views")),
    "kaun-v1/views",
)
MADE = {
    # A power loss, in a log that is shorter than what it is recognized by.
    "power-loss.jsonl": [
        b'{"step": 1, "loss": 2.5}',
        b'{"step": 2, "loss": 2.25}',
        bytes(40),
        b'{"step": 4, "loss": 2.0}',
        bytes(40),
    ],
    # An evaluation after more records than the keys are looked for in, with names that its phase is part of.
    "late.metrics.jsonl": [
        *(b'{"step":%d,"loss":2.5,"value_loss":1}' % step for step in range(1, 61)),
        b'{"step":60,"phase":"val","loss":0.5,"val":{"loss":0.75,"val":{"loss":1}},"value_loss":0.25,"val_acc":0.125}',
        b"",
    ],
    "metrics.jsonl": (
        b'{"step":1,"loss":1.5,"lr":0.1}',
        b'{"step":2,"loss":2.5,"loss":3.5}',
        b'{"step" : 3,"lr":{"a":1,"a":2}}\r',
        b'{"step":2,"loss":1.25}',
        b'{"step":3,"a/b":1,"a":{"b":2}}',
        b"",
        b" \r",
        b'{"step":4,"loss":"1.02nan","lr":"it\'s \\\\ 1"}',
        b'{"step":4,"loss":1,"text":"x"}{"step":5}',
        b'{"step":6,"loss":NaN,"lr":[1,]}',
        b'{"step":6,"loss":-Infinity,"loss":NaN}',
        b'{"step":1,"loss":.5}',
        b"\xff\xfe",
        b"[1]",
        b'{"step":7',
    ),
    "metrics.csv": (
        b"step,loss,loss,note",
        b"1,0.5,0.25,a",
        b"2,1.02nan,0.5,b",
        b'3,nan,"1,5",c',
        b"1,,NA,\r",
        b"4,0.5",
        b"step,loss,loss,note",
        b"5,1,2,3",
    ),
    "trainer_state.json": (
        b"{",
        b' "log_history": [',
        b'  {"step": 1, "loss": 2.5, "loss": 2.25},',
        b'  {"step": 2, "loss": "1.5x"},',
        b'  {"step": 0, "loss": .5},',
        b'  {"step": 3,',
        b'   "loss": 1}',
    ),
    "progress.csv": (b"step,loss", b""),
    "written.csv": (
        b",loss,acc,tokens",
        b'0,2.5,12.5%,"1,234,567"',
        b'1,2.25,-1 %,"1,000"',
        b"2,\x1b[1m2.0\x1b[0m,3,4",
        b"",
    ),
    "data.csv": (b"step,price", b"1,2.5", b""),
    "steps.csv": (b"step,loss", b"0,1.5", b"1e400,0.5", b"-inf,0.75", b"3,0.25", b""),
}
"""Lines of logs with what a check can find, by their names."""


_START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "made", "config": {}}
RUNS: dict[str, list[dict[str, Any]]] = {
    "results-of-all-types": [
        {"kind": "eval", "t": 1.0, "step": 1, "name": "val", "loss": 0.5, "own": {"f": 2.5}, "extra": {
            "flag": True, "off": False, "null": None, "text": "x", "recall": [0.5, None, True], "empty": {}, "no": [],
            "mixed": [1, {"a": 2}], "nested": {"a": 1.5, "b": {"c": True, "d": "t", "e": [1, 2]}}, "rows": [[1, 2]],
            "loss": 4.0, "recall/0": 3.0, "many": [1] * 257, "__proto__": 7.5,
        }},
        {"kind": "rollout", "t": 2.0, "step": 2, "won": True, "x": None, "nonfinite": {"x": "nan"}, "list": [1, 2]},
        {"kind": "compare", "t": 2.5, "step": 2, "verdict": "better", "ppl_ratio": 1.5, "own": False},
    ],
    "steps-with-other-values": [
        {"kind": "step", "t": at * 1.0, "step": at, "loss": 1.0 / at, "extra": {"mfu": 0.5, "flag": at % 2 == 0}}
        for at in range(1, 9)
    ] + [
        {"kind": "scalars", "t": 9.0, "step": 9, "values": {"on": True, "x": 1.5, "inner": {"a": [2.5]}}},
        {"kind": "step", "t": 10.0, "step": 10, "loss": 0.05, "own": False, "extra": {"a": {"b": 1}, "s": "t"}},
    ],
    "loss-that-was-only-logged": [
        {"kind": "scalars", "t": at * 1.0, "step": at, "values": {"train_loss": 2.0 - at / 10, "acc": 0.5}}
        for at in range(3)
    ],
}  # fmt: skip
"""Records of runs with values that few programs log, by their names."""


def _rank_log(rank: int, records: Iterable[dict[str, Any]]) -> bytes:
    start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "llama", "rank": rank, "world_size": 5}
    every = [start | {"started_at": "2026-01-01T00:00:00Z"}, *records]
    return b"".join(json.dumps(each).encode() + b"\n" for each in every)


def _rank_steps(last: int, seconds: float = 1.0, **more: Any) -> list[dict[str, Any]]:
    steps = ({"kind": "step", "t": at * seconds, "step": at, "loss": 1.0 / at} for at in range(1, last + 1))
    return [each | more for each in steps]


_INTERRUPTED = {"kind": "run_end", "t": 60.0, "reason": "interrupted"}
_WENT_ON = [
    {"kind": "run_resume", "t": 20.0, "from_step": 9, "world_size": 2},
    {"kind": "step", "t": 21.0, "step": 10, "loss": 0.5},
]
RANK_LOGS = {
    "computes-longest": {
        rank: _rank_log(rank, [*_rank_steps(9, compute_us=1500 if rank == 1 else 1000), _INTERRUPTED])
        for rank in (0, 1, 3)
    },
    "steps-take-longest": {rank: _rank_log(rank, _rank_steps(9, 1.5 if rank == 2 else 1.0)) for rank in (0, 1, 2)},
    "without-an-end": {rank: _rank_log(rank, _rank_steps(9) + [_INTERRUPTED] * (rank != 2)) for rank in (0, 1, 2)},
    "went-on-with-fewer": {
        rank: _rank_log(
            rank,
            [
                *_rank_steps(9, 2.0 if rank == 4 else 1.0),
                *(_WENT_ON if rank < 2 else []),
            ],
        )
        for rank in (0, 1, 4)
    },
    "resumed-with-fewer": {
        rank: _rank_log(
            rank,
            [
                *_rank_steps(9),
                {"kind": "run_resume", "t": 9.5, "from_step": 4, "resumed_at": "2026-01-01T01:00:00Z", "world_size": 2},
                *(
                    {"kind": "step", "t": 10.0 + at, "step": at, "loss": None if rank else 0.5}
                    for at in range(5, 8 + rank)
                ),
                {"kind": "scalars", "t": 20.0, "step": 8, "values": {f"of_{rank}": rank, "both": -rank}},
            ],
        )
        for rank in (0, 1)
    },
}
"""Streams of ranks by the names of runs, for what no case of the corpus asks."""

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


def rows(cache: Path) -> dict[str, dict[str, Any]]:
    """Return what the server lists of each stream, by its path below the corpus."""
    store, found = CurveStore(str(cache)), {}
    for path in streams():
        row = scan_stream(ScanWork(str(path), path.parent.name, NO_IDENTITY), store, DialectChoice()).row
        if row is not None and row["message"] is None:
            found[path.relative_to(CASES).as_posix()] = {name: row[name] for name in FACTS}
    return found


def made_rows(cache: Path) -> dict[str, dict[str, Any]]:
    """Return the same of the ``RUNS``, with their bytes."""
    store, found = CurveStore(str(cache)), {}
    for name, records in RUNS.items():
        path = cache / name / "events.jsonl"
        path.parent.mkdir()
        path.write_text("".join(json.dumps(record) + "\n" for record in [_START, *records]))
        row = scan_stream(ScanWork(str(path), name, NO_IDENTITY), store, DialectChoice()).row
        assert row is not None
        found[f"{name}/events.jsonl"] = {"bytes": path.read_text()} | {fact: row[fact] for fact in FACTS}
    return found


def text(cache: Path) -> str:
    """Return the file: a line for each run."""
    every = rows(cache) | made_rows(cache)
    lines = [f"  {json.dumps(path)}: {json.dumps(row)}" for path, row in every.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def dialect_logs() -> Iterator[Path]:
    """Yield the samples of dialects and the logs of other programs in the corpus."""
    known = (ROOT / "reference/viewer/src/dialects/tables.ts").read_text("utf-8")
    # The viewer's reader of folders does not have every form.
    yield from (sample_of(name) for name in SOURCES if f'"name": "{name}"' in known)
    yield from sorted(file for file in CASES.glob("none/*/*/*") if file.is_file() and file.name != "case.json")


def damaged(data: bytes) -> bytes:
    """Return a log with a line that cannot be read in its middle, and a torn end."""
    middle = data.find(b"\n", len(data) // 2) + 1
    return data[:middle] + b"\0 lost \xff\n" + data[middle:-5]


def said(source: Path) -> dict[str, Any] | None:
    """Return what a log says by its dialect, and what a check finds in it; None where it is of none."""
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
    return {"read_as": keys, "state": reading.report.state, "gaps": gaps, "findings": _found(source)} | {
        "rows": list(map(_said_by, rows))
    }


def _found(source: Path) -> list[list[Any]]:
    """Return what a check finds, in the order of the report; the numbers that it only counts come last."""
    [report] = iter_reports([str(source)], options=CheckOptions())
    assert isinstance(report, FileReport)
    found: list[list[Any]] = [
        [each.rule, each.severity, each.line, each.offset, each.pointer, each.message, each.help]
        for each in report.findings
    ]
    return found + [[rule, count] for rule, count in sorted(report.suppressed.items())]


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
            row = scan_stream(ScanWork(str(path), path.name, NO_IDENTITY), store, DialectChoice()).row
            assert row is not None
            listed = {name: row[name] for name in ("dialect", *FACTS)}
            name = path.relative_to(ROOT).as_posix()
            lines.append(f"  {json.dumps(name)}: {json.dumps(found | {'row': listed})}")
            broken = cache / path.name
            broken.write_bytes(damaged(path.read_bytes()))
            if (salvaged := said(broken)) is not None:
                lines.append(f"  {json.dumps(f'{name}#damaged')}: {json.dumps(salvaged)}")
    for name, made_lines in MADE.items():
        file, data = cache / "made" / name, b"\n".join(made_lines)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
        made = said(file)
        assert made is not None, name
        lines.append(f"  {json.dumps(f'{name}#made')}: {json.dumps({'bytes': data.decode('latin-1')} | made)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def ranks_text() -> str:
    """Return the file of the runs of several processes: a line for each, with what the server gives for its ranks."""
    lines = []
    for folder in sorted({path.parent for path in CASES.glob("*/*/*/events.rank-*.jsonl")}):
        stream = folder / "events.jsonl"
        if stream.is_file():
            found = shown_ranks(str(stream), "run")
            lines.append(f"  {json.dumps(folder.relative_to(CASES).as_posix())}: {json.dumps(found)}")
    for name, logs in RANK_LOGS.items():
        with tempfile.TemporaryDirectory() as directory:
            for rank, data in logs.items():
                (Path(directory) / rank_file(rank)).write_bytes(data)
            found = shown_ranks(os.path.join(directory, rank_file(0)), "run")
        files = {rank_file(rank): data.decode() for rank, data in logs.items()}
        lines.append(f"  {json.dumps(f'{name}#made')}: {json.dumps({'files': files, 'ranks': found})}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ROWS.write_text(text(Path(folder)), "utf-8")
        RANKS.write_text(ranks_text(), "utf-8")
        DIALECT_ROWS.write_text(dialect_text(Path(folder)), "utf-8")
