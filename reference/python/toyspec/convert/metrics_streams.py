"""metrics/v1 logs, in both directions."""

from __future__ import annotations

import math
import os
import struct
from typing import TYPE_CHECKING, Any

from toyspec.convert.exported_runs import by_record
from toyspec.convert.losses import (
    BINARY32,
    NO_PLACE,
    NOT_FINITE,
    Cause,
    Ledger,
)
from toyspec.convert.native_profiles import find_native, has_native, records
from toyspec.format.canonical import encode
from toyspec.format.profiles import METRICS_FILE
from toyspec.generated.limits import BINARY32_LIMIT
from toyspec.generated.runs import LOSS_NAMES
from toyspec.runs.metric_names import loss_among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.formats import ForeignRun
    from toyspec.convert.intake import Intake

REQUIRED = Cause("required", "dropped", "metrics/v1 takes no record without a step and a loss")
RENAMED = Cause("renamed", "changed", "the training loss of the run, by whatever name, is the loss of the entry")
TOO_LARGE = Cause("too-large", "changed", "a number beyond binary32 is written as null")

_MEASURES = ("loss", "grad_norm", "throughput_samples_per_sec")
_FRAMING = frozenset(["step", "wall_time_ms", "extra"])
_MAX_STEP = (1 << 32) - 1


def recognise(path: str) -> bool:
    """Return whether *path* is a metrics/v1 log, or a directory with some."""
    return has_native(path, "metrics/v1")


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Return the metrics/v1 logs at *path* and below."""
    return find_native(path, "metrics/v1", _records)


def _records(stream: str, intake: Intake) -> Iterator[bytes]:
    # Times count from the start of training.
    yield from intake.begin(0.0)
    for record in records(stream, "metrics/v1", intake.ledger):
        value, extra = record.value, record.value.get("extra")
        members = {key: item for key, item in value.items() if key not in _FRAMING}
        members |= extra if isinstance(extra, dict) else {}
        step = value.get("step") if record.step is None else record.step
        yield from intake.values(record.time, step, members, f"line {record.line}")


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write a log for each of *runs*."""
    for run, ledger in runs:
        folder = os.path.join(directory, run.run_id)
        os.makedirs(folder)
        loss = _loss_of(run)
        with open(os.path.join(folder, METRICS_FILE), "wb") as file:
            for items in by_record(run.items(ledger)):
                line = _entry(items, loss, ledger)
                if line is not None:
                    file.write(line + b"\n")


def _loss_of(run: ExportedRun) -> str:
    """Return the name of the training loss of *run*, as `toyspec show` finds it."""
    names: set[str] = set()
    for item in run.items(Ledger()):
        if item.kind == "measure" and item.name in LOSS_NAMES:
            names.add(item.name)
            if item.name == LOSS_NAMES[0]:
                break
    return loss_among(names) or LOSS_NAMES[0]


def _entry(items: list[Item], loss: str, ledger: Ledger) -> bytes | None:
    measures = {item.name: item for item in items if item.kind == "measure"}
    step = items[0].step
    is_entry = step is not None and step <= _MAX_STEP and loss in measures
    values: dict[str, float | None] = {}
    for item in items:
        if item.kind != "measure":
            ledger.drop(NO_PLACE, item.place, item.value)
        elif not is_entry:
            ledger.drop(REQUIRED, item.place, item.value)
        else:
            if item.name == loss != LOSS_NAMES[0]:
                ledger.changed(RENAMED, item.place, loss, LOSS_NAMES[0])
            values[LOSS_NAMES[0] if item.name == loss else item.name] = _binary32(item, ledger)
            ledger.done()
    if not is_entry:
        return None
    entry: dict[str, Any] = {"step": step, "wall_time_ms": items[0].t * 1000}
    entry |= {name: values.pop(name, None) for name in _MEASURES}
    return encode({**entry, **({"extra": values} if values else {})}, profile="metrics/v1")


def _binary32(item: Item, ledger: Ledger) -> float | None:
    if item.value is None or not math.isfinite(item.value):
        if item.value is not None:
            ledger.changed(NOT_FINITE, item.place, item.value, "null")
        return None
    if abs(item.value) >= BINARY32_LIMIT:
        ledger.changed(TOO_LARGE, item.place, item.value, "null")
        return None
    rounded = float(struct.unpack("<f", struct.pack("<f", item.value))[0])
    if rounded != item.value:
        ledger.changed(BINARY32, item.place, item.value, rounded)
    return rounded
