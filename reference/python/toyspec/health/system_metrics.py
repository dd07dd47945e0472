"""Samples of the machine in a log: processor, memory, disk, network and GPUs."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.companions import Companionship

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toyspec.core.writing.run_writer import RunWriter

    Probe = Callable[[], dict[str, float]]
    """Returns numbers by name, the unit at the end of each; those of ``_OF_DEVICE`` are fields of the event."""


_STOP_SECONDS = 2.0
"""How long the end of a run waits for a measurement that is under way."""
_OF_DEVICE = ("memory_used_bytes", "memory_limit_bytes")
"""Memory of the device that has the least left, in use and in all."""


class System(msgspec.Struct, frozen=True):
    """Samples of the machine in the log: processor, memory, disk, network and GPUs."""

    seconds: float = 10.0
    """Seconds between two samples, and before the first one."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"seconds is {self.seconds!r}; it must be a number of seconds > 0")

    def started(self, run: RunWriter) -> SystemMetrics:
        """Return what samples the machine for *run*."""
        return SystemMetrics(run, self.seconds)


class SystemMetrics(Companionship):
    """Writes what the probes of this machine measure, at most every *seconds*, until ``ending``.

    The thread ends with the run or the program, whichever is first. A probe that fails is left out from then on.
    """

    def __init__(self, run: RunWriter, seconds: float, probes: Mapping[str, Probe] | None = None) -> None:
        """Measure every *seconds*; *probes* are those of this machine."""
        self._run = run
        self._seconds = seconds
        self._probes = None if probes is None else dict(probes)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._measure_until_stopped, name="toyspec-system", daemon=True)
        self._thread.start()

    def ending(self) -> None:
        """Write nothing more; wait at most two seconds for a probe that hangs."""
        self._stopped.set()
        # A forked child has no such thread, and a thread must not wait for itself.
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)

    def _measure_until_stopped(self) -> None:
        if self._probes is None:
            # Packages and drivers take their time, for which no training waits.
            self._probes = available_probes()
        while self._probes and not self._stopped.wait(self._seconds):
            self.measure()

    def measure(self) -> None:
        """Ask every probe once, and write one event with what they answer."""
        values: dict[str, float] = {}
        probes = self._probes or {}
        for name, probe in list(probes.items()):
            try:
                values |= probe()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, training goes on
                del probes[name]
                say(f"system metrics: {name} cannot be measured ({cause_of(error)}); it is left out from now on")
        memory: dict[str, Any] = {name: values.pop(name) for name in _OF_DEVICE if name in values}
        if (values or memory) and self._run.active and not self._run.resumes and not self._stopped.is_set():
            self._run.system(**memory, extra=values)


def available_probes() -> dict[str, Probe]:
    """Return the probes that work here: ``host`` needs psutil, ``gpu`` nvidia-ml-py."""
    found: dict[str, Probe] = {}
    for name, prepare in (("host", _host_probe), ("gpu", _gpu_probe)):
        try:
            found[name] = prepare()
        except Exception:  # noqa: BLE001, S112 - no such package, no such device, a driver that does not answer
            continue
    return found


def _host_probe() -> Probe:
    import psutil

    process = psutil.Process(os.getpid())
    process.cpu_percent()
    psutil.cpu_percent()

    def measure() -> dict[str, float]:
        memory, disk, network = psutil.virtual_memory(), psutil.disk_io_counters(), psutil.net_io_counters()
        values = {
            "host/cpu_percent": psutil.cpu_percent(),
            "host/memory_used_bytes": memory.total - memory.available,
            "host/memory_limit_bytes": memory.total,
            "process/cpu_percent": process.cpu_percent(),
            "process/memory_used_bytes": process.memory_info().rss,
        }
        if disk is not None:
            values |= {"host/disk_read_bytes": disk.read_bytes, "host/disk_written_bytes": disk.write_bytes}
        if network is not None:
            values |= {
                "host/network_received_bytes": network.bytes_recv,
                "host/network_sent_bytes": network.bytes_sent,
            }
        return values

    return measure


def _gpu_probe() -> Probe:
    import pynvml

    pynvml.nvmlInit()
    devices = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    if not devices:
        raise LookupError("no device")
    questions: dict[str, Callable[[Any], float]] = {
        "utilization_percent": lambda device: pynvml.nvmlDeviceGetUtilizationRates(device).gpu,
        "temperature_celsius": lambda device: pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU),
        "power_watts": lambda device: pynvml.nvmlDeviceGetPowerUsage(device) / 1000.0,
    }

    def measure() -> dict[str, float]:
        values: dict[str, float] = {}
        memories = []
        for index, device in enumerate(devices):
            memory = pynvml.nvmlDeviceGetMemoryInfo(device)
            memories.append((int(memory.used), int(memory.total)))
            values[f"gpu/{index}/memory_used_bytes"] = int(memory.used)
            values[f"gpu/{index}/memory_limit_bytes"] = int(memory.total)
            for name, ask in questions.items():
                # Some devices refuse a question.
                with contextlib.suppress(pynvml.NVMLError):
                    values[f"gpu/{index}/{name}"] = ask(device)
        fullest = min(memories, key=lambda memory: memory[1] - memory[0])
        return values | dict(zip(_OF_DEVICE, fullest, strict=True))

    return measure
