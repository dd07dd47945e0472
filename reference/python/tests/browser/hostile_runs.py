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
    return f'"\'><img src=x onerror="{run}"><script>{run}</script><a href="javascript:{run}" onfocus="{run}" autofocus>'


def as_name(place: str) -> str:
    """Return the same as a name that a file can have."""
    return hostile(place).replace("/", "|")[:120]


def write_runs(root: Path) -> list[str]:
    """Write two runs with markup in every place below *root*, a complete and a damaged one; return their names."""
    names = [f"{number}-{as_name('folder')}" for number in (1, 2)]
    for number, name in enumerate(names):
        folder = root / name
        (folder / "media").mkdir(parents=True)
        picture = png(90)
        digest = hashlib.sha256(picture).hexdigest()
        (folder / "media" / f"{digest}.png").write_bytes(picture)
        lines = [json.dumps(record) for record in records(digest)]
        if number:
            lines.insert(6, '{"kind":"step","' + hostile("bad line"))
        (folder / "events.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        entry = {"at": "2026-11-26T10:00:00Z", "by": hostile("by"), "name": hostile("annotated name")}
        entry |= {
            "group": hostile("annotated group"),
            "notes": hostile("annotation"),
            "tags": {"add": [hostile("tag")]},
        }
        (folder / "annotations.jsonl").write_text(json.dumps(entry) + "\n", "utf-8")
        (folder / f"{as_name('file')}.txt").write_text("", "utf-8")
    return names


def records(digest: str) -> list[dict[str, Any]]:
    """Return records of a run with markup in each text, of which one names the media file *digest*."""
    h = hostile
    start = {
        "kind": "run_start",
        "schema": "toy/v1",
        "t": 0.0,
        "run_id": h("run id"),
        "name": h("name"),
        "group": h("group"),
    }
    start |= {
        "tags": [h("start tag")],
        "notes": h("start notes"),
        "argv": [h("argv")],
        "packages": {h("package"): h("version")},
    }
    start |= {"config": {h("setting"): h("value"), "nested": {h("inner"): [h("list")]}}, "host": {"name": h("host")}}
    start |= {"git": {"commit": h("commit"), "branch": h("branch")}, "model": {"arch": h("arch")}}
    start |= {
        "parent": {"run_id": h("parent"), "step": 1, "path": h("parent path")},
        "data": [{"name": h("data"), "uri": h("uri")}],
    }
    some: list[dict[str, Any]] = [
        start,
        {
            "kind": "define",
            "name": "loss",
            "unit": h("unit"),
            "description": h("description"),
            "step_name": h("step name"),
        },
        {"kind": "define", "name": h("defined"), "unit": h("unit")},
        *({"kind": "step", "step": step, "loss": 3.0 / step, "extra": {h("metric"): step}} for step in range(1, 30)),
        {
            "kind": "scalars",
            "step": 30,
            "values": {h("scalar"): 1.0, "group/" + h("grouped"): 2.0},
            "texts": {h("text"): h("said")},
        },
        {
            "kind": "note",
            "step": 5,
            "text": h("note"),
            "topic": h("topic"),
            "by": {"kind": "human", "name": h("author")},
        },
        {"kind": "eval", "step": 6, "name": h("eval"), "loss": 1.0, "extra": {h("extra"): 0.5, "said": h("eval text")}},
        {
            "kind": "sample",
            "step": 7,
            "prompt": h("prompt"),
            "text": h("sample"),
            "id": h("sample id"),
            "group": h("sample group"),
        },
        {"kind": "alert", "step": 8, "rule": h("rule"), "level": "error", "text": h("alert"), "metric": h("metric")},
        {"kind": "artifact", "path": h("path"), "role": h("role"), "media_type": h("type")},
        {"kind": "reference", "uri": "javascript:(window.hacked??=[]).push('reference')", "role": h("role")},
        {"kind": "reference", "uri": h("reference"), "role": h("role")},
        {
            "kind": "media",
            "step": 9,
            "name": h("media"),
            "media_type": "image/png",
            "sha256": digest,
            "caption": h("caption"),
        },
        {
            "kind": "media",
            "step": 9,
            "name": "svg",
            "media_type": "image/svg+xml",
            "sha256": digest,
            "caption": h("caption"),
        },
        {"kind": "media", "step": 9, "name": h("missing"), "media_type": h("media type"), "sha256": "0" * 64},
        {"kind": "histogram", "step": 9, "name": h("histogram"), "edges": [0.0, 1.0, 2.0], "counts": [1, 2]},
        {"kind": "grad", "step": 9, "param": h("param"), "min": 0.0, "max": 1.0, "histogram": [1] * 32},
        {"kind": "tap", "step": 9, "region": h("tap"), "dtype": h("dtype"), "l2": 1.0},
        {"kind": "region_enter", "region": h("region")},
        {"kind": "region_exit", "region": h("region")},
        {"kind": "op_timing", "step": 9, "buckets": {h("bucket"): 5, "matmul": 9}},
        {"kind": "system", "extra": {h("gpu"): 0.5}},
        {"kind": h("kind"), "step": 9, h("key"): 1.5, "text": h("kind text")},
        {"kind": "run_end", "reason": "error", "error": h("error"), "final_step": 29},
    ]
    return [{"t": float(at)} | record for at, record in enumerate(some)]
