"""Runs that Neptune's exporter has written: Parquet files with one row for each value, and the downloaded files."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest
from toyspec.convert.parquet import has_columns, opened_table
from toyspec.convert.reports import NO_PLACE, Cause, at_step
from toyspec.convert.sources import file_below, files_at, needed
from toyspec.core.errors import SourceError
from toyspec.core.files import open_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from toyspec.convert.intake import Intake

FRACTION = Cause(
    "step-fraction", "changed", "the step is not an integer ≥ 0: the value has none, and the metric NAME/step has it"
)
DENSITY = Cause("density", "changed", "a histogram of densities is written with them as its counts")
FILE_MISSING = Cause("file-missing", "changed", "the downloaded file is not there: it is named without size and digest")

_MARKS = ("project_id", "run_id", "attribute_path", "attribute_type", "timestamp")
_SUFFIX = ".parquet"
_SERIES = "_series"
_FACTS = {"sys/name": "name", "sys/description": "notes"}
_TAGS = ("sys/tags", "sys/group_tags")
_BATCH = 1 << 14
_FILES = "files"


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs in the files at *path*, in the order of their projects and names."""
    runs: dict[tuple[str, str], list[str]] = {}
    is_directory = os.path.isdir(path)
    root = path if is_directory else os.path.dirname(path)
    wanted = None if is_directory else set(_runs_in(path)) if _is_export(path) else set()
    # A run has several parts, whichever of them is named.
    for file in files_at(root, lambda name: name.endswith(_SUFFIX)) if wanted != set() else ():
        for each in _runs_in(file) if _is_export(file) else ():
            if wanted is None or each in wanted:
                runs.setdefault(each, []).append(file)
    for (project, run), files in sorted(runs.items()):
        name, source = f"{project.rpartition('/')[2]}-{run}", os.path.join(root, project, run)
        read = partial(_records, root, (project, run), tuple(files))
        yield ForeignRun.of(name, source, files, read, f"{project}\0{run}", share=len(runs))


def _is_export(path: str) -> bool:
    return path.endswith(_SUFFIX) and has_columns(path, _MARKS)


def _runs_in(file: str) -> list[tuple[str, str]]:
    """Return the project and the name of each run in *file*."""
    table = opened_table(file).read(["project_id", "run_id"])
    found = list(dict.fromkeys(zip(*(table[name].to_pylist() for name in ("project_id", "run_id")), strict=True)))
    if not all(isinstance(name, str) for each in found for name in each):
        raise SourceError(file, "the column project_id or run_id has a null")
    return found


def _records(root: str, name: tuple[str, str], files: tuple[str, ...], intake: Intake) -> Iterator[bytes]:
    return _Import(root, intake).lines(name, files)


