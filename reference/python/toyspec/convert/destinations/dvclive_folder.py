"""Folders of DVCLive: tables of metrics, parameters and the latest values."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.destinations.destination import (
    Destination,
    Lost,
    folder_of,
    in_milliseconds,
    null_as_nan,
    without_step,
)
from toyspec.convert.dvclive_files import LATEST, PARAMS, TABLES
from toyspec.convert.reports import NO_PLACE
from toyspec.convert.yaml_text import written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item

_ROWS = 1000


class DvcliveFolder(Destination):
    """A folder for each run."""

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Write the parameters."""
        del place
        self.run = run
        self._folder = folder_of(str(self.into), run)
        os.makedirs(os.path.join(self._folder, TABLES))
        self._latest: dict[str, Any] = {}
        self._step = 0
        # Keeping a file open for each metric could exceed what a process may have open.
        self._waiting: dict[str, list[str]] = {}
        if run.config:
            with open(os.path.join(self._folder, PARAMS), "w", encoding="utf-8") as params:
                params.write(written(run.config))
        return None

    def carry(self, item: Item) -> Iterable[Lost]:
        """Take a number."""
        if item.kind == "measure" and self._path(item.name) is not None:
            return self._measure(item)
        return () if item.kind == "setting" else [Lost(NO_PLACE, item)]

    def _path(self, name: str) -> str | None:
        """Return the path of the table of *name*; None for a name that is not a path below the directory."""
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part or "\\" in part or len(part.encode()) > 250 for part in parts):
            return None
        return os.path.join(self._folder, TABLES, *parts) + ".tsv"

    def _measure(self, item: Item) -> Iterator[Lost]:
        text = "nan" if item.value is None else repr(item.value)
        rows = self._waiting.setdefault(item.name, [])
        rows.append(f"{self.run.wall_ms(item.t)}\t{item.step or 0}\t{text}\n")
        if len(rows) == _ROWS:
            self._flush(item.name)
        self._latest[item.name] = item.value if item.value is not None and math.isfinite(item.value) else text
        self._step = max(self._step, item.step or 0)
        yield from without_step(item)
        yield from null_as_nan(item)
        yield from in_milliseconds(item, self.run)

    def close(self, end: Ending | None) -> None:
        """Write the rest, and the latest values."""
        del end
        for name in self._waiting:
            self._flush(name)
        document = msgspec.json.encode({**self._latest, "step": self._step})
        with open(os.path.join(self._folder, LATEST), "wb") as file:
            file.write(msgspec.json.format(document, indent=4))

    def _flush(self, name: str) -> None:
        path = self._path(name)
        assert path is not None, "only such names wait"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        is_new = not os.path.exists(path)
        with open(path, "a", encoding="utf-8", newline="") as file:
            file.write(f"timestamp\tstep\t{os.path.basename(name)}\n" if is_new else "")
            file.write("".join(self._waiting[name]))
        self._waiting[name] = []
