"""kaun/v1 runs."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from toyspec.convert.destinations.destination import Destination, Lost, folder_of, without_step
from toyspec.convert.reports import NO_PLACE, NOT_FINITE
from toyspec.core.format.canonical import encode
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item


class KaunStream(Destination):
    """A run directory for each run."""

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
        with open(os.path.join(folder, MANIFEST_FILE), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        self._file: BinaryIO = open(os.path.join(folder, EVENTS_FILE), "wb")  # noqa: SIM115
        return None

    def carry(self, item: Item) -> Iterator[Lost]:
        """Write a number; keep whether it is better when it is lower."""
        match item.kind:
            case "measure":
                yield from self._measure(item)
            case "definition" if item.value.get("goal") in ("min", "max"):
                self._minimizes[str(item.value.get("name"))] = item.value["goal"] == "min"
            case "setting":
                pass
            case "fact" if item.name in ("tags", "group"):
                pass
            case _:
                yield Lost(NO_PLACE, item)

    def _measure(self, item: Item) -> Iterator[Lost]:
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
