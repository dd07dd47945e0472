"""Writes a toy/v1 run with W&B's offline mode."""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

from toyspec.convert import wandb_messages as messages
from toyspec.convert.alerts import level_word
from toyspec.convert.exported_runs import bins_of
from toyspec.convert.extras import needed
from toyspec.convert.incoming_files import MISSING_FILE
from toyspec.convert.losses import NO_PLACE, NULL, PART_DROPPED, Cause
from toyspec.convert.shown_tables import rows_of
from toyspec.convert.wandb_leveldb import read_records
from toyspec.files import open_file

if TYPE_CHECKING:
    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger

CLOCK = Cause("clock", "changed", "the run has no start, so the value has the time of the export")
STEP_BACKWARDS = Cause("step-goes-backwards", "dropped", "W&B keeps no value at a step before the last one")
SAME_STEP = Cause("same-step", "dropped", "W&B keeps one value of a name at a step: the first is written")
ONE_TIME = Cause("one-time", "changed", "W&B has one time for a step: that of its first value")
NO_END = Cause("no-end", "changed", "the run has no end, which W&B has as exit code 1")
WITHOUT_STEP = Cause("without-step", "changed", "a value without a step is written at the last one")
REFUSED = Cause("refused", "dropped", "W&B does not take it: pictures need Pillow, a histogram has at most 512 bins")

_ALERT = frozenset(["kind", "t", "phase", "rule", "level", "text"])
_LONGEST_WAIT = 60.0
_POLL = 0.05


