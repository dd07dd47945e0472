"""metrics/v1 logs, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.convert.native_profiles import find_native, has_native, records
from toyspec.convert.reports import (
    Cause,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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
