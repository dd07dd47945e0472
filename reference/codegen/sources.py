"""Reads ``schemas/``: profiles, kinds and data files, in a fixed order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas"

PROFILES = ("toy/v1", "metrics/v1", "kaun/v1")

_NOT_KINDS = {"stream"}

# Kinds in the order in which a run writes them; the specification and every table follow it.
_KIND_ORDER = (
    "run_start",
    "step",
    "tap",
    "grad",
    "op_timing",
    "drift",
    "sample",
    "eval",
    "compare",
    "region_enter",
    "region_exit",
    "note",
    "run_end",
    "run_resume",
    "system",
    "scalars",
    "define",
    "artifact",
    "media",
    "histogram",
    "alert",
    "reference",
    "align",
    "mask",
    "route",
    "run_config",
    "entry",
    "run",
    "scalar",
)


def load(path: Path) -> Any:
    """Return the JSON value in *path*."""
    return json.loads(path.read_text(encoding="utf-8"))


def kinds(profile: str) -> dict[str, Schema]:
    """Return the schemas of *profile* by kind; a kind that the order does not name comes last."""
    names = [path.stem for path in (SCHEMAS / profile).glob("*.json") if path.stem not in _NOT_KINDS]
    ordered = sorted(names, key=lambda name: (_KIND_ORDER.index(name) if name in _KIND_ORDER else 99, name))
    return {name: load(SCHEMAS / profile / f"{name}.json") for name in ordered}


def stream(profile: str) -> Schema:
    """Return the cross-line rules of *profile*."""
    document: Schema = load(SCHEMAS / profile / "stream.json")
    return document


def rules() -> list[dict[str, Any]]:
    """Return the rule registry in its own order."""
    registry: list[dict[str, Any]] = load(SCHEMAS / "rules.json")["rules"]
    return registry


def limits() -> dict[str, int]:
    """Return the limits by name."""
    return {name: value for name, value in load(SCHEMAS / "limits.json").items() if not name.startswith("$")}


def looks() -> dict[str, Any]:
    """Return what files look like that follow no profile."""
    return {name: value for name, value in load(SCHEMAS / "looks.json").items() if not name.startswith("$")}


def redaction() -> dict[str, Any]:
    """Return which settings are secrets."""
    return {name: value for name, value in load(SCHEMAS / "redaction.json").items() if not name.startswith("$")}


class FactMissingError(Exception):
    """A file in ``schemas/`` lacks a field that the generators need."""


def dialects(folder: Path = SCHEMAS / "dialects") -> list[dict[str, Any]]:
    """Return the dialects, sorted by name; raise FactMissingError where one lacks a field.

    What a dialect of the package loses is shown on the page of formats; that of a user may leave it out.
    """
    meta = load(SCHEMAS / "meta/dialect.json")
    found = {path: load(path) for path in sorted(folder.glob("*.json"))}
    for path, dialect in found.items():
        for name in [*meta["required"], "loses"]:
            if name not in dialect:
                said = meta["properties"][name]["description"]
                where = f"schemas/dialects/{path.name}: field {name!r} is missing"
                raise FactMissingError(f"{where}. Expected: {said} Add it; the other dialects have examples.")
    return list(found.values())


def messages() -> dict[str, dict[str, str]]:
    """Return the templates of messages by group and name."""
    return {name: value for name, value in load(SCHEMAS / "messages.json").items() if not name.startswith("$")}


def documents() -> dict[str, Schema]:
    """Return every schema below ``schemas/`` that has an ``$id``, by that id."""
    found = (load(path) for path in sorted(SCHEMAS.rglob("*.json")) if path.parent.name != "bundled")
    return {document["$id"]: document for document in found if "$id" in document}