class WandbExport:
    """Writes one offline run."""

    def __init__(self, run: ExportedRun, ledger: Ledger) -> None:
        self._run = run
        self._ledger = ledger
        self._step = 0
        self._row: dict[str, Any] = {}
        self._wandb: Any = None

    def write(self, directory: str) -> None:
        """Write it below *directory*, as ``wandb/offline-run-*``."""
        wandb = needed("wandb", "wandb", "exporting to W&B")
        self._wandb = wandb
        start = self._run.start
        # W&B writes messages and probes the machine by default; neither belongs into an export.
        options = {"silent": True, "console": "off", "disable_git": True, "disable_code": True, "save_code": False}
        private = {"x_disable_stats": True, "x_disable_meta": True}
        config = start.get("config")
        made = wandb.init(
            mode="offline",
            dir=directory,
            id=self._run.run_id,
            name=start.get("name") or self._run.run_id,
            project=start.get("group") or "toyspec",
            group=start.get("group"),
            tags=start.get("tags"),
            notes=start.get("notes"),
            config=config if isinstance(config, dict) else None,
            settings=wandb.Settings(**options, **private),
        )
        # W&B calls a run with exit code 0 finished.
        code = 0 if self._run.end is not None else 1
        if self._run.end is None:
            self._ledger.items += 1
            self._ledger.changed(NO_END, "run_end", "no end", code)
            self._ledger.done()
        try:
            for item in self._run.items(self._ledger):
                code = self._put(made, item, code)
            self._flush(made)
        finally:
            made.finish(exit_code=code)
        _await_end(made.settings.sync_file)
        _remove_rest(directory)

    def _put(self, made: Any, item: Item, code: int) -> int:
        ledger = self._ledger
        if item.kind in ("measure", "text"):
            self._measure(made, item, math.nan if item.value is None else item.value)
            return code
        put = {"media": self._show, "histogram": self._show, "alert": self._alert}.get(item.name)
        if put is not None and item.kind == "record":
            put(made, item)
            return code
        if item.kind == "definition":
            name, goal = item.value.get("name"), item.value.get("goal")
            if isinstance(name, str) and name:
                summary = goal if goal in ("min", "max") else None
                made.define_metric(name, step_metric=item.value.get("step_name"), summary=summary)
                ledger.done()
                return code
        if item.kind == "end" and item.name == "reason":
            ledger.done()
            return 0 if item.value == "completed" else code or 1
        if item.kind == "setting" or (item.kind == "fact" and item.name in ("name", "group", "tags", "notes")):
            ledger.done()
        else:
            ledger.drop(NO_PLACE, item.place, item.value)
        return code

    def _show(self, made: Any, item: Item) -> None:
        """Log a picture, a sound, a film, a table or a histogram."""
        value, ledger = item.value, self._ledger
        path = self._run.file_of(value) if item.name == "media" else ""
        if path is None:
            ledger.drop(MISSING_FILE, item.place, value)
            return
        try:
            shown = self._shown(value, path)
        except Exception as error:  # noqa: BLE001 - W&B raises what it likes for what it does not take
            ledger.drop(REFUSED, item.place, error)
            return
        if shown is None:
            ledger.drop(NO_PLACE, item.place, value)
            return
        self._measure(made, item._replace(name=str(value.get("name"))), shown)

    def _shown(self, value: dict[str, Any], path: str) -> Any:
        """Return the object of W&B for a record; None if it has none."""
        media_type, caption = str(value.get("media_type")), value.get("caption")
        if not path:
            bins = bins_of(value)
            return None if bins is None else self._wandb.Histogram(np_histogram=(bins[1], bins[0]))
        if media_type == "text/csv":
            table = rows_of(path)
            return None if table is None else self._wandb.Table(*table, allow_mixed_types=True)
        group = "video" if media_type == "image/gif" else media_type.partition("/")[0]
        classes = {"image": "Image", "audio": "Audio", "video": "Video"}
        return getattr(self._wandb, classes[group])(path, caption=caption) if group in classes else None

    def _alert(self, made: Any, item: Item) -> None:
        value = item.value
        level = level_word(value.get("level")).upper()
        made.alert(title=str(value.get("rule")), text=str(value.get("text")), level=level, wait_duration=0)
        left = value.keys() - _ALERT
        if left:
            self._ledger.changed(PART_DROPPED, item.place, ", ".join(sorted(left)))
        self._ledger.done()

    def _measure(self, made: Any, item: Item, value: Any) -> None:
        ledger = self._ledger
        if item.step is not None and item.step < self._step:
            ledger.drop(STEP_BACKWARDS, item.place, item.value)
            return
        step = self._step if item.step is None else item.step
        if step != self._step:
            self._flush(made)
        known = self._row.get(item.name)
        if isinstance(known, list) and item.record.get("index") == len(known):
            known.append(value)
            ledger.done()
            return
        if item.name in self._row:
            ledger.drop(SAME_STEP, item.place, item.value)
            return
        self._step = step
        if item.step is None:
            ledger.changed(WITHOUT_STEP, item.place, "no step", step)
        if item.value is None:
            ledger.changed(NULL, item.place, "null", "nan")
        if self._run.started is None:
            ledger.changed(CLOCK, item.place, item.t, "the time of the export")
        elif self._row.setdefault("_timestamp", self._run.wall(item.t)) != self._run.wall(item.t):
            ledger.changed(ONE_TIME, item.place, self._run.wall(item.t), self._row["_timestamp"])
        # W&B takes several pictures as a list.
        self._row[item.name] = [value] if item.record.get("index") == 0 and item.kind == "record" else value
        ledger.done()

    def _flush(self, made: Any) -> None:
        if self._row:
            made.log(self._row, step=self._step)
            self._row = {}


def _await_end(path: str) -> None:
    """Wait until the run file *path* has its exit record: W&B's service may write it after ``finish`` has returned."""
    end = time.monotonic() + _LONGEST_WAIT
    while not _has_ended(path):
        if time.monotonic() > end:
            raise OSError(errno.ETIMEDOUT, f"W&B has not written the end of the run in {_LONGEST_WAIT:g} s", path)
        time.sleep(_POLL)


def _has_ended(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open_file(path) as file:
        found = (messages.kind_and_body(record)[0] for record in read_records(file) if isinstance(record, bytes))
        return messages.EXIT in found


def _remove_rest(directory: str) -> None:
    """Remove links and logs of the writer, which are not part of the run."""
    root = os.path.join(directory, "wandb")
    for entry in list(os.scandir(root)):
        if entry.is_symlink() or entry.is_file():
            os.unlink(entry.path)
        elif entry.is_dir():
            for name in ("logs", "tmp"):
                shutil.rmtree(os.path.join(entry.path, name), ignore_errors=True)
