"""Mirrors a run into a database of Trackio, through its own storage."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.convert.extras import needed
from toyspec.convert.trackio_export import project_name, row_time, shown_number
from toyspec.programs import NOTHING, PIPE, start_python

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.mirrors.destination import MirroredRun, NumberedRow
    from toyspec.mirrors.rows import SentRow
    from toyspec.mirrors.settings import Mirror
    from toyspec.programs import Process

# Trackio finds its directory when it is imported, so it is imported in a process of its own.
_PROGRAM: Final = """
import json, sys
answers = sys.stdout
sys.stdout = sys.stderr
from trackio.sqlite_storage import SQLiteStorage
for line in sys.stdin:
    try:
        SQLiteStorage.bulk_log(**json.loads(line))
        print("null", file=answers, flush=True)
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"), file=answers, flush=True)
"""
_MAX_STEP: Final = (1 << 63) - 1


def destination(mirror: Mirror) -> TrackioDatabase:
    """Return the database of *mirror*; raise ImportError without Trackio."""
    needed("trackio", "trackio", "mirroring to Trackio")
    return TrackioDatabase(mirror.into)


class TrackioDatabase:
    """One run in the database of its project.

    A row has an id made of the run and its place there; Trackio keeps one row of each id, however often it is sent.
    Histograms are left out.
    """

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._process: Process | None = None
        self._run: MirroredRun | None = None

    def open(self, run: MirroredRun, place: Any) -> int | None:
        """Start the process that writes."""
        del place
        self._run = run
        chosen = {} if self._directory is None else {"TRACKIO_DIR": self._directory}
        self._process = start_python(
            "-c",
            _PROGRAM,
            stdin=PIPE,
            stdout=PIPE,
            stderr=NOTHING,
            env={"HF_HUB_OFFLINE": "1", **os.environ, **chosen},
        )
        return None

    def missing(self, rows: Sequence[NumberedRow]) -> Sequence[NumberedRow]:
        """Return *rows*: those that are there are not added again."""
        return rows

    def send(self, rows: Sequence[NumberedRow]) -> None:
        """Add the rows with values; one without a step is at step 0."""
        assert self._run is not None
        values = [(row, shown) for _, row in rows if (shown := _shown(row))]
        if not values:
            return
        self._call(
            {
                "metrics_list": [shown for _, shown in values],
                "steps": [min(row.step or 0, _MAX_STEP) for row, _ in values],
                "timestamps": [row_time(self._run.wall(row.t)) for row, _ in values],
                "log_ids": [self._id(row) for row, _ in values],
            }
        )

    def finish(self, reason: str, t: float) -> None:
        """Do nothing: Trackio keeps no end of a run."""

    def close(self) -> None:
        """End the process that writes."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def _call(self, arguments: dict[str, Any]) -> None:
        run, process = self._run, self._process
        assert run is not None
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        group = {"_Group": run.group} if run.group else {}
        known = {
            "project": project_name(run.project),
            "run": run.name,
            "run_id": f"{run.run_id}-{run.identity}",
            "config": {**run.config, **group},
        }
        process.stdin.write(msgspec.json.encode(known | arguments) + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        failure = msgspec.json.decode(answer) if answer else "its process has ended"
        if failure is not None:
            raise OSError(f"Trackio could not write its database: {failure}")

    def _id(self, row: SentRow) -> str:
        assert self._run is not None
        places = ",".join(map(str, row.places))
        return f"toyspec-{self._run.identity}-{row.line}-{places}"


def _shown(row: SentRow) -> dict[str, Any]:
    numbers = {name: value for name, value in row.values.items() if value is None or isinstance(value, int | float)}
    return {name: shown_number(value) for name, value in numbers.items()}
