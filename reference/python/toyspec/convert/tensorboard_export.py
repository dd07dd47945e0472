"""Writes the TensorBoard event file of a toy/v1 run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toyspec.convert import tensorboard_messages, tensorboard_records
from toyspec.convert.losses import BINARY32, NO_PLACE, NULL, Cause

if TYPE_CHECKING:
    from typing import BinaryIO

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger

NOT_A_PARAMETER = Cause("as-json", "changed", "a setting that is not a number, text or boolean is written as JSON text")
WITHOUT_STEP = Cause("step-0", "changed", "a value without a step is written at step 0")
REASON = Cause("reason", "changed", "TensorBoard knows success and failure only")


class EventExport:
    """Writes the event file of one run."""

    def __init__(self, run: ExportedRun, ledger: Ledger, file: BinaryIO) -> None:
        self._run = run
        self._ledger = ledger
        self._file = file

    def write(self) -> None:
        """Write all of it."""
        self._put(tensorboard_messages.version_event(self._run.wall(0.0)))
        settings: dict[str, float | str | bool] = {}
        for item in self._run.items(self._ledger, attempts="all"):
            if item.kind == "setting":
                settings[item.name] = self._setting(item)
                self._ledger.done()
            else:
                self._put_settings(settings)
                settings = {}
                self._put_item(item)
        self._put_settings(settings)

    def _put_settings(self, settings: dict[str, float | str | bool]) -> None:
        group = self._run.start.get("group")
        if settings:
            name = group if isinstance(group, str) else ""
            self._put(tensorboard_messages.hparams_event(self._run.wall(0.0), settings, name))

    def _put(self, data: bytes) -> None:
        self._file.write(tensorboard_records.record(data))

    def _put_item(self, item: Item) -> None:
        wall, value, has_settings = self._run.wall(item.t), item.value, bool(self._run.settings)
        if item.kind == "measure":
            number = self._number(item)
            self._put(tensorboard_messages.scalar_event(wall, self._step(item), item.name, number))
        elif item.kind == "note" and isinstance(value.get("text"), str):
            self._put(
                tensorboard_messages.text_event(wall, self._step(item), tensorboard_messages.NOTE_TAG, value["text"])
            )
        elif item.kind == "resume" and type(value.get("from_step")) is int:
            self._put(tensorboard_messages.session_event(wall, value["from_step"] + 1))
        elif item.kind == "end" and item.name == "reason" and has_settings:
            if value not in ("completed", "errored"):
                self._ledger.changed(REASON, item.place, value, "errored")
            self._put(tensorboard_messages.ending_event(wall, is_success=value == "completed"))
        elif not (item.kind == "fact" and item.name == "group" and has_settings):
            self._ledger.drop(NO_PLACE, item.place, value)
            return
        self._ledger.done()

    def _number(self, item: Item) -> float:
        if item.value is None:
            self._ledger.changed(NULL, item.place, "null", "nan")
            return math.nan
        rounded = tensorboard_messages.binary32(item.value)
        if rounded != item.value and not math.isnan(item.value):
            self._ledger.changed(BINARY32, item.place, item.value, rounded)
        return rounded

    def _step(self, item: Item) -> int:
        if item.step is None:
            self._ledger.changed(WITHOUT_STEP, item.place, "no step", 0)
        return item.step or 0

    def _setting(self, item: Item) -> float | str | bool:
        made = tensorboard_messages.hparam(item.value)
        if isinstance(made, str) and made is not item.value:
            self._ledger.changed(NOT_A_PARAMETER, item.place, item.value, made)
        return made
