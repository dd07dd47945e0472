"""Writes toy/v1 runs through the client of MLflow, into a database."""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.extras import needed
from toyspec.convert.incoming_files import MISSING_FILE
from toyspec.convert.losses import (
    NO_PLACE,
    NULL,
    WITHOUT_STEP,
    Cause,
)
from toyspec.format.run_files import parts_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger

AS_TEXT = Cause("as-text", "changed", "a setting that is not a text is written as JSON text")
NAME = Cause("name", "changed", "a character that MLflow does not allow in names is written as its code: @ as _x40_")
REASON = Cause("reason", "changed", "MLflow knows finished, failed and killed only")

PART_DROPPED = Cause("part-dropped", "changed", "MLflow keeps the file, its name and its step alone")

# MLflow allows the letters and digits of every script.
_NOT_ALLOWED = re.compile(r"[^\w\-. :/]")
_LONGEST_NAME = 250
_LONGEST_PARAM = 6000
BATCH = 1000
"""Most metrics in one call."""
_MAX_STEP = (1 << 63) - 1
STATUSES = {"completed": "FINISHED", "errored": "FAILED", "aborted": "KILLED", "interrupted": "KILLED"}


def image_name(key: str, step: int, milliseconds: int, name: str) -> str:
    """Return the path of a picture among the artifacts, as ``log_image`` of MLflow has it."""
    return f"images/{key.replace('/', '~')}+step+{step}+timestamp+{milliseconds}+{name}"


