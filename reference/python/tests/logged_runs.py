"""Reads back what a logger has written, and checks it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from toyspec.core.checker import check


def events(directory: Path) -> list[dict[str, Any]]:
    """Return the records of the one bundle below *directory*."""
    (path,) = directory.rglob("events.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def kinds(directory: Path) -> list[str]:
    """Return the kinds of the records of the one bundle below *directory*."""
    return [event["kind"] for event in events(directory)]


def steps(directory: Path) -> list[int]:
    """Return the numbers of the step events of the one bundle below *directory*."""
    return [event["step"] for event in events(directory) if event["kind"] == "step"]


def findings(directory: Path) -> list[str]:
    """Return the state of every stream below *directory* that is not complete, and the rules of all findings."""
    found: list[str] = []
    for report in check(directory).files:
        found += [] if report.state == "complete" else [str(report.state)]
        found += [finding.rule for finding in report.findings]
    return found


RELATIVE = 1e-3
"""Processors differ in the last bits of a sum, and fp16 weights make that larger."""


def flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that is not a container with members, with the path to it, in the order of the keys."""
    if isinstance(value, dict | list) and value:
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(member, f"{place}/{key}")
    else:
        yield place, value


def differences(expected: Any, actual: Any) -> list[str]:
    """Return where two JSON values differ: keys and their order, types, text, integers, and floats beyond RELATIVE."""
    known, found = list(flat(expected)), list(flat(actual))
    if [(place, type(value)) for place, value in known] != [(place, type(value)) for place, value in found]:
        return ["other keys or types"]
    return [
        f"{place}: {value} and {other}"
        for (place, value), (_, other) in zip(known, found, strict=True)
        if not (math.isclose(value, other, rel_tol=RELATIVE) if isinstance(value, float) else value == other)
    ]


def renew(case: Path, run: Path, files: Iterable[str]) -> None:
    """Put *files* of a run into its *case* in the corpus, with the records that are expected of them."""
    from conformance.authoring.fill import filled, laid_out

    for name in files:
        shutil.copyfile(run / name, case / name)
    content = filled(str(case), json.loads((case / "case.json").read_bytes()))
    (case / "case.json").write_bytes(laid_out(content).encode())
