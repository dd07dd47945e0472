"""Writes the TensorBoard event file of a toy/v1 run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toyspec.convert import tensorboard_media, tensorboard_messages, tensorboard_records
from toyspec.convert.exported_runs import bins_of
from toyspec.convert.incoming_files import MISSING_FILE
from toyspec.convert.losses import (
    BINARY32,
    NO_PLACE,
    NULL,
    WITHOUT_STEP,
    Cause,
)
from toyspec.files import open_file

if TYPE_CHECKING:
    from typing import BinaryIO

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger

NOT_A_PARAMETER = Cause("as-json", "changed", "a setting that is not a number, text or boolean is written as JSON text")
REASON = Cause("reason", "changed", "TensorBoard knows success and failure only")
CAPTION = Cause("caption", "changed", "TensorBoard has no caption for a picture")

_WAV = "audio/wav"


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
        elif item.kind == "text":
            self._put(tensorboard_messages.text_event(wall, self._step(item), item.name, value))
        elif item.name in ("media", "histogram") and (shown := self._shown(item)) is not None:
            if not shown:
                self._ledger.drop(MISSING_FILE, item.place, value)
                return
            self._put(tensorboard_messages.shown_event(wall, self._step(item), str(value.get("name")), shown))
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

    def _shown(self, item: Item) -> bytes | None:
        """Return the fields of the value of a ``media`` or ``histogram`` record; none without its file.

        None where TensorBoard has no place for it.
        """
        value = item.value
        if item.name == "histogram":
            bins = bins_of(value)
            return None if bins is None else tensorboard_media.histogram_value(*bins)
        media_type = str(value.get("media_type"))
        if not media_type.startswith("image/") and media_type != _WAV:
            return None
        path = self._run.file_of(value)
        if path is None:
            return b""
        with open_file(path) as file:
            data = file.read()
        caption = value.get("caption")
        if media_type == _WAV:
            return tensorboard_media.strings_value("audio", [data, str(caption or "").encode()], [1, 2])
        if caption:
            self._ledger.changed(CAPTION, item.place, caption)
        sizes = [str(value.get(name) or 0).encode() for name in ("width", "height")]
        return tensorboard_media.strings_value("images", [*sizes, data], [3])

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