def write_runs(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write *runs* into ``mlflow.db`` in *directory*."""
    tracking = needed("mlflow.tracking", "mlflow", "exporting to MLflow")
    entities = needed("mlflow.entities", "mlflow", "exporting to MLflow")
    client = tracking.MlflowClient(f"sqlite:///{os.path.join(directory, 'mlflow.db')}")
    for run, ledger in runs:
        _Export(client, entities, run, ledger).write(directory)


class _Export:
    """Writes one run."""

    def __init__(self, client: Any, entities: Any, run: ExportedRun, ledger: Ledger) -> None:
        self._client = client
        self._entities = entities
        self._run = run
        self._ledger = ledger
        self._metrics: list[Any] = []
        self._params: list[Any] = []
        self._status: str | None = None
        self._id = ""

    def write(self, directory: str) -> None:
        start = self._run.start
        group = start.get("group")
        name = group if isinstance(group, str) and group else "toyspec"
        known = self._client.get_experiment_by_name(name)
        place = os.path.join(directory, "artifacts")
        experiment = known.experiment_id if known else self._client.create_experiment(name, artifact_location=place)
        shown = start.get("name")
        made = self._client.create_run(
            experiment,
            start_time=self._start_time(),
            run_name=shown if isinstance(shown, str) and shown else self._run.run_id,
        )
        self._id = made.info.run_id
        last = 0.0
        for item in self._run.items(self._ledger):
            last = max(last, item.t)
            if item.kind == "record" and item.name in ("media", "artifact") and self._run.file_of(item.value) is None:
                self._ledger.drop(MISSING_FILE, item.place, item.value)
            elif self._put(item):
                self._ledger.done()
            else:
                self._ledger.drop(NO_PLACE, item.place, item.value)
        self._flush()
        if self._status is not None:
            self._client.set_terminated(self._id, self._status, end_time=round(self._run.wall(last) * 1000))

    def _start_time(self) -> int:
        """Return the start of the run in whole milliseconds; a note reports a rounded one, which no item has."""
        wall = self._run.wall(0.0)
        stamp = round(wall * 1000)
        if stamp / 1000 != wall:
            self._ledger.note("MLflow has the start of the run in whole milliseconds")
        return stamp

    def _put(self, item: Item) -> bool:
        if item.kind == "measure":
            return self._measure(item)
        if item.kind == "setting":
            return self._setting(item)
        if item.kind == "record" and item.name in ("media", "artifact"):
            return self._file(item)
        if item.kind == "end" and item.name == "reason" and item.value in STATUSES:
            self._status = STATUSES[item.value]
            self._run.wall_ms(item, self._ledger)
            if item.value == "interrupted":
                self._ledger.changed(REASON, item.place, item.value, "KILLED")
            return True
        return item.kind == "fact" and self._fact(item)

    def _fact(self, item: Item) -> bool:
        if isinstance(item.value, str) and item.name in ("name", "group", "notes"):
            if item.name == "notes":
                self._client.set_tag(self._id, "mlflow.note.content", item.value)
            return bool(item.value)
        if item.name == "tags" and isinstance(item.value, list):
            return self._tags(item.value)
        return False

    def _file(self, item: Item) -> bool:
        """Keep a file among the artifacts, a picture as ``log_image`` does; with its name and step."""
        value, path = item.value, self._run.file_of(item.value) or ""
        if item.name == "artifact":
            relative = str(value.get("path")).removeprefix("artifacts/")
            left = value.keys() & {"role", "step"}
        else:
            name, step = str(value.get("name")), item.step or 0
            file = f"{value.get('index', 0)}-{os.path.basename(path)}"
            is_image = str(value.get("media_type")).startswith("image/")
            folder = "/".join(parts_below(name))
            relative = f"media/{folder}/{step}-{file}"
            if is_image:
                relative = image_name(name, step, self._run.wall_ms(item, self._ledger), file)
            left = value.keys() & {"caption", "index"}
        if left:
            self._ledger.changed(PART_DROPPED, item.place, ", ".join(sorted(left)))
        folder, _, base = relative.rpartition("/")
        with tempfile.TemporaryDirectory() as place:
            named = shutil.copyfile(path, os.path.join(place, base))
            self._client.log_artifact(self._id, named, folder or None)
        return True

    def _tags(self, tags: list[Any]) -> bool:
        if not all(
            isinstance(tag, str) and allowed_name(tag.partition("=")[0]) == tag.partition("=")[0] for tag in tags
        ):
            return False
        for tag in tags:
            key, _, value = tag.partition("=")
            self._client.set_tag(self._id, key, value)
        return True

    def _measure(self, item: Item) -> bool:
        ledger = self._ledger
        name = allowed_name(item.name)
        step = item.step or 0
        if not name or step > _MAX_STEP:
            return False
        if name != item.name:
            ledger.changed(NAME, item.place, item.name, name)
        if item.step is None:
            ledger.changed(WITHOUT_STEP, item.place, "no step", 0)
        if item.value is None:
            ledger.changed(NULL, item.place, "null", "nan")
        timestamp = self._run.wall_ms(item, ledger)
        value = math.nan if item.value is None else float(item.value)
        self._metrics.append(self._entities.Metric(name, value, timestamp, step))
        if len(self._metrics) == BATCH:
            self._flush()
        return True

    def _setting(self, item: Item) -> bool:
        name, text = allowed_name(item.name), param_text(item.value)
        if not name or text is None:
            return False
        if name != item.name:
            self._ledger.changed(NAME, item.place, item.name, name)
        if text is not item.value:
            self._ledger.changed(AS_TEXT, item.place, item.value, text)
        self._client.log_param(self._id, name, text)
        return True

    def _flush(self) -> None:
        if self._metrics:
            self._client.log_batch(self._id, metrics=self._metrics)
            self._metrics = []


def allowed_name(name: str) -> str:
    """Return *name* as MLflow allows it, two names never as the same one; an empty one if there is none."""
    allowed = _NOT_ALLOWED.sub(lambda found: f"_x{ord(found[0]):x}_", name)
    is_path = os.path.normpath(allowed) == allowed and allowed[:1] != "/"
    return allowed if is_path and len(allowed) <= _LONGEST_NAME else ""


def param_text(value: Any) -> str | None:
    """Return a setting as the text that MLflow keeps; None for one that is too long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_PARAM else None
