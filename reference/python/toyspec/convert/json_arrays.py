"""A plain JSON array of records, for programs that read JSON and not JSON Lines; in both directions."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from toyspec.convert.formats import ForeignRun
from toyspec.convert.reports import DAMAGED
from toyspec.convert.sources import files_below, head_of, identity_of, is_file
from toyspec.core.errors import SourceError
from toyspec.core.files import open_file
from toyspec.core.format.line_validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake

_HEAD_BYTES = 1 << 16
_LONGEST_LINE = 1 << 24
_FIRST_RECORD = 2


def recognise(path: str) -> bool:
    """Return whether *path* is such a file, or a directory with some."""
    if not os.path.isdir(path):
        return is_file(path) and _is_array(path)
    return any(_is_array(file) for _, files in files_below(path, _is_json) for file in files)


def _is_array(path: str) -> bool:
    """Return whether the file begins with ``[`` and, on a line of its own, the first record of a toy/v1 run."""
    lines = head_of(path, _HEAD_BYTES).split(b"\n", 2)
    value = (
        validate(lines[1].rstrip(b",\r"), first=False).value if len(lines) > 1 and lines[0].strip() == b"[" else None
    )
    return value is not None and value.get("kind") == "run_start" and "run_id" in value


def _is_json(name: str) -> bool:
    return name.endswith(".json")


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run in the file *path*, or in each such file in the directory *path*."""
    files = [file for _, found in files_below(path, _is_json) for file in found] if os.path.isdir(path) else [path]
    wanted = [file for file in files if _is_array(file)]
    if not wanted:
        raise SourceError(path, "no JSON array of toy/v1 records: `[`, then one record on each line")
    for file in wanted:
        yield _run(file)


def _run(path: str) -> ForeignRun:
    return ForeignRun(
        name=os.path.basename(path).removesuffix(".json"),
        source=path,
        identity=identity_of([path]),
        size=os.path.getsize(path),
        records=partial(_records, path),
    )


def _records(path: str, intake: Intake) -> Iterator[bytes]:
    ledger = intake.ledger
    with open_file(path) as file:
        file.readline()
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 2):
            ledger.advance(len(line))
            raw = line.strip().removesuffix(b",")
            if raw in (b"]", b""):
                continue
            value = validate(raw, first=False).value
            if value is None or not isinstance(value.get("kind"), str):
                ledger.lose(DAMAGED, f"line {number}", f"{len(raw)} bytes are not one record")
            elif number == _FIRST_RECORD and value["kind"] == "run_start":
                yield from intake.begin_as(value)
            else:
                yield from intake.record(value, f"line {number}")
