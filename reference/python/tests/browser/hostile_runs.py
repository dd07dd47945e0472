"""Runs that carry markup in every place where a log has text, each with the name of its place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from browser.test_viewer_media import png


def hostile(place: str) -> str:
    """Return markup that notes *place* in ``window.hacked`` if a page runs it as HTML, attribute or address."""
    run = f"(window.hacked??=[]).push('{place}')"
    link = f'<a href="javascript:{run}" onfocus="{run}" autofocus>'
    return f'\u202e\x1b[2J"\'><img src=x onerror="{run}"><script>{run}</script>{link}'


def as_name(place: str) -> str:
    """Return the same as a name that a file can have."""
    return hostile(place).replace("/", "|")[:120]


PICTURE = png(90)
DIGEST = hashlib.sha256(PICTURE).hexdigest()

_START: dict[str, Any] = {
    "kind": "run_start",
    "schema": "toy/v1",
    "t": 0.0,
    "run_id": hostile("run id"),
    "name": hostile("name"),
    "group": hostile("group"),
}
_START |= {
    "tags": [hostile("start tag")],
    "notes": hostile("start notes"),
    "argv": [hostile("argv")],
    "packages": {hostile("package"): hostile("version")},
}
_START |= {
    "config": {hostile("setting"): hostile("value"), "nested": {hostile("inner"): [hostile("list")]}},
    "host": {"name": hostile("host")},
}
_START |= {"git": {"commit": hostile("commit"), "branch": hostile("branch")}, "model": {"arch": hostile("arch")}}
_START |= {
    "parent": {"run_id": hostile("parent"), "step": 1, "path": hostile("parent path")},
    "data": [{"name": hostile("data"), "uri": hostile("uri")}],
}
_SOME: list[dict[str, Any]] = [
    _START,
    {
        "kind": "define",
        "name": "loss",
        "unit": hostile("unit"),
        "description": hostile("description"),
        "step_name": hostile("step name"),
    },
    {"kind": "define", "name": hostile("defined"), "unit": hostile("unit")},
    *({"kind": "step", "step": step, "loss": 3.0 / step, "extra": {hostile("metric"): step}} for step in range(1, 30)),
    {
        "kind": "scalars",
        "step": 30,
        "values": {hostile("scalar"): 1.0, "group/" + hostile("grouped"): 2.0, "x" * 10_000: 1.0, "__proto__": 1.0},
        "texts": {hostile("text"): hostile("said")},
    },
    {
        "kind": "note",
        "step": 5,
        "text": hostile("note"),
        "topic": hostile("topic"),
        "by": {"kind": "human", "name": hostile("author")},
    },
    {
        "kind": "eval",
        "step": 6,
        "name": hostile("eval"),
        "loss": 1.0,
        "extra": {hostile("extra"): 0.5, "said": hostile("eval text")},
    },
    {
        "kind": "sample",
        "step": 7,
        "prompt": hostile("prompt"),
        "text": hostile("sample"),
        "id": hostile("sample id"),
        "group": hostile("sample group"),
    },
    {
        "kind": "alert",
        "step": 8,
        "rule": hostile("rule"),
        "level": "error",
        "text": hostile("alert"),
        "metric": hostile("metric"),
    },
    {"kind": "artifact", "path": hostile("path"), "role": hostile("role"), "media_type": hostile("type")},
    {"kind": "reference", "uri": "javascript:(window.hacked??=[]).push('reference')", "role": hostile("role")},
    {"kind": "reference", "uri": hostile("reference"), "role": hostile("role")},
    {
        "kind": "media",
        "step": 9,
        "name": hostile("media"),
        "media_type": "image/png",
        "sha256": DIGEST,
        "caption": hostile("caption"),
    },
    {
        "kind": "media",
        "step": 9,
        "name": "svg",
        "media_type": "image/svg+xml",
        "sha256": DIGEST,
        "caption": hostile("caption"),
    },
    {"kind": "media", "step": 9, "name": hostile("missing"), "media_type": hostile("media type"), "sha256": "0" * 64},
    {"kind": "histogram", "step": 9, "name": hostile("histogram"), "edges": [0.0, 1.0, 2.0], "counts": [1, 2]},
    {"kind": "grad", "step": 9, "param": hostile("param"), "min": 0.0, "max": 1.0, "histogram": [1] * 32},
    {"kind": "tap", "step": 9, "region": hostile("tap"), "dtype": hostile("dtype"), "l2": 1.0},
    {"kind": "region_enter", "region": hostile("region")},
    {"kind": "region_exit", "region": hostile("region")},
    {"kind": "op_timing", "step": 9, "buckets": {hostile("bucket"): 5, "matmul": 9}},
    {"kind": "system", "extra": {hostile("gpu"): 0.5}},
    {"kind": hostile("kind"), "step": 9, hostile("key"): 1.5, "text": hostile("kind text")},
    {"kind": "run_end", "reason": "error", "error": hostile("error"), "final_step": 29},
]
RECORDS = [{"t": float(at)} | record for at, record in enumerate(_SOME)]
"""Records of a run with markup in each text."""


def write_runs(root: Path) -> list[str]:
    """Write two runs with markup in every place below *root*, a complete and a damaged one; return their names."""
    names = [f"{number}-{as_name('folder')}" for number in (1, 2)]
    for number, name in enumerate(names):
        folder = root / name
        (folder / "media").mkdir(parents=True)
        (folder / "media" / f"{DIGEST}.png").write_bytes(PICTURE)
        lines = [json.dumps(record) for record in RECORDS]
        if number:
            lines.insert(6, '{"kind":"step","' + hostile("bad line"))
        (folder / "events.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        entry: dict[str, Any] = {"at": "2026-11-26T10:00:00Z", "by": hostile("by"), "name": hostile("annotated name")}
        entry |= {
            "group": hostile("annotated group"),
            "notes": hostile("annotation"),
            "tags": {"add": [hostile("tag")]},
        }
        (folder / "annotations.jsonl").write_text(json.dumps(entry) + "\n", "utf-8")
        (folder / f"{as_name('file')}.txt").write_text("", "utf-8")
    return names
