"""Event files of TensorBoard."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Final

from toyspec.convert import tensorboard_files
from toyspec.convert.destinations.destination import Destination, Lost, null_as_nan, number_of, without_step
from toyspec.convert.reports import BINARY32, NO_PLACE, Cause
from toyspec.core.directories import Directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item, ItemRow

NOT_A_PARAMETER = Cause("as-json", "changed", "a setting that is not a number, text or boolean is written as JSON text")
REASON = Cause("reason", "changed", "TensorBoard knows success and failure only")

_DEFAULT_DIRECTORY: Final = "tensorboard"


class TensorboardEvents(Destination):
    """An event file for each run, in a directory of its name.

    Equal rows have equal bytes, and each goes to the offset after the row before: what is sent twice is there once.
    """

    def __init__(self, into: str | None = None) -> None:
        """Write below the directory *into*."""
        super().__init__(into or _DEFAULT_DIRECTORY)
        self._descriptor = -1
        self._data = bytearray()

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Open the file; it begins again where no *place* in it is known."""
        self.run = run
        path = self._path(run)
        is_known = isinstance(place, int) and os.path.isfile(path) and os.path.getsize(path) >= place
        *_, folder, name = path.split(os.sep)
        with Directory(str(self.into), missing="make") as into, into.folder(folder) as directory:
            self._descriptor = directory.existing(name, os.O_CREAT | (0 if is_known else os.O_TRUNC))
        self.place = place if is_known else 0
        if is_known:
            return None
        self._add(tensorboard_files.version_event(run.wall(0.0)))
        if run.settings:
            shown = {name: tensorboard_files.hparam(value) for name, value in run.settings.items()}
            self._add(tensorboard_files.hparams_event(run.wall(0.0), shown, run.group or ""))
        self._write()
        return 0

    def _path(self, run: RunHead) -> str:
        """Return the path of the file; a directory that another run of this name has gets the identity after it."""
        assert self.into is not None, "there is a default"
        known = f".{run.identity}" if run.identity else ""
        name = f"events.out.tfevents.{int(run.wall(0.0)):010d}{known}.toyspec"
        plain = os.path.join(self.into, run.run_id)
        files = [entry for entry in (os.listdir(plain) if os.path.isdir(plain) else []) if "tfevents" in entry]
        return os.path.join(plain if not files or name in files else f"{plain}-{run.identity}", name)

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Write the values of *rows*, rounded to binary32."""
        lost = super().put(rows)
        self._write()
        return lost

    def carry(self, item: Item) -> Iterator[Lost]:
        """Add the event of an item."""
        messages, wall, step = tensorboard_files, self.run.wall(item.t), item.step or 0
        match item.kind:
            case "measure":
                yield from self._measure(item, wall, step)
            case "text":
                self._add(messages.text_event(wall, step, item.name, item.value))
                yield from without_step(item)
            case "note" if isinstance(item.value.get("text"), str):
                self._add(messages.text_event(wall, step, messages.NOTE_TAG, item.value["text"]))
                yield from without_step(item)
            case "histogram":
                value = tensorboard_files.histogram_value(item.value.edges, item.value.counts)
                self._add(messages.shown_event(wall, step, item.name, value))
                yield from without_step(item)
            case "resume" if type(item.value.get("from_step")) is int:
                self._add(messages.session_event(wall, item.value["from_step"] + 1))
            case "setting":
                yield from self._setting(item)
            case "end" if item.name == "reason" and self.run.settings:
                yield from self._reason(item)
            case "fact" if item.name == "group" and self.run.settings:
                pass
            case _:
                yield Lost(NO_PLACE, item)

    def _measure(self, item: Item, wall: float, step: int) -> Iterator[Lost]:
        value = number_of(item)
        rounded = tensorboard_files.binary32(value)
        self._add(tensorboard_files.scalar_event(wall, step, item.name, rounded))
        yield from null_as_nan(item)
        yield from without_step(item)
        if rounded != value and not math.isnan(value):
            yield Lost(BINARY32, item, value, rounded)

    def _reason(self, item: Item) -> Iterator[Lost]:
        if item.value not in ("completed", "errored"):
            yield Lost(REASON, item, item.value, "errored")

    def _setting(self, item: Item) -> Iterator[Lost]:
        made = tensorboard_files.hparam(item.value)
        if isinstance(made, str) and made is not item.value:
            yield Lost(NOT_A_PARAMETER, item, item.value, made)

    def close(self, end: Ending | None) -> None:
        """Write whether the run succeeded, which TensorBoard shows for runs with settings; close the file."""
        descriptor = self._descriptor
        if descriptor < 0:
            return
        if end is not None:
            if self.run.settings:
                # Not a row: written again, it goes to the same place.
                place = self.place
                is_success = end.reason == "completed"
                self._add(tensorboard_files.ending_event(self.run.wall(end.t), is_success=is_success))
                self._write()
                self.place = place
            os.fsync(descriptor)
        self._descriptor = -1
        os.close(descriptor)

    def _add(self, event: bytes) -> None:
        self._data += tensorboard_files.record(event)

    def _write(self) -> None:
        data, self._data = self._data, bytearray()
        os.lseek(self._descriptor, self.place, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self.place += len(data)
