"""Parquet tables: one file of runs and one of their values; in both directions."""

from __future__ import annotations

import os
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import ForeignRun
from toyspec.convert.reports import DAMAGED, at_step
from toyspec.convert.sources import files_below, head_of, is_file, json_of, needed
from toyspec.core.errors import SourceError
from toyspec.core.files import open_file
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.programs import NOTHING, PIPE, start_python

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.intake import Intake

RUNS, VALUES = "runs.parquet", "values.parquet"
_BATCH = 1 << 16
_MAGIC = b"PAR1"
_LONGEST_FOOTER = 1 << 24


def _pyarrow() -> Any:
    return needed("pyarrow.parquet", "parquet", "Parquet")


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs in the tables of the directory *path* and below; of one of the tables, those in both."""
    folders: Iterable[str] = ()
    if os.path.isdir(path):
        folders = (folder for folder, _ in files_below(path, lambda name: name == VALUES))
    elif is_file(path) and head_of(path, len(_MAGIC)) == _MAGIC:
        folders = [os.path.dirname(path)]
    for folder in folders:
        files = [os.path.join(folder, name) for name in (RUNS, VALUES)]
        if all(map(os.path.isfile, files)):
            yield from _runs_in(folder, files)


def _runs_in(folder: str, files: list[str]) -> Iterator[ForeignRun]:
    rows = _opened(files[0]).read().to_pylist()
    _opened(files[1])
    for row in rows:
        name = row.get("run_id")
        if not isinstance(name, str):
            raise SourceError(files[0], "the column run_id is missing or has a null")
        read = partial(_records, files[1], row)
        yield ForeignRun.of(name, os.path.join(folder, name), files, read, name, share=len(rows))


# pyarrow ends its process for some damaged files, so another one reads a file first.
_TRIAL = """
import sys
import pyarrow.parquet as pq
file = pq.ParquetFile(sys.argv[1])
for index in range(file.num_row_groups):
    file.read_row_group(index)
"""
_TYPES = {
    RUNS: {"run_id": "string", "run_start": "string"},
    VALUES: {
        "run_id": "string", "t": "double", "step": "int64", "name": "string", "value": "double", "record": "string",
    },
}  # fmt: skip


def opened_table(path: str) -> Any:
    """Return the Parquet file at *path*; raise SourceError if it cannot be read, ImportError without pyarrow."""
    pq = _pyarrow()
    found = os.stat(path)
    if error := _reading_error(path, found.st_size, found.st_mtime_ns):
        raise SourceError(path, f"not a readable Parquet file: {error}")
    return pq.ParquetFile(path)


@lru_cache(maxsize=1 << 12)
def _reading_error(path: str, size: int, changed: int) -> str:
    """Return what is wrong with the file at *path*, of *size*, *changed* then; empty if it can be read.

    A run of several is read from the same files, which need one trial.
    """
    del size, changed
    with start_python("-c", _TRIAL, path, stdout=NOTHING, stderr=PIPE) as process:
        errors = process.communicate()[1].decode("utf-8", "backslashreplace")
    return "" if process.returncode == 0 else errors.strip().rpartition("\n")[2] or "its reader crashed"


def has_columns(path: str, names: Iterable[str]) -> bool:
    """Return whether the file at *path* is a Parquet table whose footer names all of *names*."""
    if not is_file(path) or head_of(path, 4) != _MAGIC:
        return False
    with open_file(path) as file:
        file.seek(max(0, os.path.getsize(path) - _LONGEST_FOOTER))
        end = file.read()
    size = int.from_bytes(end[-8:-4], "little")
    footer = end[-8 - size : -8] if end.endswith(_MAGIC) and size + 8 <= len(end) else b""
    # Each column is named alone in the schema; the length of the name is before it.
    return all(bytes([len(name)]) + name.encode() in footer for name in names)


def _opened(path: str) -> Any:
    """Return the file at *path*; raise SourceError if it cannot be read or a column is missing."""
    file = opened_table(path)
    found = {field.name: str(field.type).removeprefix("large_") for field in file.schema_arrow}
    for name, kind in _TYPES[os.path.basename(path)].items():
        if found.get(name) != kind:
            raise SourceError(path, f"the column {name} is {found.get(name, 'missing')}; {kind} is expected")
    return file


def _records(path: str, run: dict[str, Any], intake: Intake) -> Iterator[bytes]:
    start = {"t": 0.0, **(_object(run.get("run_start")) or {}), "kind": "run_start", "run_id": run["run_id"]}
    try:
        yield from intake.begin_as(start)
    except InvalidEventError:
        raise SourceError(path, f"the run_start of {run['run_id']!r} is not valid") from None
    for row in _rows_of(path, run["run_id"]):
        place = at_step(row["step"], row["name"])
        record = _object(row["record"])
        if record is not None:
            yield from intake.record(record, place)
        elif isinstance(row["name"], str) and row["record"] is None:
            yield from intake.values(row["t"], row["step"], {row["name"]: row["value"]}, place)
        else:
            intake.ledger.lose(DAMAGED, place, row["record"])
    end = _object(run.get("run_end"))
    if end is not None:
        yield from intake.record({**end, "kind": "run_end"}, "run_end")


def _rows_of(path: str, run_id: str) -> Iterator[dict[str, Any]]:
    # It was tried when the runs were found.
    file = _pyarrow().ParquetFile(path)
    names = list(_TYPES[VALUES])
    for index in range(file.num_row_groups):
        group = file.metadata.row_group(index)
        column = next(at for at in range(group.num_columns) if group.column(at).path_in_schema == "run_id")
        span = group.column(column).statistics
        if span is not None and span.has_min_max and not span.min <= run_id <= span.max:
            continue
        for batch in file.iter_batches(_BATCH, [index], names):
            yield from (row for row in batch.to_pylist() if row["run_id"] == run_id)


def _object(text: Any) -> dict[str, Any] | None:
    value = json_of(text) if isinstance(text, str) else None
    return value if isinstance(value, dict) else None
