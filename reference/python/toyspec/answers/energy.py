"""The energy of a run, integrated from samples of power, and what the samples do not cover."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.reading.records import Record

_SUFFIX = "power_watts"
_MOST_WATTS = 1e9
_LONGEST = 3.0
"""An interval longer than this many median intervals is not measured."""


class DeviceEnergy(msgspec.Struct, frozen=True):
    """What one device used, as far as it was sampled."""

    host: str | None
    """Name of the machine; None where the log does not have it."""
    device: str
    """Name of the metric of its power, in watts."""
    rank: int
    """The process whose samples these are."""
    joules: float
    """Energy between samples, by the trapezoidal rule."""
    samples: int
    measured_seconds: float
    """Time between samples that were near enough to each other."""
    left_out_seconds: float
    """Time between samples that were further apart than 3 median intervals."""


def devices_of(records: Iterable[Record], host: str | None, rank: int) -> list[DeviceEnergy]:
    """Return the energy of each device that *records* have samples of, superseded ones included: they used it too."""
    samples: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        extra = record.get("extra") if record.kind == "system" else None
        if record.time is None or not isinstance(extra, dict):
            continue
        for name, watts in extra.items():
            if name.endswith(_SUFFIX) and type(watts) in (int, float) and 0 <= watts < _MOST_WATTS:
                samples.setdefault(name, []).append((record.time, float(watts)))
    return [_integrated(name, host, rank, found) for name, found in samples.items()]


def energy_of(devices: list[DeviceEnergy], seconds: float | None, said: Any, unsampled: list[int]) -> dict[str, Any]:
    """Return the energy of a run that took *seconds*, with all that was not measured.

    *said* is what the log itself says, in joules; *unsampled* are the processes without samples. A device that several
    processes of one machine sampled counts once.
    """
    best: dict[tuple[str | None, str], DeviceEnergy] = {}
    for each in sorted(devices, key=lambda device: (-device.measured_seconds, device.rank)):
        best.setdefault((each.host, each.device), each)
    counted = sorted(best.values(), key=lambda device: (device.rank, device.device))
    gaps = ["processors, memory, network, storage and cooling, unless a sampled device includes them"]
    gaps += [f"rank {rank}: it has no samples of power" for rank in unsampled]
    for each in counted:
        missing = None if seconds is None else max(0.0, seconds - each.measured_seconds)
        if missing is None or missing > 0:
            shown = "an unknown number of" if missing is None else f"{missing:.3f}"
            gaps.append(f"{shown} seconds of {each.device} on rank {each.rank}: no samples near enough to each other")
    return {
        "joules": sum(each.joules for each in counted) if counted else None,
        "devices": [msgspec.to_builtins(each) for each in counted],
        "log_says_joules": said if isinstance(said, int | float) else None,
        "not_measured": gaps,
    }


def _integrated(name: str, host: str | None, rank: int, samples: list[tuple[float, float]]) -> DeviceEnergy:
    pairs = [(one, two) for one, two in pairwise(samples) if two[0] > one[0]]
    longest = _LONGEST * median(two[0] - one[0] for one, two in pairs) if pairs else 0.0
    near = [(one, two) for one, two in pairs if two[0] - one[0] <= longest]
    joules = sum((two[0] - one[0]) * (one[1] + two[1]) / 2 for one, two in near)
    measured = sum(two[0] - one[0] for one, two in near)
    whole = sum(two[0] - one[0] for one, two in pairs)
    return DeviceEnergy(host, name, rank, joules, len(samples), measured, whole - measured)
