"""Databases of Trackio, through its own storage."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from toyspec.convert.destinations.destination import (
    MAX_INT64,
    Destination,
    Lost,
    null_as_nan,
    parts_left,
    without_step,
)
from toyspec.convert.intake import level_word
from toyspec.convert.reports import NO_PLACE, REPEATED, Cause
from toyspec.convert.shown_tables import rows_of
from toyspec.convert.sources import MISSING_FILE, needed
from toyspec.convert.trackio_store import HISTOGRAM, TABLE, TRACE
from toyspec.core.directories import Directory
from toyspec.core.programs import NOTHING, PIPE, start_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item, ItemRow
    from toyspec.core.programs import Process

CLOCK = Cause("clock", "changed", "the run has no start, so the value has a time in 1970")

TYPES: Final = {"image": "trackio.image", "audio": "trackio.audio", "video": "trackio.video"}
"""The type of a file with media of each group."""

# Trackio finds its directory when it is imported, so it is imported in a process of its own.
_PROGRAM: Final = """
import json, sys
answers = sys.stdout
sys.stdout = sys.stderr
from trackio.sqlite_storage import SQLiteStorage
from trackio.utils import MEDIA_DIR
print(json.dumps(str(MEDIA_DIR)), file=answers, flush=True)
for line in sys.stdin:
    try:
        method, arguments = json.loads(line)
        getattr(SQLiteStorage, method)(**arguments)
        print("null", file=answers, flush=True)
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"), file=answers, flush=True)
"""


class TrackioDatabase(Destination):
    """Runs in the databases of their projects, in the directory *into*.

    A row has an id made of the run and its place there; Trackio keeps one row of each id, however often it is sent.
    """

    carried: ClassVar = {"setting": None, "fact": ("name", "group")}

    def __init__(self, into: str | None = None) -> None:
        """Raise ImportError without Trackio."""
        super().__init__(into)
        needed("trackio", "trackio", "writing to Trackio")
        self._process: Process | None = None
        self._media = ""
        self._values: dict[str, Any] = {}
        self._alerts: list[tuple[Any, ...]] = []

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Start the process that writes, if there is none."""
        del place
        self.run = run
        if self._process is None:
            chosen = {} if self.into is None else {"TRACKIO_DIR": self.into}
            environment = {"HF_HUB_OFFLINE": "1", **os.environ, **chosen}
            self._process = start_python("-c", _PROGRAM, stdin=PIPE, stdout=PIPE, stderr=NOTHING, env=environment)
            self._media = str(self._answer())
        return None

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Add the rows with values, then the alerts; one without a step is at step 0."""
        lost: list[Lost] = []
        found: list[tuple[Any, ...]] = []
        self._alerts = []
        for row in rows:
            self._values, alerts = {}, len(self._alerts)
            lost += super().put([row])
            log_id = f"toyspec-{self.run.key}-{row.number}"
            if self._values:
                found.append((self._values, row.step or 0, _time(self.run.wall(row.t)), log_id))
            self._alerts[alerts:] = [(*alert, log_id) for alert in self._alerts[alerts:]]
        config = self.run.config | ({"_Group": self.run.group} if self.run.group else {})
        self._call("bulk_log", found, "metrics_list", "steps", "timestamps", "log_ids", config=config)
        self._call("bulk_alert", self._alerts, "titles", "texts", "levels", "steps", "timestamps", "alert_ids")
        return lost

    def carry(self, item: Item) -> Iterator[Lost]:
        """Take the values and the alerts of a row."""
        if (item.step or 0) > MAX_INT64:
            yield Lost(NO_PLACE, item)
            return
        match item.kind:
            case "measure":
                yield from self._measure(item)
            case "text":
                yield from self._value(item, item.name, item.value)
            case "histogram":
                bins = {"_type": HISTOGRAM, "bins": item.value.edges, "values": item.value.counts}
                yield from self._value(item, item.name, bins)
            case "media":
                yield from self._file(item)
            case "record" if item.name == "sample" and item.value.get("messages"):
                trace = {"_type": TRACE, "messages": item.value["messages"], "metadata": {}}
                left = parts_left(item, "messages", "group", "prompt", "text")
                yield from (*self._value(item, str(item.value.get("group") or item.name), trace), *left)
            case "alert":
                value = item.value
                words = (str(value.get("rule")), str(value.get("text")), level_word(value.get("level")))
                self._alerts.append((*words, item.step, _time(self.run.wall(item.t))))
                yield from parts_left(item, "rule", "level", "text")
            case _:
                yield Lost(NO_PLACE, item)

    def _value(self, item: Item, name: str, value: Any) -> Iterator[Lost]:
        if name in self._values:
            yield Lost(REPEATED, item)
        else:
            self._values[name] = value

    def _measure(self, item: Item) -> Iterator[Lost]:
        is_finite = item.value is not None and math.isfinite(item.value)
        # What is not finite is a text there.
        yield from self._value(item, item.name, item.value if is_finite else str(item.value or "NaN"))
        yield from without_step(item)
        yield from null_as_nan(item)
        if self.run.started is None:
            yield Lost(CLOCK, item, item.t, _time(item.t))

    def _file(self, item: Item) -> Iterator[Lost]:
        value, path = item.value, self.run.file_of(item.value)
        media_type = str(value.get("media_type"))
        group = media_type.partition("/")[0]
        table = rows_of(path) if path and media_type == "text/csv" else None
        if path is None:
            yield Lost(MISSING_FILE, item)
        elif table is not None:
            rows = [dict(zip(table[0], row, strict=True)) for row in table[1]]
            yield from self._value(item, item.name, {"_type": TABLE, "_value": rows})
            yield from parts_left(item)
        elif group not in TYPES:
            yield Lost(NO_PLACE, item)
        else:
            *folders, name = _project(self.run), self.run.key, str(item.step or 0), os.path.basename(path)
            place = os.path.join(*folders, name)
            with Directory(self._media, missing="make") as media, media.folder(*folders) as folder:
                folder.copy(path, name)
            shown = {"_type": TYPES[group], "file_path": place, "caption": value.get("caption")}
            yield from self._value(item, item.name, shown)
            yield from parts_left(item, "caption", "width", "height", "seconds")

    def close(self, end: Ending | None) -> None:
        """Leave the run: Trackio keeps no end of one. With None, end the process that writes."""
        if end is None:
            process, self._process = self._process, None
            if process is not None:
                process.communicate()

    def complete(self, target: str) -> None:
        """End the process that writes."""
        del target
        self.close(None)

    def _call(self, method: str, rows: list[tuple[Any, ...]], *columns: str, **arguments: Any) -> None:
        """Let the storage add *rows*, each list of whose values is an argument."""
        if not rows:
            return
        assert self._process is not None
        assert self._process.stdin is not None
        lists = dict(zip(columns, zip(*rows, strict=True), strict=True))
        run = {"project": _project(self.run), "run": self.run.name, "run_id": self.run.key}
        self._process.stdin.write(msgspec.json.encode([method, {**run, **lists, **arguments}]) + b"\n")
        self._process.stdin.flush()
        failure = self._answer()
        if failure is not None:
            raise OSError(f"Trackio could not write its database: {failure}")

    def _answer(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise OSError("Trackio could not write its database: its process has ended")
        return msgspec.json.decode(answer)


def _project(run: RunHead) -> str:
    """Return the nearest name that a project of Trackio can have: it is the name of a file."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in run.project)


def _time(wall: float) -> str:
    """Return *wall*, in seconds since the Unix epoch, as the timestamp of a row."""
    return datetime.fromtimestamp(wall, UTC).isoformat()