class _Import:
    """Hands one run to an intake."""

    def __init__(self, root: str, intake: Intake) -> None:
        self._root = root
        self._intake = intake
        self._ledger = intake.ledger

    def lines(self, name: tuple[str, str], files: tuple[str, ...]) -> Iterator[bytes]:
        """Yield the lines of the run."""
        pc = needed("pyarrow.compute", "parquet", "Neptune's exports")
        table = self._table(pc, name, files)
        is_placed = pc.or_(pc.ends_with(table["attribute_type"], _SERIES), pc.equal(table["attribute_type"], "file"))
        attributes = table.filter(pc.invert(is_placed)).to_pylist()
        placed = table.filter(is_placed).sort_by([("timestamp", "ascending"), ("step", "ascending")])
        first = placed["timestamp"][0].as_py() if len(placed) else None
        start, created, failed = self._start(attributes)
        began = earliest(moment.timestamp() for moment in (created, first) if moment is not None)
        yield from self._intake.begin(began, **{"name": name[1], "group": name[0], **start})
        for batch in placed.to_batches(_BATCH):
            for row in batch.to_pylist():
                yield from self._placed(row)
        if failed is not None:
            self._intake.end("errored" if failed else "completed")

    def _table(self, pc: Any, name: tuple[str, str], files: tuple[str, ...]) -> Any:
        pa = needed("pyarrow", "parquet", "Neptune's exports")
        tables = []
        for file in files:
            table = opened_table(file).read()
            is_own = pc.and_(pc.equal(table["project_id"], name[0]), pc.equal(table["run_id"], name[1]))
            tables.append(table.filter(is_own))
            self._ledger.advance(os.path.getsize(file))
        return pa.concat_tables(tables, promote_options="permissive")

    def _start(self, rows: list[dict[str, Any]]) -> tuple[dict[str, Any], datetime | None, bool | None]:
        """Return facts and settings of the run, the time of its creation, and whether it failed."""
        start: dict[str, Any] = {"tags": [], "config": {}}
        created = failed = None
        for row in rows:
            path, value = row["attribute_path"], _value(row)
            if value is None:
                self._ledger.lose(NO_PLACE, str(path), f"{row['attribute_type']} without a value", name=str(path))
            elif path in _FACTS and isinstance(value, str):
                start[_FACTS[path]] = value
            elif path in _TAGS and isinstance(value, list):
                start["tags"] += map(str, value)
            elif path == "sys/hostname" and isinstance(value, str):
                start["host"] = {"name": value}
            elif path == "sys/creation_time" and row["attribute_type"] == "datetime":
                created = value
            else:
                failed = value if path == "sys/failed" and isinstance(value, bool) else failed
                plain = isinstance(value, bool | int | float | str | list)
                start["config"][path] = value if plain else _text_of(value)
        return start, created, failed

    def _placed(self, row: dict[str, Any]) -> Iterator[bytes]:
        """Yield the record of a value of a series, or of a file."""
        intake, name, value, role = self._intake, row["attribute_path"], _value(row), row["attribute_type"]
        step = row["step"]
        # It is a decimal number.
        step = int(step) if step is not None and step == int(step) else step
        place = at_step(step, name)
        wall = None if row["timestamp"] is None else row["timestamp"].timestamp()
        path = value.get("path") if isinstance(value, dict) else None
        if isinstance(value, bool | int | float | str):
            values = {name: value}
            if step is not None and not isinstance(value, str) and not (isinstance(step, int) and step >= 0):
                self._ledger.changed(FRACTION, place, step, "no step")
                values[f"{name}/step"], step = float(step), None
            yield from intake.values(wall, step, values, place)
        elif role == "histogram_series" and isinstance(value, dict):
            if str(value.get("type")).upper() not in ("COUNTING", "COUNT"):
                self._ledger.changed(DENSITY, place, value.get("type"), "counts")
            bins = {"name": name, "edges": value.get("edges"), "counts": value.get("values")}
            yield from intake.record({"kind": "histogram", **intake.at(wall, step, place), **bins}, place)
        elif isinstance(path, str) and path:
            made = self._reference(name, path, place)
            yield from intake.record({**made, **intake.at(wall, step, place)}, place)
        else:
            self._ledger.lose(NO_PLACE, place, f"{role} without a value", name=name)

    def _reference(self, name: str, path: str, place: str) -> dict[str, Any]:
        made: dict[str, Any] = {"kind": "reference", "uri": path, "role": name}
        file = self._downloaded(path)
        if file is None:
            self._ledger.changed(FILE_MISSING, place, path)
            return made
        with open_file(file) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return made | {"uri": file, "size_bytes": os.path.getsize(file), "sha256": digest}

    def _downloaded(self, path: str) -> str | None:
        """Return the downloaded file of the relative *path*; None if it is not there, or would be elsewhere."""
        above = os.path.dirname(os.path.abspath(self._root))
        found = (file_below(os.path.join(folder, _FILES), path) for folder in (self._root, above))
        return next(filter(None, found), None)


def _value(row: dict[str, Any]) -> Any:
    """Return the value of a row, which is in the column of its type; None without one."""
    kind = str(row["attribute_type"]).removesuffix(_SERIES)
    value = row.get(f"{kind}_value")
    if value is not None or kind in ("file", "histogram"):
        return value
    # A later version may keep a series in the column of another type.
    return next((row[key] for key in row if key.endswith("_value") and row[key] is not None), None)


def _text_of(value: Any) -> str:
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
