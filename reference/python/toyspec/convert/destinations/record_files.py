"""Runs as logs of the profiles kaun/v1 and metrics/v1."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from toyspec.convert.destinations.destination import Destination, Lost, folder_of, without_step
from toyspec.convert.reports import BINARY32, NO_PLACE, NOT_FINITE, Cause
from toyspec.convert.tensorboard_files import binary32
from toyspec.core.directories import new_file
from toyspec.core.format.canonical import encode
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE, METRICS_FILE
from toyspec.core.generated.limits import BINARY32_LIMIT
from toyspec.core.generated.runs import LOSS_NAMES
from toyspec.core.runs.run_facts import loss_among

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item, ItemRow

REQUIRED = Cause("required", "dropped", "metrics/v1 takes no record without a step and a loss")
RENAMED = Cause("renamed", "changed", "the training loss of the run, by whatever name, is the loss of the entry")
TOO_LARGE = Cause("too-large", "changed", "a number beyond binary32 is written as null")

_MEASURES = ("loss", "grad_norm", "throughput_samples_per_sec")
_MAX_STEP = (1 << 32) - 1


class KaunStream(Destination):
    """A run directory for each run."""

    carried: ClassVar = {"setting": None, "fact": ("tags", "group")}

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Write the manifest."""
        del place
        self.run = run
        self._minimizes: dict[str, bool] = {}
        folder = folder_of(str(self.into), run)
        manifest: dict[str, Any] = {"schema_version": 1, "run_id": run.run_id, "created_at": run.wall(0.0)}
        manifest |= {key: run.start[key] for key in ("tags", "config") if run.start.get(key)}
        if isinstance(run.start.get("group"), str):
            manifest["experiment"] = run.start["group"]
        with new_file(os.path.join(folder, MANIFEST_FILE)) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        self._file = new_file(os.path.join(folder, EVENTS_FILE))
        return None

    def carry(self, item: Item) -> Iterable[Lost]:
        """Write a number; keep whether it is better when it is lower."""
        if item.kind == "definition" and item.value.get("goal") in ("min", "max"):
            self._minimizes[str(item.value.get("name"))] = item.value["goal"] == "min"
            return ()
        return super().carry(item)

    def measure(self, item: Item) -> Iterator[Lost]:
        """Write an event."""
        event = {
            "type": "scalar", "step": item.step or 0, "wall_time": self.run.wall(item.t), "tag": item.name,
            "value": item.value,
        }  # fmt: skip
        if item.name in self._minimizes:
            event["minimize"] = self._minimizes[item.name]
        self._file.write(encode(event, profile="kaun/v1") + b"\n")
        yield from without_step(item)
        if item.value is not None and not math.isfinite(item.value):
            yield Lost(NOT_FINITE, item, item.value, "null")

    def close(self, end: Ending | None) -> None:
        """Close the stream: it has no end of the run."""
        del end
        self._file.close()


class MetricsStream(Destination):
    """``metrics.jsonl`` in a folder for each run."""

    needs_metrics = True

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Begin the log; its loss is the training loss of the run, as `toyspec show` finds it."""
        del place
        self._loss = loss_among(set(run.metrics)) or LOSS_NAMES[0]
        self._file = new_file(os.path.join(folder_of(str(self.into), run), METRICS_FILE))
        return None

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Write an entry for each row with a step and a loss."""
        return [lost for row in rows for lost in self._entry(row)]

    def _entry(self, row: ItemRow) -> Iterator[Lost]:
        measures = [item for item in row.items if item.kind == "measure"]
        step = row.step
        is_entry = step is not None and step <= _MAX_STEP and any(item.name == self._loss for item in measures)
        yield from (Lost(NO_PLACE, item) for item in row.items if item.kind != "measure")
        if not is_entry:
            yield from (Lost(REQUIRED, item) for item in measures)
            return
        values: dict[str, float | None] = {}
        for item in measures:
            name = LOSS_NAMES[0] if item.name == self._loss else item.name
            values[name] = None
            if name != item.name:
                yield Lost(RENAMED, item, item.name, name)
            if item.value is None:
                continue
            if not math.isfinite(item.value):
                yield Lost(NOT_FINITE, item, item.value, "null")
            elif abs(item.value) >= BINARY32_LIMIT:
                yield Lost(TOO_LARGE, item, item.value, "null")
            else:
                values[name] = binary32(item.value)
                if values[name] != item.value:
                    yield Lost(BINARY32, item, item.value, values[name])
        entry: dict[str, Any] = {"step": step, "wall_time_ms": row.t * 1000}
        entry |= {name: values.pop(name, None) for name in _MEASURES}
        self._file.write(encode({**entry, **({"extra": values} if values else {})}, profile="metrics/v1") + b"\n")

    def close(self, end: Ending | None) -> None:
        """Close the log."""
        del end
        self._file.close()
